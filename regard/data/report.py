"""What the data looks like before anything is learned from it: `regard doctor` prints these rows."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from regard.data.batching.packing import fitness
from regard.data.batching.shards import TokenShard
from regard.data.files.plain import PlainText
from regard.data.files.reading import Examples
from regard.data.notes import Notes
from regard.errors import DataError
from regard.text.tokenizer import Tokenizer

PERCENTILES = (1, 50, 90, 99, 100)
AT = "/".join("longest" if p == 100 else f"{p}%" for p in PERCENTILES)
UNLIMITED = 2**62  # no text is so long: nothing is dropped for its length
OUTLIER = 3.0  # a ratio of lengths this many times the median, or its inverse, deserves a look
PlaceOf = Callable[[int], str]  # the place of text i
THRESHOLD = 1500  # of `advice`  (Chollet, Deep Learning with Python, second edition, 2021, chapter 11)


class MeasuredPart(NamedTuple):
    """The training, validation or test examples, and the tokens of each of their columns."""

    examples: Examples
    shards: list[TokenShard]
    n_all: int = 0  # more than there are here: these are a sample


class Row(NamedTuple):
    part: str
    what: str
    value: str
    where: str = ""  # the first place, as "train.en:12"


def report(
    parts: dict[str, MeasuredPart],
    tokenizer: Tokenizer,
    max_length: int,
    dropping: Collection[str] = ("train", "valid"),
) -> list[Row]:
    """`parts` by name; the one named "train" is what the others are compared with.  From those named in `dropping` the
    task drops what is unfit: mostly from training and validation data, while a test keeps all of its lines."""
    train = parts["train"].examples
    known = [set().union(*column) for column in train.columns]
    seen = [set(keys(columns)) for columns in (train.columns, *([column] for column in train.columns))]
    rows: list[Row] = []
    for name, part in parts.items():
        rows.append(Row(name, "examples", sampled(len(part.examples), part.n_all)))
        for c, column in enumerate(part.examples.names):
            texts, where = part.examples.columns[c], partial(part.examples.where, column=c)
            rows += column_rows(name, column, texts, where, part.shards[c], tokenizer, known[c])
        ratios = length_ratios(part)[1] if len(part.shards) > 1 else ()
        if len(ratios):
            what = f"length ratio, {AT.replace('longest', 'largest')}"
            rows.append(Row(name, what, "/".join(f"{ratio:.2f}" for ratio in np.percentile(ratios, PERCENTILES))))
        rows += note_rows(name, findings(part, seen if name != "train" else []))
        unfit = fitness(part.examples, [shard.lengths for shard in part.shards], max_length)[1]
        rows += note_rows(name, unfit, "dropped: " if name in dropping else "kept, though: ")
    return rows


def sampled(n: int, n_all: int) -> str:
    return f"{n_all:,}; the rows below are of {n:,} of them, chosen by chance" if n_all > n else f"{n:,}"


def note_rows(part: str, notes: Notes, prefix: str = "") -> list[Row]:
    return [Row(part, prefix + what, f"{n:,}", notes.first[what]) for what, n in notes.counts.items()]


def keys(columns: Sequence[Sequence[str]]) -> list[bytes]:
    """A digest of each example, of these columns; space at the ends of a text does not count."""
    texts = ("\n".join(text.strip() for text in texts) for texts in zip(*columns, strict=True))
    return [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]


def length_ratios(part: MeasuredPart) -> tuple[np.ndarray, np.ndarray]:
    """The examples with something on both sides, and their tokens of column 2 over those of column 1."""
    source, target = (shard.lengths for shard in part.shards[:2])
    whole = np.flatnonzero((source > 0) & (target > 0))
    return whole, target[whole] / source[whole]


def findings(part: MeasuredPart, seen: list[set[bytes]]) -> Notes:
    """What reading decided; duplicates, copies, odd ratios, and what training has too: `seen` are the keys of its
    examples, then those of each column; empty for training itself."""
    examples, notes = part.examples, Notes()
    notes.update(examples.notes)
    wholes = keys(examples.columns)
    first: dict[bytes, int] = {}
    repeated = [first.setdefault(key, i) < i for i, key in enumerate(wholes)]
    note(notes, "the same as an earlier example", examples, repeated)
    if seen:
        note(notes, "also in training", examples, (key in seen[0] for key in wholes))
    if len(seen) > 2:
        for c, name in enumerate(examples.names):
            flags = [key in seen[1 + c] for key in keys([examples.columns[c]])]
            note(notes, f"{name} also in training", examples, flags, c)
    if len(examples.names) > 1:
        source, target = examples.columns[:2]
        note(notes, "both sides are equal", examples, (a == b for a, b in zip(source, target, strict=True)))
        whole, ratios = length_ratios(part)
        odd = np.zeros(len(examples), bool)
        if len(ratios):
            odd[whole] = np.abs(np.log(ratios / np.median(ratios))) > np.log(OUTLIER)
        note(notes, f"length ratio {OUTLIER:g} times off the median", examples, odd)
    return notes


def note(notes: Notes, what: str, examples: Examples, flags: Iterable[bool], column: int = 0) -> None:
    """Count the flagged examples that are not empty (those are counted elsewhere); none is worth saying too."""
    beside = zip(flags, examples.columns[0], strict=True)  # in one pass: texts may be on disk
    flagged = [i for i, (flag, text) in enumerate(beside) if flag and text.strip()]
    notes.add(what, examples.where(flagged[0], column) if flagged else "", len(flagged))


def column_rows(
    part: str, name: str, texts: Sequence[str], where: PlaceOf, shard: TokenShard, tokenizer: Tokenizer, known: set[str]
) -> list[Row]:
    """`known` are the characters that training has."""
    n_words, n_tokens = sum(len(text.split()) for text in texts), len(shard.ids)
    lengths = np.percentile(shard.lengths, PERCENTILES, method="higher")
    rows = [
        Row(part, f"{name}: words, tokens", f"{n_words:,}, {n_tokens:,}"),
        Row(part, f"{name}: tokens per word", f"{n_tokens / max(n_words, 1):.2f}"),
        Row(part, f"{name}: tokens a line, {AT}", "/".join(str(int(n)) for n in lengths)),
    ]
    unknown = np.flatnonzero(shard.ids == tokenizer.unknown_id)
    losing = np.unique(np.searchsorted(shard.offsets, unknown, side="right") - 1)
    lost = Counter(piece for i in losing for piece in tokenizer.losses(texts[i]))
    if lost:
        rows.append(Row(part, f"{name}: unknown to the tokenizer", most_frequent(lost), where(int(losing[0]))))
    having_new = [i for i, text in enumerate(texts) if not known.issuperset(text)]
    new = Counter(character for i in having_new for character in texts[i] if character not in known)
    if new:
        rows.append(Row(part, f"{name}: characters not in training", most_frequent(new), where(having_new[0])))
    return rows


def text_rows(part: str, text: PlainText, shard: TokenShard, tokenizer: Tokenizer, known: set[str]) -> list[Row]:
    """Of running text; `shard` holds the tokens of its lines, `known` the characters that training has."""
    blank = [i for i, line in enumerate(text.lines) if not line.strip()]
    return [
        Row(part, "lines, bytes", f"{len(text.lines):,}, {text.n_bytes:,}"),
        *column_rows(part, "text", text.lines, text.places.__getitem__, shard, tokenizer, known),
        Row(part, "empty lines", f"{len(blank):,}", text.places[blank[0]] if blank else ""),
        *note_rows(part, text.notes),
    ]


def most_frequent(pieces: Counter[str], n: int = 8) -> str:
    """ "12: é 7, ß 5": how many there are, then the most frequent, made visible."""
    shown = ", ".join(f"{piece if piece.isprintable() else ascii(piece)} {k}" for piece, k in pieces.most_common(n))
    return f"{pieces.total():,}: {shown}" + (", ..." if len(pieces) > n else "")


def advice(texts: Sequence[str], n_all: int = 0) -> str:
    """Bag of words or a sequence model?  A rule of thumb for classification, measured on the training texts, or on some
    of `n_all`.

    Few samples of many words: a bag of bigrams; many samples of few words: a sequence model.
    """
    n_words = sum(len(text.split()) for text in texts)
    if not n_words:
        raise DataError(f"all {len(texts)} texts are empty, so there is nothing to base advice on")
    mean, n = n_words / len(texts), n_all or len(texts)
    ratio = n / mean
    bag, sequence = "a bag of bigrams is hard to beat", "a sequence model should beat a bag of bigrams"
    verdict = f"below about 1,500 {bag}" if ratio < THRESHOLD else f"above about 1,500 {sequence}"
    measured = f"{n:,} samples ÷ {mean:.1f} words each = {ratio:,.0f}"
    return f"{measured}: {verdict}; a rule of thumb, so try both"
