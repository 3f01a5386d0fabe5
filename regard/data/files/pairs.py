"""Pairs of texts, and parts of them without a text in common: pairs that share a source or a target stay together."""

from collections.abc import Sequence
from pathlib import Path

from regard.data.config import DataConfig
from regard.data.files.large import read_sized
from regard.data.files.reading import Examples
from regard.data.files.splits import Parts, Shares, by_hash, normalized
from regard.errors import ConfigError


def read_pairs(
    files: tuple[str, ...], columns: tuple[str, ...], root: Path | str, in_memory: int | None = None
) -> Examples:
    """With more lines than `in_memory`, their texts stay in the files."""
    examples = read_sized(files, columns, root, in_memory)
    if len(examples.columns) != 2:
        names = ", ".join(examples.names)
        raise ConfigError(
            f"pairs need two files, source and target, or a table with two columns; {', '.join(files)} give {names}"
        )
    return examples


def pair_parts(data: DataConfig) -> Parts[Examples]:
    def read(files: tuple[str, ...], root: str) -> Examples:
        return read_pairs(files, data.columns, root)

    def divide() -> Shares[Examples]:
        train, valid, test = read_pairs(data.train, data.columns, data.root, data.most_lines), None, None
        if data.test_share:
            train, test = hold_out(train, data.test_share, seed=0)
        if data.valid_share:
            train, valid = hold_out(train, data.valid_share / (1 - data.test_share), seed=1)
        return train, valid, test

    return Parts(data, "pairs", read, divide, files="SOURCE REFERENCE")


def hold_out(pairs: Examples, share: float, seed: int) -> tuple[Examples, Examples]:
    """What is left, which keeps the notes, and about `share` of the groups of pairs."""
    left, held_out = by_hash(groups(pairs.columns), share, seed)
    rest = pairs.take(left)
    rest.notes.update(pairs.notes)
    return rest, pairs.take(held_out)


def groups(columns: Sequence[Sequence[str]]) -> list[str]:
    """For each pair the first text, by the alphabet, of all pairs that have a text in common with it, or with one of
    those that do."""
    sides = [[f"{side} {normalized(text)}" for text in column] for side, column in enumerate(columns)]
    above: dict[str, str] = {}  # a forest: each text leads to another of its group

    def root(text: str) -> str:
        while (next_text := above.setdefault(text, text)) != text:
            above[text] = above[next_text]  # a shorter way next time
            text = next_text
        return text

    for first, *others in zip(*sides, strict=True):
        for other in others:
            lower, higher = sorted((root(first), root(other)))
            above[higher] = lower
    return [root(text) for text in sides[0]]
