"""Keys and values far apart: nothing but memory can tell what a key stood for, made by rule.

    python -m regard.data.corpora.recall data/recall

A line says what letters mean, then nothing for a long time, and then asks:  a3k7q1..........?q1?a3?k7
"""

import argparse
import math
import random
from pathlib import Path

KEYS, VALUES, FILLER, ASKED = "abcdefghijklmnopqrstuvwxyz", "0123456789", ".", "?"
N_PAIRS = 8
NEAR = (4, 100)  # fillers of a line to learn from, at least and at most
N_ROUNDS = 3  # of questions in such a line: what was asked before is learned first
FAR = (4096, 32_768)  # characters of a line that is held out
N_TRAIN, N_VALID, N_FAR = 20_000, 200, 20


def line(draw: random.Random, n_fillers: int, n_rounds: int) -> str:
    """One text.  Every key is asked for in every round, each time in another order."""
    pairs = [key + draw.choice(VALUES) for key in draw.sample(KEYS, N_PAIRS)]
    asked = [pair for _ in range(n_rounds) for pair in draw.sample(pairs, N_PAIRS)]
    return "".join(pairs) + FILLER * n_fillers + "".join(ASKED + pair for pair in asked)


def near_lines(seed: int, n: int) -> list[str]:
    """Short distances are as frequent as long ones, by their logarithm."""
    draw, (least, most) = random.Random(f"near {seed}"), map(math.log, NEAR)
    return [line(draw, round(math.exp(draw.uniform(least, most))), N_ROUNDS) for _ in range(n)]


def far_lines(length: int, n: int) -> list[str]:
    """Lines of so many characters."""
    draw = random.Random(f"far {length}")
    return [line(draw, length - 5 * N_PAIRS, n_rounds=1) for _ in range(n)]


def question(text: str) -> tuple[str, str]:
    """A line up to its first question, and the value that answers it."""
    end = text.index(ASKED) + 2
    return text[:end], text[end]


def write(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": near_lines(0, N_TRAIN), "valid": near_lines(1, N_VALID)}
    parts |= {f"far-{length}": far_lines(length, N_FAR) for length in FAR}
    for name, lines in parts.items():
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    return f"wrote {folder}: {N_TRAIN:,} lines to learn from, and {N_FAR} of {' and '.join(map(str, FAR))} characters"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write lines of keys and values that are asked for later")
    parser.add_argument("folder", type=Path, help="such as data/recall; made where it is not there")
    print(write(parser.parse_args().folder))
