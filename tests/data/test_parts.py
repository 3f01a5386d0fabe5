"""Many texts are tokenized part by part: the same tokens, by any number of processes, and nothing is done twice."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data.batching import parts, shards
from regard.data.batching.shards import shard, tokenize
from regard.errors import RunError
from regard.text import Tokenizer, TokenizerConfig

TEXTS = [f"line {i} of many" + " more" * (i % 7) for i in range(95)] + ["", " "]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, TokenizerConfig(vocab_size=300))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART", 10)
    monkeypatch.setattr(shards, "PART", 10)


@pytest.mark.parametrize("closing", [None, 2])
def test_parts_make_the_same_shard(tmp_path: Path, tokenizer: Tokenizer, closing: int | None) -> None:
    tokens, whole = shard(TEXTS, tokenizer, tmp_path, closing=closing), tokenize(TEXTS, tokenizer)
    expected = [[*whole[i], *([] if closing is None else [closing])] for i in range(len(TEXTS))]
    assert [tokens[i].tolist() for i in range(len(tokens))] == expected
    assert isinstance(tokens.ids, np.memmap) and tokens.ids.dtype == np.uint16
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("parts")] == []
    in_memory = shard(TEXTS, tokenizer, None, closing=closing)
    assert np.array_equal(in_memory.ids, tokens.ids) and np.array_equal(in_memory.offsets, tokens.offsets)


def test_two_processes(tmp_path: Path, tokenizer: Tokenizer) -> None:
    alone, together = (shard(TEXTS, tokenizer, tmp_path / str(n), processes=n) for n in (1, 2))
    assert np.array_equal(alone.ids, together.ids) and np.array_equal(alone.offsets, together.offsets)


class Interrupted:
    """Ends after so many texts."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return len(TEXTS)

    def __iter__(self) -> Iterator[str]:
        yield from TEXTS[: self.n]
        raise KeyboardInterrupt


def test_what_was_stopped_goes_on(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        shard(Interrupted(57), tokenizer, tmp_path, digest="these")  # type: ignore[arg-type]
    written: list[int] = []
    write = parts.write_part
    monkeypatch.setattr(parts, "write_part", lambda folder, n, tokens: (written.append(n), write(folder, n, tokens)))
    tokens = shard(TEXTS, tokenizer, tmp_path, digest="these")
    assert written == [5, 6, 7, 8, 9]
    assert np.array_equal(tokens.ids, tokenize(TEXTS, tokenizer).ids)


def test_a_process_that_fails_is_said(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts.sys, "executable", shutil.which("false"))
    with pytest.raises(RunError, match="a process that tokenizes has ended"):
        shard(TEXTS, tokenizer, tmp_path, processes=2)


def test_long_texts_make_small_parts(tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "CHARACTERS", 40)
    n_parts = parts.write_parts(TEXTS, tokenizer, tmp_path / "parts", 1)
    assert 30 < n_parts < len(TEXTS)  # two or three texts each, by their length, and the last two
    tokens, whole = shard(TEXTS, tokenizer, tmp_path / "cache"), tokenize(TEXTS, tokenizer)
    assert np.array_equal(tokens.ids, whole.ids) and np.array_equal(tokens.offsets, whole.offsets)


def test_no_process_is_started_for_nothing(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    parts.write_parts(TEXTS, tokenizer, tmp_path, 1)
    assert parts.write_parts(TEXTS, tokenizer, tmp_path, 4) == 10  # all are there already
