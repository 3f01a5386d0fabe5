"""What the data looks like before anything is learnt from it: `regard doctor` prints these rows."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from regard.data.batching.selection import fitness
from regard.data.batching.shards import TokenShard
from regard.data.batching.streams import PlainText
from regard.data.files.reading import Examples
from regard.data.notes import Notes

PERCENTILES = (1, 50, 90, 99, 100)
OUTLIER = 3.0  # a ratio of lengths this many times the median, or its inverse, deserves a look


class Lossy(Protocol):
    """What the report asks of a tokenizer: what it cannot represent."""

    @property
    def unknown_id(self) -> int: ...

    def losses(self, text: str) -> list[str]: ...


class Part(NamedTuple):
    """The training, validation or test examples, and the tokens of each of their columns."""

    examples: Examples
    shards: list[TokenShard]


class Row(NamedTuple):
    part: str
    what: str
    value: str
    where: str = ""  # the first place, as "train.en:12"


@dataclass(frozen=True)
class ColumnReport:
    name: str
    n_words: int
    n_tokens: int
    lengths: tuple[int, ...]  # in tokens, at PERCENTILES
    lost: Counter[str]  # pieces that the tokenizer cannot represent
    first_lost: str
    new: Counter[str]  # characters that training does not have
    first_new: str

    @property
    def tokens_per_word(self) -> float:
        return self.n_tokens / max(self.n_words, 1)


@dataclass(frozen=True)
class PartReport:
    name: str
    n_examples: int
    columns: list[ColumnReport]
    ratios: tuple[float, ...]  # tokens of column 2 over those of column 1, at PERCENTILES; empty for one column
    unfit: Notes  # with an empty or too long side
    drops: bool  # whether those are dropped
    findings: Notes  # what reading decided; duplicates, copies, odd ratios, lines that training has too


@dataclass(frozen=True)
class DataReport:
    parts: list[PartReport]

    def rows(self) -> list[Row]:
        return [row for part in self.parts for row in part_rows(part)]


def report(
    parts: dict[str, Part], tokenizer: Lossy, max_length: int, dropping: Collection[str] = ("train", "valid")
) -> DataReport:
    """`parts` by name; the one named "train" is what the others are compared with.  From those named in `dropping` the
    task drops what is unfit: from what is learnt and validated, mostly, while a test keeps all of its lines."""
    train = parts["train"].examples
    known = [set().union(*column) for column in train.columns]
    seen = Overlaps(set(keys(train.columns)), [set(keys([column])) for column in train.columns])
    return DataReport(
        [
            describe(name, part, tokenizer, max_length, name in dropping, known, seen if name != "train" else None)
            for name, part in parts.items()
        ]
    )


class Overlaps(NamedTuple):
    """Training examples by their digests."""

    wholes: set[bytes]
    columns: list[set[bytes]]


def keys(columns: Sequence[list[str]]) -> list[bytes]:
    """A digest of each example, of these columns; space at the ends of a text does not count."""
    texts = ("\n".join(text.strip() for text in texts) for texts in zip(*columns, strict=True))
    return [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]


def describe(
    name: str, part: Part, tokenizer: Lossy, max_length: int, drops: bool, known: list[set[str]], seen: Overlaps | None
) -> PartReport:
    examples, shards = part
    findings = Notes()
    findings.update(examples.notes)
    wholes = keys(examples.columns)
    note(findings, "the same as an earlier example", examples, repeated(wholes))
    if seen is not None:
        note(findings, "also in training", examples, (key in seen.wholes for key in wholes))
        if len(examples.names) > 1:
            for c, (texts, there) in enumerate(zip(examples.columns, seen.columns, strict=True)):
                flags = (key in there for key in keys([texts]))
                note(findings, f"{examples.names[c]} also in training", examples, flags, c)
    ratios = np.empty(0)  # of the examples that have something on both sides
    if len(examples.names) > 1:
        source, target = examples.columns[:2]
        note(findings, "both sides are equal", examples, (a == b for a, b in zip(source, target, strict=True)))
        n_source, n_target = (shard.lengths for shard in shards[:2])
        whole = np.flatnonzero((n_source > 0) & (n_target > 0))
        ratios = n_target[whole] / n_source[whole]
        odd = np.zeros(len(examples), bool)
        if len(whole):
            odd[whole] = np.abs(np.log(ratios / np.median(ratios))) > np.log(OUTLIER)
        note(findings, f"length ratio {OUTLIER:g} times off the median", examples, odd)
    return PartReport(
        name=name,
        n_examples=len(examples),
        columns=[
            column_report(title, examples.columns[c], partial(examples.where, column=c), shards[c], tokenizer, known[c])
            for c, title in enumerate(examples.names)
        ],
        ratios=tuple(float(ratio) for ratio in np.percentile(ratios, PERCENTILES)) if len(ratios) else (),
        unfit=fitness(examples, [shard.lengths for shard in shards], max_length)[1],
        drops=drops,
        findings=findings,
    )


def note(findings: Notes, what: str, examples: Examples, flags: Iterable[bool], column: int = 0) -> None:
    """Count the flagged examples that are not empty (those are counted elsewhere); none is worth saying too."""
    flagged = [i for i, flag in enumerate(flags) if flag and examples.columns[0][i].strip()]
    findings.add(what, examples.where(flagged[0], column) if flagged else "", len(flagged))


def repeated(wholes: list[bytes]) -> Iterable[bool]:
    before: set[bytes] = set()
    for key in wholes:
        yield key in before
        before.add(key)


def column_report(
    name: str, texts: list[str], where: Callable[[int], str], shard: TokenShard, tokenizer: Lossy, known: set[str]
) -> ColumnReport:
    """`where` tells the place of text i; `known` are the characters that training has."""
    unknown = np.flatnonzero(shard.ids == tokenizer.unknown_id)
    losing = np.unique(np.searchsorted(shard.offsets, unknown, side="right") - 1)
    new = [i for i, text in enumerate(texts) if not known.issuperset(text)]
    return ColumnReport(
        name=name,
        n_words=sum(len(text.split()) for text in texts),
        n_tokens=len(shard.ids),
        lengths=tuple(int(n) for n in np.percentile(shard.lengths, PERCENTILES, method="higher")),
        lost=Counter(piece for i in losing for piece in tokenizer.losses(texts[i])),
        first_lost=where(int(losing[0])) if len(losing) else "",
        new=Counter(character for i in new for character in texts[i] if character not in known),
        first_new=where(new[0]) if new else "",
    )


AT = "/".join("longest" if p == 100 else f"{p}%" for p in PERCENTILES)


def column_rows(part: str, column: ColumnReport) -> list[Row]:
    rows = [
        Row(part, f"{column.name}: words, tokens", f"{column.n_words:,}, {column.n_tokens:,}"),
        Row(part, f"{column.name}: tokens per word", f"{column.tokens_per_word:.2f}"),
        Row(part, f"{column.name}: tokens a line, {AT}", "/".join(str(n) for n in column.lengths)),
    ]
    for what, pieces, where in (
        ("unknown to the tokenizer", column.lost, column.first_lost),
        ("characters not in training", column.new, column.first_new),
    ):
        if pieces:
            rows.append(Row(part, f"{column.name}: {what}", commonest(pieces), where))
    return rows


def text_rows(part: str, text: PlainText, shard: TokenShard, tokenizer: Lossy, known: set[str]) -> list[Row]:
    """Of running text; `shard` holds the tokens of its lines, `known` the characters that training has."""
    column = column_report("text", text.lines, text.places.__getitem__, shard, tokenizer, known)
    blank = [i for i, line in enumerate(text.lines) if not line.strip()]
    return [
        Row(part, "lines, bytes", f"{len(text.lines):,}, {text.n_bytes:,}"),
        *column_rows(part, column),
        Row(part, "empty lines", f"{len(blank):,}", text.places[blank[0]] if blank else ""),
        *(Row(part, what, f"{n:,}", text.notes.first[what]) for what, n in text.notes.counts.items()),
    ]


def part_rows(part: PartReport) -> list[Row]:
    rows = [Row(part.name, "examples", f"{part.n_examples:,}")]
    for column in part.columns:
        rows += column_rows(part.name, column)
    if part.ratios:
        ends = AT.replace("longest", "largest")
        rows.append(Row(part.name, f"length ratio, {ends}", "/".join(f"{ratio:.2f}" for ratio in part.ratios)))
    notes = part.findings
    rows += [Row(part.name, what, f"{n:,}", notes.first[what]) for what, n in notes.counts.items()]
    fate = "dropped" if part.drops else "kept, though"
    rows += [
        Row(part.name, f"{fate}: {reason}", f"{n:,}", part.unfit.first[reason])
        for reason, n in part.unfit.counts.items()
    ]
    return rows


def commonest(pieces: Counter[str], n: int = 8) -> str:
    """ "12: é 7, ß 5": how many there are, then the commonest, made visible."""
    shown = ", ".join(f"{piece if piece.isprintable() else ascii(piece)} {k}" for piece, k in pieces.most_common(n))
    return f"{pieces.total():,}: {shown}" + (", ..." if len(pieces) > n else "")
