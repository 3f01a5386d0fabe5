"""regard play: a run plays its game; regard record: episodes to learn from, played without a model."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import regard
from regard.commands.lines import say_notes, write_line
from regard.commands.options import Decoding, Device, RunFolder, decoding_settings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.decisions.verbs import Played


class Way(StrEnum):
    RANDOM = "random"
    GOOD = "good"
    MIXED = "mixed"


def play(
    run: RunFolder,
    asked: Annotated[float | None, typer.Option("--return", help="the return to reach (default: the recipe's)")] = None,
    episodes: Annotated[int, typer.Option(min=1, max=100_000, help="how many")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="of the first episode; the next have the next")] = 0,
    set_: Decoding = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per episode")] = False,
    device: Device = None,
) -> None:
    """Play episodes of the run's game: the board at every step of one episode, or a line for each of several."""
    loaded = regard.load(run, device)
    loaded.check_can("play")
    decoding = decoding_settings(loaded, set_ or [])
    boards = episodes == 1 or as_json
    played = loaded.play(episodes=episodes, asked=asked, seed=seed, boards=boards, decoding=decoding)
    for number, episode in enumerate(played, 1):
        if as_json:
            write_line(json.dumps({"episode": number, **asdict(episode)}, ensure_ascii=False))
            continue
        if episodes == 1:
            show_boards(episode)
        goal = "" if episode.asked is None else f"asked {episode.asked:g}, "
        print(f"{goal}reached {episode.reached:g} in {len(episode.rewards)} steps (seed {episode.seed})")
        say_notes(number, episode.notes)
    if episodes > 1 and not as_json:
        mean = sum(episode.reached for episode in played) / episodes
        print(f"mean of {episodes}: {mean:.4g}; `regard evaluate` gives intervals", file=sys.stderr)


def show_boards(episode: "Played") -> None:
    expected = [f", expecting {value:.2f}" for value in episode.expected] or [""] * len(episode.names)
    for step, (board, name, reward) in enumerate(zip(episode.boards, episode.names, episode.rewards, strict=False)):
        rewarded = f", reward {reward:g}" if reward else ""
        print(f"{board}\nstep {step + 1}: {name}{expected[step]}{rewarded}\n")
    print(episode.boards[-1])


def record(
    game: Annotated[str, typer.Argument(metavar="GAME", help="key-to-door, luck, steer, gymnasium:CartPole-v1 ...")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a .jsonl file to write, one episode a line")],
    episodes: Annotated[int, typer.Option(min=1, help="how many")] = 1000,
    way: Annotated[
        Way, typer.Option("--play", help="any actions; good ones; or mixed, each episode with a skill of its own")
    ] = Way.RANDOM,
    seed: Annotated[int, typer.Option(min=0, help="equal seeds give equal files")] = 0,
) -> None:
    """Record episodes of a game for `regard train`: states, actions and rewards, as JSONL."""
    from regard.data.episodes.recording import record_episodes, write_episodes

    if file.suffix != ".jsonl":
        raise ConfigError(f"{file}: episodes are JSONL, so the name must end in .jsonl")
    if file.exists():
        raise ConfigError(f"{file} exists already; remove it, or choose another name")
    n_steps, returns = write_episodes(file, record_episodes(game, way.value, episodes, seed))
    mean = sum(returns) / len(returns)
    spread = f"returns from {min(returns):g} to {max(returns):g}, on average {mean:.4g}"
    print(f"{file}: {episodes:,} episodes, {n_steps:,} steps; {spread}")
