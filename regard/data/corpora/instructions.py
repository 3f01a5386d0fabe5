"""A small language of instructions, made by rule: nothing is downloaded, and every answer is known.

    python -m regard.data.corpora.instructions data/instructions

Most instructions can be answered shortly ("hen") or in a sentence ("The first word is hen."); a few in one way only.
"""

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from regard.data.corpora.grammar import SUBJECTS
from regard.data.files.conversations import ASSISTANT, SYSTEM, USER, Conversation, Message

WORDS = tuple(SUBJECTS)
NAMES = ("Ada", "Alan", "Anna", "Ben", "Carla", "David", "Emma", "Felix", "Grace", "Hugo", "Ida", "Jan")
NUMBERS = ("zero", "one", "two", "three", "four", "five")
LONG_SHARE = 0.7  # of the answers in conversations that are whole sentences: what a model says when it must choose
N_TRAIN, N_HELD_OUT, N_PAIRS, N_HELD_OUT_PAIRS = 12_000, 400, 1500, 500


class AskedTurn(NamedTuple):
    """What the user says, and every good answer: shortly and in a sentence, or one alone."""

    asked: str
    answers: tuple[str, ...]
    system: str = ""


class InstructionForm(NamedTuple):
    """A turn with gaps in braces, and what draws the words that fill them."""

    drawn: Callable[[random.Random], dict[str, str]]
    asked: str
    answers: tuple[str, ...]
    system: str = ""

    def turn(self, draw: random.Random) -> AskedTurn:
        gaps = self.drawn(draw)
        answers = tuple(answer.format(**gaps) for answer in self.answers)
        return AskedTurn(self.asked.format(**gaps), answers, self.system.format(**gaps))


def some_words(draw: random.Random, most: int = 5) -> dict[str, str]:
    words = draw.sample(WORDS, draw.randint(2, most))
    spaced = " ".join(words)
    return {
        "words": ", ".join(words),
        "backwards": ", ".join(reversed(words)),
        "spaced": spaced,
        "capitals": spaced.upper(),
        "first": words[0],
        "last": words[-1],
        "number": NUMBERS[len(words)],
    }


def some_name(draw: random.Random) -> dict[str, str]:
    return {"name": draw.choice(NAMES)}


OPEN: tuple[InstructionForm, ...] = (
    InstructionForm(some_words, "Which word comes first: {words}?", ("{first}", "The first word is {first}.")),
    InstructionForm(some_words, "Which word comes last: {words}?", ("{last}", "The last word is {last}.")),
    InstructionForm(some_words, "How many words are these: {words}?", ("{number}", "There are {number} words.")),
    InstructionForm(some_words, "Say backwards: {words}.", ("{backwards}", "Backwards that is {backwards}.")),
    InstructionForm(
        partial(some_words, most=3), "Write {spaced} in capitals.", ("{capitals}", "In capitals that is {capitals}.")
    ),
)
FIXED: tuple[InstructionForm, ...] = (
    InstructionForm(some_name, "My name is {name}.", ("Hello, {name}! What can I do for you?",)),
    InstructionForm(some_name, "Who are you?", ("I am {name}, and I know many words.",), system="You are {name}."),
    InstructionForm(some_words, "Repeat after me: {words}.", ("{words}.",)),
)


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """No open instruction that is held out is in training; of a pair the short answer is preferred."""

    train: list[Conversation]
    held_out: list[Conversation]
    fixed: list[Conversation]  # held out, of the instructions with one answer alone
    preferred: list[AskedTurn]
    held_out_preferred: list[AskedTurn]

    def write(self, folder: Path | str) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, talks in (("train", self.train), ("held-out", self.held_out), ("fixed", self.fixed)):
            records = [{"messages": [asdict(message) for message in talk]} for talk in talks]
            write_lines(folder / f"{name}.jsonl", records)
        for name, turns in (("pairs", self.preferred), ("held-out-pairs", self.held_out_preferred)):
            pairs = [{"prompt": asked, "chosen": short, "rejected": long} for asked, (short, long), _ in turns]
            write_lines(folder / f"{name}.jsonl", pairs)


def generate(seed: int = 0) -> Instructions:
    draw = random.Random(seed)
    held_out: set[str] = set()

    def held(kinds: tuple[InstructionForm, ...]) -> AskedTurn:
        turn = draw.choice(kinds).turn(draw)
        held_out.add(turn.asked)
        return turn

    def learned(kinds: tuple[InstructionForm, ...]) -> AskedTurn:
        kind = draw.choice(kinds)
        turn = kind.turn(draw)
        while kind in OPEN and turn.asked in held_out:
            turn = kind.turn(draw)
        return turn

    def talk(
        kinds: tuple[InstructionForm, ...], make: Callable[[tuple[InstructionForm, ...]], AskedTurn]
    ) -> Conversation:
        """One to three turns."""
        turns = [make(kinds) for _ in range(draw.randint(1, 3))]
        system = next((turn.system for turn in turns if turn.system), "")
        turns = [turn for turn in turns if turn.system in ("", system)]
        messages = [Message(SYSTEM, system)] if system else []
        for turn in turns:
            is_long = draw.random() < LONG_SHARE
            messages += [Message(USER, turn.asked), Message(ASSISTANT, turn.answers[-1 if is_long else 0])]
        return tuple(messages)

    return Instructions(
        held_out_preferred=[held(OPEN) for _ in range(N_HELD_OUT_PAIRS)],
        held_out=[talk(OPEN + FIXED, held) for _ in range(N_HELD_OUT)],
        fixed=[talk(FIXED, held) for _ in range(N_HELD_OUT)],
        preferred=[learned(OPEN) for _ in range(N_PAIRS)],
        train=[talk(OPEN + FIXED, learned) for _ in range(N_TRAIN)],
    )


def write_lines(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m regard.data.corpora.instructions FOLDER")
    generate().write(sys.argv[1])
    print(f"wrote {sys.argv[1]}: conversations and pairs of answers")
