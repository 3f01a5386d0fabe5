"""Running totals: sums in words, and after each word what they come to so far, made by rule.

python -m regard.data.corpora.totals data/totals

three 3 · plus 3 · eight 11 · minus 11 · two 9
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIGNS = {"plus": 1, "minus": -1}
N_DIGITS = (2, 10)  # of a sum, at least and at most
PARTS = {"train": 8000, "valid": 500, "test": 1000}

Sum = list[tuple[str, int]]  # each word, and the total after it


def one_sum(draw: random.Random) -> Sum:
    digit = draw.randrange(10)
    rows, total = [(DIGITS[digit], digit)], digit
    for _ in range(draw.randint(*N_DIGITS) - 1):
        sign, digit = draw.choice(list(SIGNS)), draw.randrange(10)
        rows.append((sign, total))
        total += SIGNS[sign] * digit
        rows.append((DIGITS[digit], total))
    return rows


def sums(seed: int) -> Iterator[Sum]:
    """Without end, none twice."""
    draw, known = random.Random(f"totals {seed}"), set()
    while True:
        rows = one_sum(draw)
        text = " ".join(word for word, _ in rows)
        if text not in known:
            known.add(text)
            yield rows


def write(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = sums(0)
    for name, n in PARTS.items():
        blocks = ["".join(f"{word}\t{total}\n" for word, total in next(drawn)) for _ in range(n)]
        (folder / f"{name}.txt").write_text("\n".join(blocks), encoding="utf-8")
    return f"wrote {folder}: {', '.join(f'{n:,} ({name})' for name, n in PARTS.items())} sums"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write sums in words, with what they come to after each word")
    parser.add_argument("folder", type=Path, help="such as data/totals; made where it is not there")
    print(write(parser.parse_args().folder))
