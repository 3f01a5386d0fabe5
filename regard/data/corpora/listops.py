"""ListOps: nested lists of digits and what they come to, as Long Range Arena makes them (Tay et al. 2021, section 2.2).

    python -m regard.data.corpora.listops data/listops

    MAX 4 3 MIN 2 3 ] 1 0 MED 1 5 8 9 2 ] ]  ->  5

The operators are the minimum, the maximum, the median (without its half) and the sum modulo 10.  One opens a list; the
benchmark writes [MAX, which is one token, too.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

OPERATORS: dict[str, Callable[[Sequence[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: int(median(values)),
    "SM": lambda values: sum(values) % 10,
}
NESTED = 0.25  # the share of arguments that are lists
MOST_DEEP, MOST_ARGUMENTS = 10, 10
LENGTHS = (500, 2000)  # of the tokens of a text; both are not reached
PARTS = {"train": 96_000, "valid": 2000, "test": 2000}


class Tree:
    """A digit, or an operator with its arguments: drawn as the benchmark's own code draws them."""

    def __init__(self, draw: random.Random, depth: int = 1):
        self.tokens: list[str]
        if depth == MOST_DEEP or draw.random() > NESTED:
            self.value = draw.randrange(10)
            self.tokens = [str(self.value)]
            return
        arguments = [Tree(draw, depth + 1) for _ in range(draw.randint(2, MOST_ARGUMENTS))]
        operator = draw.choice(list(OPERATORS))
        self.value = OPERATORS[operator]([argument.value for argument in arguments])
        self.tokens = [operator, *(token for argument in arguments for token in argument.tokens), "]"]


def trees(seed: int, lengths: tuple[int, int] = LENGTHS) -> Iterator[Tree]:
    """Without end, none twice."""
    draw, seen = random.Random(f"listops {seed}"), set()
    while True:
        tree = Tree(draw)
        text = " ".join(tree.tokens)
        if lengths[0] < len(tree.tokens) < lengths[1] and text not in seen:
            seen.add(text)
            yield tree


def write(folder: Path, share: float = 1.0) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    drawn, sizes = trees(0), {name: max(1, round(share * n)) for name, n in PARTS.items()}
    for name, n in sizes.items():
        with open(folder / f"{name}.tsv", "w", encoding="utf-8", newline="\n") as file:
            file.writelines(
                f"{tree.value}\t{' '.join(tree.tokens)}\n" for _, tree in zip(range(n), drawn, strict=False)
            )
    return f"wrote {folder}: " + ", ".join(f"{n:,} of {name}.tsv" for name, n in sizes.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="write nested lists of digits with what they come to")
    parser.add_argument("folder", type=Path, help="such as data/listops; made where it is not there")
    parser.add_argument("--share", type=float, default=1.0, help="of the 100,000 texts of the benchmark")
    arguments = parser.parse_args()
    print(write(arguments.folder, arguments.share))
