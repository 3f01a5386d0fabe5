"""Running text: what is a token, where it is divided, and that windows and columns miss nothing."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching.streams import UNITS, Stream, offset
from regard.data.config import DataConfig
from regard.data.files.plain import PlainText, text_parts
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError
from regard.text import Tokenizer, TokenizerConfig
from regard.text.words import END, START

DATA = Path(__file__).parents[2].parent / "shared" / "data"
LINES = ["the cat sat", "", "the dog sat down"]
SPACES = Tokenizer.train(LINES, TokenizerConfig(kind="spaces"))
CHARACTERS = Tokenizer.train([line + "\n" for line in LINES], TokenizerConfig(kind="characters"))


def text(lines=LINES, is_closed=True):
    return PlainText(list(lines), [f"a.txt:{i}" for i in range(1, len(lines) + 1)], Notes(), is_closed)


def stream(tmp_path, unit, tokenizer=SPACES, lines=LINES, is_closed=True):
    return Stream(text(lines, is_closed), unit, tokenizer, tmp_path)


def written(plain):
    """The characters of a text."""
    whole = "".join(line + "\n" for line in plain.lines)
    return whole if plain.is_closed else whole[:-1]


def test_lines_and_streams_close_each_line(tmp_path):
    the, cat, sat, dog, down = (SPACES.encode(word)[0] for word in ["the", "cat", "sat", "dog", "down"])
    for unit, first in (("lines", START), ("stream", END)):
        found = stream(tmp_path, unit)
        assert found.tokens.tolist() == [first, the, cat, sat, END, END, the, dog, sat, down, END]
        assert len(found) == 10 and found.starts.tolist() == [0, 4, 5] and found.ends.tolist() == [4, 5, 10]
        assert [found.where(i) for i in (1, 4, 5, 6, 10)] == ["a.txt:1", "a.txt:1", "a.txt:2", "a.txt:3", "a.txt:3"]


def test_a_text_is_the_file_as_it_is(tmp_path):
    for is_closed, whole in ((True, "the cat sat\n\nthe dog sat down\n"), (False, "the cat sat\n\nthe dog sat down")):
        found = stream(tmp_path, "text", CHARACTERS, is_closed=is_closed)
        assert CHARACTERS.decode(found.tokens) == "\n" + whole  # what stands before the first character
        assert len(found) == len(whole) == found.text.n_characters


def test_what_a_text_holds_is_counted_with_its_line_ends():
    plain = text(["héé b", "", " c "])
    assert (plain.n_characters, plain.n_bytes, plain.n_words) == (11, 13, 6)
    cut = text(["héé b", "", " c "], is_closed=False)
    assert (cut.n_characters, cut.n_bytes, cut.n_words) == (10, 12, 5)


@given(st.lists(st.text(alphabet="ab é", max_size=5), min_size=1, max_size=6), st.data())
def test_a_text_is_divided_at_the_exact_character(lines, data):
    plain = text(lines)
    whole = written(plain)
    if len(whole) < 2:
        return
    place = data.draw(st.integers(1, len(whole) - 1))
    first, rest = plain.divide(place)
    assert (written(first), written(rest)) == (whole[:place], whole[place:])
    assert first.n_bytes + rest.n_bytes == plain.n_bytes == len(whole.encode())
    assert len(first.places) == len(first.lines) and len(rest.places) == len(rest.lines)
    assert rest.places[-1] == plain.places[-1] and first.places[0] == "a.txt:1"
    again, middle = first.divide(1) if place > 1 else (first, None)  # what was cut can be cut again
    assert written(again) + ("" if middle is None else written(middle)) == whole[:place]


@pytest.mark.parametrize("place", [0, -1, 30, 31])
def test_no_side_may_be_empty(place):
    assert text().n_characters == 30
    with pytest.raises(ConfigError, match=r"nothing would be left on one side; change data.valid_share"):
        text().divide(place)


def config(tmp_path, **settings):
    (tmp_path / "a.txt").write_text("".join(f"line {i}\n" for i in range(10)), encoding="utf-8")
    return DataConfig(root=str(tmp_path), train=("a.txt",), **settings)


def test_shares_come_from_the_end_of_the_text(tmp_path):
    data = config(tmp_path, valid_share=0.25, test_share=0.1)  # 70 characters: 45, 18 and 7
    whole = (tmp_path / "a.txt").read_text(encoding="utf-8")
    shares = text_parts(data, "text").shares
    assert [written(part) for part in shares] == [whole[:45], whole[45:63], whole[63:]]
    for unit in ("lines", "stream"):  # a line stays whole, in the part that has its beginning
        parts = text_parts(data, unit).shares
        assert [part.lines for part in parts] == [
            [f"line {i}" for i in few] for few in (range(7), range(7, 9), range(9, 10))
        ]
        assert parts[1].places[0] == "a.txt:8"


def test_without_shares_and_files_there_is_nothing_but_training_text(tmp_path):
    parts = text_parts(config(tmp_path), "text")
    assert len(parts.train.lines) == 10 and parts.valid is None and parts.test is None
    with pytest.raises(ConfigError, match="nothing would be left"):
        text_parts(config(tmp_path, valid_share=0.999), "text").divide()
    with pytest.raises(ConfigError, match="nothing would be left"):
        text_parts(config(tmp_path, valid_share=0.01), "lines").divide()


def test_text_without_text_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text(" \n\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"empty.txt: no text to learn from"):
        PlainText.read(("empty.txt",), str(tmp_path))
    with pytest.raises(DataError, match=r"a.txt:1: this part of the text has no tokens"):
        stream(tmp_path, "text", SPACES, ["", " "])


def covered(windows):
    return [place for start, stop in windows.tolist() for place in range(start, stop)]


@pytest.mark.parametrize("width", [1, 3, 7, 10, 11, 1000])
def test_windows_hold_every_token_once(tmp_path, width):
    found = stream(tmp_path, "stream")
    windows = found.windows(width)
    assert covered(windows) == list(range(10)) and (np.diff(windows)[:-1] == width).all()
    assert covered(found.windows(width, first=4)) == list(range(4, 10))
    lines = stream(tmp_path, "lines").line_windows(width)
    assert covered(lines) == list(range(10)) and (np.diff(lines) <= width).all()
    assert set(lines[:, 0].tolist()) >= {0, 4, 5}  # no window has parts of two lines


@pytest.mark.parametrize("n", [1, 2, 3, 10])
@pytest.mark.parametrize("width", [1, 2, 4, 100])
@pytest.mark.parametrize("first", [0, 3])
def test_columns_go_on_where_they_ended(tmp_path, n, width, first):
    found = stream(tmp_path, "stream")
    if n > len(found) - first:
        with pytest.raises(ConfigError, match=r"a text of 10 tokens has no 10 columns; lower data.batch_tokens"):
            found.columns(n, width, first)
        return
    columns = found.columns(n, width, first)
    height = (10 - first) // n
    for column in range(n):
        pieces = np.stack([windows[column] for windows in columns])
        assert covered(pieces) == list(range(first + column * height, first + (column + 1) * height))
    assert all(len(set(np.diff(windows)[:, 0])) == 1 for windows in columns)  # of one length side by side


def test_a_text_of_one_token(tmp_path):
    found = stream(tmp_path, "text", CHARACTERS, ["t"], is_closed=False)
    assert len(found) == 1 and covered(found.windows(64)) == [0] and len(found.columns(1, 64)) == 1


def test_the_first_window_moves_from_epoch_to_epoch():
    offsets = [offset(64, 0, epoch) for epoch in range(30)]
    assert offsets[0] == 0 and all(0 <= o < 64 for o in offsets) and len(set(offsets)) > 15
    assert offsets == [offset(64, 0, epoch) for epoch in range(30)] != [offset(64, 1, epoch) for epoch in range(30)]


COUNTED = {  # as the literature counts them: words and the end of each line
    "ptb/ptb.valid.txt.xz": (73_760, 3_370),
    "ptb/ptb.test.txt.xz": (82_430, 3_761),
    "wikitext2/wiki.test.tokens.xz": (245_569, 4_358),
}


@pytest.mark.slow  # real data
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the data sets")
@pytest.mark.parametrize("name", COUNTED)
def test_tokens_of_the_data_sets_are_counted_as_in_the_literature(name, tmp_path):
    plain = PlainText.read((name,), str(DATA))
    tokenizer = Tokenizer.train(plain.lines, TokenizerConfig(kind="spaces", vocab_size=100_000))
    found = Stream(plain, "stream", tokenizer, tmp_path)
    assert (len(found), len(plain.lines)) == COUNTED[name] and plain.n_words == len(found)
    assert tokenizer.unknown_id not in found.lines.ids  # "<unk>" is a word of these texts


def test_every_unit_has_a_beginning():
    assert {unit: UNITS[unit](CHARACTERS) for unit in UNITS} == {
        "lines": START,
        "stream": END,
        "text": CHARACTERS.encode("\n")[0],
    }
    assert UNITS["text"](SPACES) == START
