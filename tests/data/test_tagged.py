"""Tagged sentences from files, and words as tokens."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching.packing import cut
from regard.data.batching.windows import WordPieces
from regard.data.files.labelled import read_tagged, tag_set
from regard.errors import ConfigError, DataError
from regard.text.tokenizer import Tokenizer, TokenizerConfig

COLUMNS = "the x DET\ndog y NOUN\n\n\nit\tz\tPRON\n"
SENTENCES = [["the", "dog", "barks"], ["it", "unbelievable-word", "of"], [], ["dog"]]


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_first_column_is_the_word_and_the_last_the_tag(tmp_path: Path) -> None:
    found = read_tagged(("a",), (), write(tmp_path, a=COLUMNS))
    assert found.words == [["the", "dog"], ["it"]] and found.tags == [["DET", "NOUN"], ["PRON"]]
    assert found.places == ["a:1", "a:5"]
    assert tag_set(found) == ("DET", "NOUN", "PRON")
    assert tag_set(found, ("PRON", "NOUN", "DET")) == ("PRON", "NOUN", "DET")


def test_a_file_ends_its_last_sentence(tmp_path: Path) -> None:
    assert read_tagged(("a", "b"), (), write(tmp_path, a="x A", b="y B")).words == [["x"], ["y"]]


def test_lines_of_words_beside_lines_of_tags(tmp_path: Path) -> None:
    place = write(tmp_path, words="the dog\n\nit\n", tags="DET NOUN\n \nPRON\n")
    found = read_tagged(("words", "tags"), ("words", "tags"), place)
    assert found.words == [["the", "dog"], ["it"]] and found.tags == [["DET", "NOUN"], ["PRON"]]
    assert found.places == ["words:1", "words:3"]
    assert found.notes.rows() == ["empty line skipped: 1 (first at words:2)"]
    table = write(tmp_path, **{"t.tsv": "w\tt\nthe dog\tDET NOUN\n"})
    assert read_tagged(("t.tsv",), ("w", "t"), table).tags == [["DET", "NOUN"]]


@pytest.mark.parametrize(
    ("files", "columns", "message"),
    [
        ({"a": "the DET\ndog\n"}, (), r"a:2 has one column, 'dog'; a word needs its tag beside it"),
        ({"a": "\n\n"}, (), "no words found"),
        ({"a": "the dog\nit\n", "b": "DET NOUN\nA B\n"}, ("w", "t"), "a:2 has 1 words and 2 tags"),
        ({"a": "the dog\n", "b": "DET NOUN\n", "c": "1 2\n"}, ("w", "t", "n"), "two columns, words and tags"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(tmp_path, files, columns, message) -> None:
    with pytest.raises(DataError, match=message):
        read_tagged(tuple(files), columns, write(tmp_path, **files))


def test_tags_that_cannot_be_learnt(tmp_path: Path) -> None:
    write(tmp_path, a=COLUMNS, one="x A\ny A\n", other="x A\n\ny VERB\n")
    train = read_tagged(("a",), (), tmp_path)
    with pytest.raises(DataError, match="no word of the training data has the tag 'VERB'"):
        tag_set(train, ("DET", "NOUN", "PRON", "VERB"))
    with pytest.raises(DataError, match=r"the sentence at a:5 has the tag 'PRON', which training does not have"):
        tag_set(train, ("DET", "NOUN"))
    with pytest.raises(DataError, match="every word has the tag 'A'; a tagger needs at least two tags"):
        tag_set(read_tagged(("one",), (), tmp_path))
    with pytest.raises(DataError, match=r"other:1 has the tag 'A'.*it has: DET, NOUN, PRON"):
        read_tagged(("other",), (), tmp_path).expect(tag_set(train))


def test_equal_sentences_are_held_out_together(tmp_path: Path) -> None:
    text = "".join(f"w{i % 20} A\nx B\n\n" for i in range(60))
    found = read_tagged(("a",), (), write(tmp_path, a=text))
    left, held_out = found.hold_out(0.3, seed=0)
    assert len(left) + len(held_out) == 60 and len(held_out)
    assert not {tuple(words) for words in left.words} & {tuple(words) for words in held_out.words}


@pytest.mark.parametrize("kind", ["bpe", "words", "spaces", "characters"])
@pytest.mark.parametrize("max_length", [4, 7, 100])
def test_every_word_is_read_once_with_its_last_token(kind: str, max_length: int) -> None:
    text = "".join(f" {word}" for words in SENTENCES for word in words)
    tokenizer = Tokenizer.train([text], TokenizerConfig(kind=kind, vocab_size=270))
    pieces = WordPieces(SENTENCES, ["a", "b", "c", "d"], tokenizer, max_length)
    rows = pieces.rows(np.arange(len(pieces)))
    assert rows.words.tolist() == list(range(7)) and len(rows.tokens) == sum(rows.lengths)
    assert rows.lengths.max() <= max_length and rows.lengths.tolist() == pieces.lengths.tolist()
    words = [word for sentence in SENTENCES for word in sentence]
    starts = [0, *(rows.last[:-1] + 1)]
    for word, start, last in zip(words, starts, rows.last, strict=True):
        assert rows.tokens[start : last + 1].tolist() == tokenizer.encode(f" {word}")[-max_length:]
    owners = [pieces.sentence[piece] for piece, (a, b) in enumerate(pieces.bounds) for _ in range(a, b)]
    assert owners == [0, 0, 0, 1, 1, 1, 3]


def test_long_sentences_and_words_are_counted() -> None:
    tokenizer = Tokenizer.train(["x"], TokenizerConfig(kind="characters", vocab_size=50))
    pieces = WordPieces([["x"], ["x"] * 9, ["x" * 30]], ["a:1", "a:2", "a:3"], tokenizer, 8)
    assert pieces.notes.rows() == [
        "read in pieces: longer than 8 tokens: 1 (first at a:2)",
        "word read by its last 8 tokens: 1 (first at a:3)",
    ]
    assert len(pieces) == 1 + 3 + 1
    backwards = pieces.rows(np.array([4, 0]))
    assert backwards.lengths.tolist() == [8, 2] and backwards.words.tolist() == [10, 0]


@given(st.lists(st.integers(1, 5)), st.integers(5, 9))
def test_as_many_as_fit(lengths: list[int], room: int) -> None:
    found = cut(np.arange(len(lengths)), np.array(lengths, np.int64), room)
    assert [i for group in found for i in group] == list(range(len(lengths)))
    groups = [(group[0], group[-1] + 1) for group in found]
    assert all(0 < sum(lengths[a:b]) <= room for a, b in groups)
    assert all(sum(lengths[a : b + 1]) > room for a, b in groups[:-1])


def test_framed_pieces_stand_between_their_marks() -> None:
    tokenizer = Tokenizer.train([" ".join(words) for words in SENTENCES], TokenizerConfig(vocab_size=262))
    places = ["a", "b", "c", "d"]
    plain, framed = (WordPieces(SENTENCES, places, tokenizer, n, framed) for n, framed in ((10, False), (12, True)))
    assert framed.bounds.tolist() == plain.bounds.tolist() and len(framed) > len(SENTENCES) - 1
    assert framed.lengths.tolist() == (plain.lengths + 2).tolist() and framed.lengths.max() <= 12
    order = np.random.default_rng(0).permutation(len(plain))
    within, around = plain.rows(order), framed.rows(order)
    assert around.words.tolist() == within.words.tolist()
    assert (around.tokens[around.last] == within.tokens[within.last]).all()
    inner = np.split(within.tokens, np.cumsum(within.lengths)[:-1])
    outer = np.split(around.tokens, np.cumsum(around.lengths)[:-1])
    for a, b in zip(inner, outer, strict=True):
        assert b.tolist() == [tokenizer.start_id, *a.tolist(), tokenizer.end_id]
    with pytest.raises(ConfigError, match="leaves no room between <s> and </s>"):
        WordPieces(SENTENCES, places, tokenizer, 2, framed=True)
