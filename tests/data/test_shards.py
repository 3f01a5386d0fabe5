import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching import shards
from regard.data.batching.shards import FILES, content_key, shard
from regard.errors import RunError
from regard.text.table import FlatTokens, flattened


class Letters:
    """Every character is its code point; counts how many texts it was given."""

    def __init__(self, vocab_size: int = 0x110000) -> None:
        self.vocab_size = vocab_size
        self.n_texts = 0

    def to_json(self) -> str:
        return "{}"

    def encoder(self) -> Callable[[list[str]], FlatTokens]:
        return lambda texts: flattened(self.encode_batch(texts))

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        self.n_texts += len(texts)
        return [[ord(character) for character in text] for text in texts]


@given(texts=st.lists(st.text()))
def test_a_shard_holds_the_tokens(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    tokens = shard(texts, Letters(), tmp_path_factory.mktemp("cache"))
    assert [tokens[i].tolist() for i in range(len(tokens))] == Letters().encode_batch(texts)
    assert tokens.lengths.tolist() == [len(text) for text in texts]


def test_texts_are_tokenised_once(tmp_path: Path) -> None:
    letters = Letters()
    texts = ["some", "", "words"]
    first = shard(texts, letters, tmp_path)
    second = shard(texts, letters, tmp_path)
    assert letters.n_texts == 3
    assert isinstance(second.ids, np.memmap)
    assert [list(a) for a in first] == [list(a) for a in second] == Letters().encode_batch(texts)


@pytest.mark.parametrize(("vocab_size", "kind"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_ids_are_as_small_as_the_vocabulary_allows(tmp_path: Path, vocab_size: int, kind: type) -> None:
    assert shard(["\uffff"], Letters(vocab_size), tmp_path).ids.dtype == kind
    assert shard(["\uffff"], Letters(vocab_size), tmp_path)[0].tolist() == [0xFFFF]


def test_the_key_is_the_content() -> None:
    keys = [
        content_key(["ab", "c"], "{}"),
        content_key(["a", "bc"], "{}"),
        content_key(["abc"], "{}"),
        content_key(["ab", "c"], "{ }"),
        content_key(["ab", "c", ""], "{}"),
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", [*FILES, "digests.json"])
@pytest.mark.parametrize("harm", ["cut", "flip", "remove"])
def test_a_harmed_shard_is_made_again(tmp_path: Path, name: str, harm: str) -> None:
    texts = ["some words", "more"]
    shard(texts, Letters(), tmp_path)
    (folder,) = tmp_path.iterdir()
    data = (folder / name).read_bytes()
    if harm == "remove":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data[:-3] if harm == "cut" else data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    letters = Letters()
    again = shard(texts, letters, tmp_path)
    assert letters.n_texts == 2
    assert [list(tokens) for tokens in again] == Letters().encode_batch(texts)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be written.*data\.cache"):
        shard(["a"], Letters(), tmp_path / "file")


def test_a_killed_writer_leaves_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(shards, "save_array", full)
        with pytest.raises(RunError, match="No space left"):
            shard(["a"], Letters(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert shard(["a"], Letters(), tmp_path)[0].tolist() == [97]
