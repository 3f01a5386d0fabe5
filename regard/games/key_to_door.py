"""Key-to-Door: three rooms, and a door that opens only for who took the key two rooms before."""

import numpy as np

from regard.games.game import Action, Choice, Outcome

SIDE = 5  # squares of each side of a room
STEPS = 8  # in each room; a walk from corner to corner takes as many
THINGS = ("key", "nothing", "door")  # what is in each room, in the order in which the player comes through them
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
MARKS = {"key": "k", "door": "D"}

Square = tuple[int, int]  # row and column


class KeyToDoor:
    """A room with a key, an empty room, and a room with a door, eight steps in each.  Reaching the door gives 1 and
    ends the episode, but only with the key; without it the door stays shut  (Mesnard et al. 2021; Chen et al. 2021,
    section 5.4).

    The player sees what is in the room, in which direction, and how many squares it is away.  Whether the key was
    taken cannot be seen in the rooms that follow: only the past tells.  A random walk succeeds in 3.2 % of episodes
    (computed from the chances of every square; a test draws them).
    """

    action_names: tuple[str, ...] = tuple(MOVES)

    def __init__(self) -> None:
        self.action_space = Choice(len(MOVES))

    def reset(self, *, seed: int | None = None) -> tuple[tuple[str, ...], dict[str, object]]:
        self.draw = np.random.default_rng(seed)
        self.n_steps, self.has_key, self.is_open = 0, False, False
        self.enter(0)
        return self.state(), {}

    def enter(self, room: int) -> None:
        """The player and the thing get places of their own, by chance."""
        self.room, self.thing = room, THINGS[room]
        places = self.draw.choice(SIDE * SIDE, size=2, replace=False)
        self.player, self.place = (divmod(int(place), SIDE) for place in places)

    def state(self) -> tuple[str, ...]:
        """ "key", "down", "3", "left", "1"; in a direction in which it is not away at all, "" and "0"."""
        if self.thing == "nothing":
            return "nothing", "", "", "", ""
        down, right = (goal - at for goal, at in zip(self.place, self.player, strict=True))
        return self.thing, way(down, "up", "down"), str(abs(down)), way(right, "left", "right"), str(abs(right))

    def step(self, action: Action) -> Outcome:
        down, right = MOVES[self.action_names[int(action)]]
        row, column = self.player[0] + down, self.player[1] + right
        self.player = min(max(row, 0), SIDE - 1), min(max(column, 0), SIDE - 1)
        self.n_steps += 1
        is_there = self.player == self.place
        if is_there and self.thing == "key":
            self.has_key, self.thing = True, "nothing"
        self.is_open = is_there and self.thing == "door" and self.has_key
        is_late = self.n_steps == STEPS * len(THINGS)
        if not self.is_open and not is_late and self.n_steps % STEPS == 0:
            self.enter(self.room + 1)
        return self.state(), float(self.is_open), self.is_open, is_late and not self.is_open, {}

    def board(self) -> str:
        squares = [["·"] * SIDE for _ in range(SIDE)]
        if self.thing in MARKS:
            squares[self.place[0]][self.place[1]] = MARKS[self.thing]
        squares[self.player[0]][self.player[1]] = "★" if self.is_open else "@"
        lines = [f"# {' '.join(row)} #" for row in squares]
        wall = "#" * len(lines[0])
        pocket = "with the key" if self.has_key else "without the key"
        return "\n".join([f"room {self.room + 1} of {len(THINGS)}, {pocket}", wall, *lines, wall])


def way(squares: int, back: str, ahead: str) -> str:
    return ahead if squares > 0 else back if squares < 0 else ""


def walk(state: tuple[str, ...]) -> int:
    """To the thing in the room, by the shortest way; up where there is none."""
    return tuple(MOVES).index(state[1] or state[3] or "up")
