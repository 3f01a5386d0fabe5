"""What the published test sets share with their training sets, as the doctor counts it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.data.batching.shards import TokenShard, tokenize
from regard.data.files.labelled import read_labelled
from regard.data.report import MeasuredPart, Row, report
from regard.text.table import FlatTokens, flattened

DATA = Path(__file__).parents[2].parent / "shared" / "data"


class Nothing:
    """Cuts no text: what is counted here are whole texts."""

    vocab_size, unknown_id = 1, 0

    def encoder(self) -> Callable[[list[str]], FlatTokens]:
        return lambda texts: flattened(self.encode_batch(texts))

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[] for _ in texts]

    def losses(self, text: str) -> list[str]:
        return []


def overlaps(folder: str, files: tuple[str, str], columns: tuple[str, ...]) -> dict[str, int]:
    parts = {}
    for name, file in zip(("train", "test"), files, strict=True):
        examples = read_labelled((file,), columns, DATA / folder).examples
        shards: list[TokenShard] = [tokenize(column, Nothing()) for column in examples.columns]
        parts[name] = MeasuredPart(examples, shards)
    rows: list[Row] = report(parts, Nothing(), 1)
    return {row.what: int(row.value) for row in rows if row.part == "test" and "also in training" in row.what}


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "imdb").is_dir(), reason="IMDb is not here")
def test_imdb_shares_123_reviews() -> None:
    assert overlaps("imdb", ("train.tsv.xz", "test.tsv.xz"), ("2", "1")) == {"also in training": 123}


@pytest.mark.slow  # real data
@pytest.mark.skipif(not (DATA / "boolq").is_dir(), reason="BoolQ is not here")
def test_boolq_shares_passages_but_no_questions() -> None:
    found = overlaps("boolq", ("train.jsonl.xz", "dev.jsonl.xz"), ("question", "passage", "label"))
    assert found == {"also in training": 0, "question also in training": 0, "passage also in training": 952}
