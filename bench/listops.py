"""python -m bench.listops data/listops: what a rule reaches that looks at the first operator of a line alone.

Whatever follows the operator, the rule answers what is most frequent after it in train.tsv.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> Iterator[tuple[str, str]]:
    """The first operator of each line, and what the line comes to."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            value, text = line.rstrip("\n").split("\t")
            yield text.split(maxsplit=1)[0], value


def most_frequent(lines: Iterator[tuple[str, str]]) -> dict[str, str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for operator, value in lines:
        counts[operator][value] += 1
    return {operator: values.most_common(1)[0][0] for operator, values in counts.items()}


def measure(folder: Path) -> tuple[dict[str, str], int, int]:
    """The rule of train.tsv, how many lines of test.tsv it gets right, and how many there are."""
    rule, lines = most_frequent(read(folder / "train.tsv")), list(read(folder / "test.tsv"))
    return rule, sum(rule.get(operator) == value for operator, value in lines), len(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="answer by the first operator of a line alone")
    parser.add_argument("folder", type=Path, help="what python -m regard.data.corpora.listops wrote")
    rule, n_right, n = measure(parser.parse_args().folder)
    print(", ".join(f"{operator}: {value}" for operator, value in sorted(rule.items())))
    print(f"right for {n_right:,} of {n:,} lines, {100 * n_right / n:.1f} %")
