from pathlib import Path

import numpy as np
import pytest

from regard.data.batching.passages import Passages
from regard.data.files.plain import PlainText
from regard.errors import DataError
from regard.text import Tokenizer, TokenizerConfig

TEXT = ["a b . c d e . f", "", "g", "h i j k l m n o p", " ", "q r . s t ."]


def corpus(folder: Path, lines: list[str], documents: str = "lines", width: int = 4) -> tuple[Passages, Tokenizer]:
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    text = PlainText.read(("text.txt",), str(folder))
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(kind="spaces", vocab_size=40))
    return Passages(text, documents, width, tokenizer, folder / "cache"), tokenizer


def words(found: Passages, tokenizer: Tokenizer, starts: np.ndarray, stops: np.ndarray) -> list[str]:
    return [tokenizer.decode(found.ids[i:j]) for i, j in zip(starts, stops, strict=True)]


def test_a_long_document_has_windows_of_about_one_size(tmp_path: Path) -> None:
    found, tokenizer = corpus(tmp_path, TEXT)
    parts = words(found, tokenizer, found.starts, found.stops)
    assert parts == ["a b . c", "d e . f", "h i j", "k l m", "n o p", "q r .", "s t ."]
    assert found.where(np.arange(len(found))) == [f"text.txt:{n}" for n in (1, 1, 4, 4, 4, 6, 6)]
    assert found.notes.counts == {"skipped: a document of fewer than two tokens": 1}  # "g"


def test_blocks_end_at_an_empty_line(tmp_path: Path) -> None:
    found, tokenizer = corpus(tmp_path, TEXT, "blocks", width=50)
    parts = words(found, tokenizer, found.starts, found.stops)
    assert parts == ["a b . c d e . f", "g h i j k l m n o p", "q r . s t ."]
    assert found.where(np.arange(3)) == ["text.txt:1", "text.txt:3", "text.txt:6"]


def test_cuts_fall_before_a_sentence_where_there_is_one(tmp_path: Path) -> None:
    found, tokenizer = corpus(tmp_path, TEXT, width=50)
    assert len(found) == 3
    for chance, seconds in ((0.0, ["c d e . f", "i j k l m n o p", "s t ."]), (0.99, ["f", "p", "s t ."])):
        cuts = found.cuts(np.arange(3), np.full(3, chance))
        assert words(found, tokenizer, cuts, found.stops) == seconds


def test_a_last_window_without_a_sentence_of_its_own_is_cut_anywhere(tmp_path: Path) -> None:
    found, tokenizer = corpus(tmp_path, ["a b . c d", "h i j k"], width=50)
    cuts = found.cuts(np.array([1]), np.array([0.5]))
    assert words(found, tokenizer, cuts, found.stops[1:]) == ["j k"]


def test_what_comes_from_elsewhere_is_of_another_document_and_begins_a_sentence(tmp_path: Path) -> None:
    found, _ = corpus(tmp_path, TEXT, width=50)
    draw = np.random.default_rng(0)
    for _ in range(50):
        windows = draw.integers(0, len(found), 8)
        lengths = draw.integers(1, 5, 8)
        starts, stops = found.elsewhere(windows, lengths, draw.random(8))
        other = np.searchsorted(found.offsets, starts, side="right") - 1
        assert (other != found.document[windows]).all()
        assert (np.searchsorted(found.offsets, stops - 1, side="right") - 1 == other).all()  # all of it
        assert np.isin(starts, found.sentences).all()
        assert (stops - starts == np.minimum(lengths, np.diff(found.offsets)[other])).all()


def test_a_text_without_documents(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no document has 2 tokens or more"):
        corpus(tmp_path, ["a", "", "b"])
