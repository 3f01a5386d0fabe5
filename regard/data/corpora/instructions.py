"""A small language of instructions, made by rule: nothing is downloaded, and every answer is known.

    python -m regard.data.corpora.instructions data/instructions

Most instructions can be answered shortly ("hen") or in a sentence ("The first word is hen."); a few in one way only.
"""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from regard.data.corpora.lexicon import SUBJECTS
from regard.data.files.conversations import ASSISTANT, SYSTEM, USER, Conversation, Message

WORDS = tuple(SUBJECTS)
NAMES = ("Ada", "Alan", "Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo", "Ida", "Jan")
NUMBERS = ("zero", "one", "two", "three", "four", "five")
LONG_SHARE = 0.7  # of the answers in conversations that are whole sentences: what a model says when it must choose
N_TRAIN, N_HELD_OUT, N_PAIRS, N_HELD_OUT_PAIRS = 12_000, 400, 1500, 500


@dataclass(frozen=True)
class Turn:
    """What the user says, and every good answer: shortly and in a sentence, or one alone."""

    asked: str
    answers: tuple[str, ...]
    system: str = ""


def some_words(draw: random.Random) -> list[str]:
    return draw.sample(WORDS, draw.randint(2, 5))


def first(draw: random.Random) -> Turn:
    words = some_words(draw)
    return Turn(f"Which word comes first: {', '.join(words)}?", (words[0], f"The first word is {words[0]}."))


def last(draw: random.Random) -> Turn:
    words = some_words(draw)
    return Turn(f"Which word comes last: {', '.join(words)}?", (words[-1], f"The last word is {words[-1]}."))


def count(draw: random.Random) -> Turn:
    words = some_words(draw)
    number = NUMBERS[len(words)]
    return Turn(f"How many words are these: {', '.join(words)}?", (number, f"There are {number} words."))


def backwards(draw: random.Random) -> Turn:
    words = some_words(draw)
    turned = ", ".join(reversed(words))
    return Turn(f"Say backwards: {', '.join(words)}.", (turned, f"Backwards that is {turned}."))


def capitals(draw: random.Random) -> Turn:
    words = draw.sample(WORDS, draw.randint(2, 3))
    large = " ".join(words).upper()
    return Turn(f"Write {' '.join(words)} in capitals.", (large, f"In capitals that is {large}."))


def greeting(draw: random.Random) -> Turn:
    name = draw.choice(NAMES)
    return Turn(f"My name is {name}.", (f"Hello, {name}! What can I do for you?",))


def own_name(draw: random.Random) -> Turn:
    name = draw.choice(NAMES)
    return Turn("Who are you?", (f"I am {name}, and I know many words.",), system=f"You are {name}.")


def repeating(draw: random.Random) -> Turn:
    words = ", ".join(some_words(draw))
    return Turn(f"Repeat after me: {words}.", (f"{words}.",))


Kinds = tuple[Callable[[random.Random], Turn], ...]

OPEN: Kinds = (first, last, count, backwards, capitals)
FIXED: Kinds = (greeting, own_name, repeating)


@dataclass
class Instructions:
    """No open instruction that is held out is in training; of a pair the short answer is preferred."""

    train: list[Conversation] = field(default_factory=list)
    held_out: list[Conversation] = field(default_factory=list)
    fixed: list[Conversation] = field(default_factory=list)  # held out, of the instructions with one answer alone
    preferred: list[Turn] = field(default_factory=list)
    held_out_preferred: list[Turn] = field(default_factory=list)

    def write(self, folder: Path | str) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, talks in (("train", self.train), ("held-out", self.held_out), ("fixed", self.fixed)):
            write_lines(folder / f"{name}.jsonl", [{"messages": as_json(talk)} for talk in talks])
        for name, turns in (("pairs", self.preferred), ("held-out-pairs", self.held_out_preferred)):
            write_lines(
                folder / f"{name}.jsonl",
                [{"prompt": turn.asked, "chosen": turn.answers[0], "rejected": turn.answers[1]} for turn in turns],
            )


def generate(seed: int = 0) -> Instructions:
    draw = random.Random(seed)
    found, held_out = Instructions(), set[str]()

    def held(kinds: Kinds) -> Turn:
        turn = draw.choice(kinds)(draw)
        held_out.add(turn.asked)
        return turn

    def learnt(kinds: Kinds) -> Turn:
        make = draw.choice(kinds)
        turn = make(draw)
        while make in OPEN and turn.asked in held_out:
            turn = make(draw)
        return turn

    def talk(kinds: Kinds, make: Callable[[Kinds], Turn]) -> Conversation:
        """One to three turns."""
        turns = [make(kinds) for _ in range(draw.randint(1, 3))]
        system = next((turn.system for turn in turns if turn.system), "")
        turns = [turn for turn in turns if turn.system in ("", system)]
        messages = [Message(SYSTEM, system)] if system else []
        for turn in turns:
            is_long = draw.random() < LONG_SHARE
            messages += [Message(USER, turn.asked), Message(ASSISTANT, turn.answers[-1 if is_long else 0])]
        return tuple(messages)

    everything = OPEN + FIXED
    found.held_out_preferred += [held(OPEN) for _ in range(N_HELD_OUT_PAIRS)]
    found.held_out += [talk(everything, held) for _ in range(N_HELD_OUT)]
    found.fixed += [talk(FIXED, held) for _ in range(N_HELD_OUT)]
    found.preferred += [learnt(OPEN) for _ in range(N_PAIRS)]
    found.train += [talk(everything, learnt) for _ in range(N_TRAIN)]
    return found


def as_json(talk: Conversation) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in talk]


def write_lines(path: Path, records: list[dict[str, object]]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m regard.data.corpora.instructions FOLDER")
    generate().write(sys.argv[1])
    print(f"wrote {sys.argv[1]}: conversations and pairs of answers")
