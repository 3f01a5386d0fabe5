from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.data.batching.shards import tokenize
from regard.data.files.reading import Examples, read_examples
from regard.data.report import MeasuredPart, Row, report
from regard.text.table import FlatTokens, flattened

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "multi30k"


class Letters:
    """Lower-case letters and the space have ids; everything else is unknown (0)."""

    vocab_size = 28
    unknown_id = 0

    def encoder(self) -> Callable[[list[str]], FlatTokens]:
        return lambda texts: flattened(self.encode_batch(texts))

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[" abcdefghijklmnopqrstuvwxyz".find(letter) + 1 for letter in text] for text in texts]

    def losses(self, text: str) -> list[str]:
        return [letter for letter, id in zip(text, self.encode_batch([text])[0], strict=True) if id == 0]


def part(name: str, english: list[str], french: list[str]) -> MeasuredPart:
    files = [f"{name}.en", f"{name}.fr"]
    examples = Examples(("en", "fr"), [english, french], np.arange(1, len(english) + 1), files, [0])
    return MeasuredPart(examples, [tokenize(column, Letters()) for column in examples.columns])


TRAIN = part(
    "train",
    ["a dog", "a cat", "a dog", "the same", "", "word " * 20, "short", "a cat"],
    ["un chien", "un chat", "un chien ", "the same", "rien", "mot", "un deux trois quatre cinq", "une chatte"],
)
VALID = part("valid", ["a bird", "a dog", "a cat", "é é!", " "], ["un oiseau", "un chien", "le chat", "x", "y"])
TEST = part("test", ["a bird", ""], ["un oiseau", "rien"])


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return report({"train": TRAIN, "valid": VALID, "test": TEST}, Letters(), max_length=30)


def found(rows: list[Row], part: str, what: str) -> tuple[str, str]:
    (row,) = [row for row in rows if (row.part, row.what) == (part, what)]
    return row.value, row.where


@pytest.mark.parametrize(
    ("name", "what", "value", "where"),
    [
        ("train", "examples", "8", ""),
        ("train", "the same as an earlier example", "1", "train.en:3"),
        ("train", "both sides are equal", "1", "train.en:4"),
        ("train", "length ratio 3 times off the median", "2", "train.en:6"),
        ("train", "dropped: en is empty", "1", "train.en:5"),
        ("train", "dropped: en is longer than 30 tokens", "1", "train.en:6"),
        ("train", "en: words, tokens", "31, 133", ""),
        ("train", "en: tokens per word", "4.29", ""),
        ("train", "en: tokens a line, 1%/50%/90%/99%/longest", "5/5/100/100/100", ""),
        ("valid", "also in training", "1", "valid.en:2"),
        ("valid", "en also in training", "2", "valid.en:2"),
        ("valid", "fr also in training", "1", "valid.fr:2"),
        ("valid", "en: unknown to the tokenizer", "3: é 2, ! 1", "valid.en:4"),
        ("valid", "en: characters not in training", "5: é 2, b 1, i 1, ! 1", "valid.en:1"),
        ("valid", "fr: characters not in training", "2: l 1, y 1", "valid.fr:3"),
        ("valid", "dropped: en is empty", "1", "valid.en:5"),
        ("test", "kept, though: en is empty", "1", "test.en:2"),
    ],
)
def test_findings(rows: list[Row], name: str, what: str, value: str, where: str) -> None:
    assert found(rows, name, what) == (value, where)


def test_overlap_is_reported_also_when_there_is_none(rows: list[Row]) -> None:
    assert found(rows, "valid", "the same as an earlier example") == ("0", "")
    said = {(row.part, row.what) for row in rows}
    assert ("train", "also in training") not in said
    assert ("train", "en: unknown to the tokenizer") not in said


def test_one_column_has_no_ratio() -> None:
    examples = Examples(("text",), [["a", "b"]], np.array([1, 2]), ["a.txt"], [0])
    rows = report({"train": MeasuredPart(examples, [tokenize(["a", "b"], Letters())])}, Letters(), 10)
    assert rows[0].what == "examples"
    assert not [row for row in rows if "ratio" in row.what]


def test_a_part_with_one_side_empty_throughout() -> None:
    rows = report({"train": part("a", ["a", "b"], ["", ""])}, Letters(), 10)
    assert found(rows, "train", "dropped: fr is empty")[0] == "2"


@pytest.mark.parametrize("dropping", [("train",), ("train", "valid", "test")])
def test_a_task_says_from_what_it_drops(dropping: tuple[str, ...]) -> None:
    rows = report({"train": TRAIN, "valid": VALID, "test": TEST}, Letters(), 30, dropping)
    assert {row.part for row in rows if row.what == "dropped: en is empty"} == set(dropping)
    assert {row.part for row in rows if row.what == "kept, though: en is empty"} == {"valid", "test"} - set(dropping)


@pytest.mark.slow  # real data, four seconds
@pytest.mark.skipif(not SHARED.is_dir(), reason="Multi30k is not here")
def test_multi30k_is_as_published() -> None:
    parts = {}
    for name, file in (("train", "train"), ("valid", "val")):
        examples = read_examples((f"{file}.en.xz", f"{file}.fr.xz"), ("en", "fr"), SHARED)
        parts[name] = MeasuredPart(examples, [tokenize(column, Letters()) for column in examples.columns])
    rows = report(parts, Letters(), max_length=1000)
    assert [found(rows, name, "examples")[0] for name in parts] == ["29,000", "1,014"]
    assert not [row for row in rows if row.what.startswith("dropped")]
    assert found(rows, "valid", "also in training") == ("1", "val.en.xz:687")
