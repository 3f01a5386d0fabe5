"""Files that stay on disk: the same lines, notes, records and places as those that are read into memory."""

import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.files import large
from regard.data.files.large import has_more_lines, read_sized, stream_lines
from regard.data.files.on_disk import FileTexts, LineNumbers, pick
from regard.data.files.plain import PlainText
from regard.data.files.reading import read_examples, read_lines
from regard.data.notes import Notes
from regard.errors import DataError

BLOCKS = (1, 3, 7, 2**22)


@given(text=st.text("aé\n\r \ufeff日", max_size=30), block=st.sampled_from(BLOCKS))
def test_lines_and_notes_are_those_of_read_lines(
    tmp_path_factory: pytest.TempPathFactory, text: str, block: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes(text.encode())
    expected, notes, streamed = Notes(), Notes(), Notes()
    lines = read_lines(path, expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "BLOCK", block)
        assert list(stream_lines(path, streamed)) == lines
    assert (streamed.counts, streamed.first) == (expected.counts, expected.first) and not notes.counts


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
def test_packed_files_and_the_line_of_a_bad_byte(tmp_path: Path, pack, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(large, "BLOCK", 5)
    end = {gzip.compress: ".gz", lzma.compress: ".xz"}.get(pack, "")
    path = tmp_path / f"a.txt{end}"
    path.write_bytes(pack("one\ntwo\nthree é\n".encode()))
    assert list(stream_lines(path, Notes())) == ["one", "two", "three é"]
    assert has_more_lines([path], 2) and not has_more_lines([path], 3)
    path.write_bytes(pack(b"one\ntwo\nbad \xff\nfour"))
    with pytest.raises(DataError, match=r"a\.txt.*:3 is not UTF-8 \(byte 0xff\)"):
        list(stream_lines(path, Notes()))
    if end:
        path.write_bytes(pack(b"one\n" * 1000)[:-4])
        with pytest.raises(DataError, match="it may be incomplete"):
            list(stream_lines(path, Notes()))


TABLES = {
    "t.tsv": "en\tfr\n" + "".join(f"a {i}\tb {i}\n" for i in range(5)) + "\n\nlast\tdernier\n",
    "t.csv": 'fr,x,en\nb,1,a\n"b, ""2""\nc",2,a\n\nd,3,e\n',
    "t.jsonl": '{"en": "a", "fr": "b"}\n\n{"fr": "d", "en": 3}\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_records_of_tables_are_those_in_memory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TABLES[name], encoding="utf-8")
    expected = read_examples((name, name), ("en", "fr"), tmp_path)
    examples = read_sized((name, name), ("en", "fr"), tmp_path, 2)
    assert examples.digest and not expected.digest
    assert [list(column) for column in examples.columns] == [list(column) for column in expected.columns]
    assert [examples.where(i) for i in range(len(examples))] == [expected.where(i) for i in range(len(expected))]
    assert examples.notes.rows() == expected.notes.rows()
    few = np.array([0, 2])
    assert examples.take(few).columns == expected.take(few).columns
    assert examples.take(few).where(1) == expected.where(2)


def test_files_side_by_side(tmp_path: Path) -> None:
    for name, n in (("a.en", 5), ("a.fr", 5), ("b.en", 3), ("b.fr", 3)):
        (tmp_path / name).write_text("".join(f"{name} {i}\n" for i in range(n)), encoding="utf-8")
    files = ("a.en", "a.fr", "b.en", "b.fr")
    expected, examples = read_examples(files, ("en", "fr"), tmp_path), read_sized(files, ("en", "fr"), tmp_path, 7)
    assert examples.digest and not read_sized(files, ("en", "fr"), tmp_path, 8).digest
    assert [list(column) for column in examples.columns] == expected.columns
    places = [[examples.where(i, c) for i in range(8)] for c in (0, 1)]
    assert places == [[expected.where(i, c) for i in range(8)] for c in (0, 1)]


@pytest.mark.parametrize(("n", "m"), [(3, 4), (4, 3), (9, 4)])
def test_files_of_unequal_length_are_refused(tmp_path: Path, n: int, m: int) -> None:
    (tmp_path / "a.en").write_text("x\n" * n)
    (tmp_path / "a.fr").write_text("x\n" * m)
    with pytest.raises(DataError, match=rf"a\.en has {n}, .*a\.fr has {m} lines; align"):
        read_sized(("a.en", "a.fr"), (), tmp_path, 2)


def test_the_digest_says_which_texts_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(TABLES["t.tsv"], encoding="utf-8")
    digests = [read_sized(("t.tsv",), columns, tmp_path, 2).digest for columns in (("en",), ("fr",), ("en", "fr"))]
    (tmp_path / "t.tsv").write_text(TABLES["t.tsv"] + "more\tplus\n", encoding="utf-8")
    digests.append(read_sized(("t.tsv",), ("en",), tmp_path, 2).digest)
    assert len(set(digests)) == 4


def test_texts_on_disk_are_a_sequence() -> None:
    letters = FileTexts(lambda: iter("abcdef"), 6)
    assert (letters[0], letters[-1], letters[1:4], list(letters), len(letters)) == (
        "a",
        "f",
        ["b", "c", "d"],
        list("abcdef"),
        6,
    )
    with pytest.raises(IndexError):
        letters[6]
    assert pick("abcdef", np.array([0, 3, 5])) == ["a", "d", "f"]


@given(lines=st.lists(st.integers(1, 5), min_size=1).map(lambda steps: np.cumsum(steps).tolist()))
def test_line_numbers_are_kept_where_they_jump(lines: list[int]) -> None:
    numbers = LineNumbers()
    for record, line in enumerate(lines):
        numbers.add(record, line)
    assert [numbers[record] for record in range(len(lines))] == lines
    assert len(numbers.records) <= 1 + int((np.diff([0, *lines]) > 1).sum())


def test_lines_are_counted_not_bytes(tmp_path: Path) -> None:
    """A short file before a long one: the bytes of the first are not lines."""
    (tmp_path / "short.txt").write_text("nine words that are one line of a text\n", encoding="utf-8")
    (tmp_path / "long.txt").write_text("x" * 100 + "\n" + "y\n" * 30, encoding="utf-8")
    paths = [tmp_path / "short.txt", tmp_path / "long.txt"]
    assert has_more_lines(paths, 31) and not has_more_lines(paths, 32) and not has_more_lines(paths, 50)


@pytest.mark.parametrize("name", ["no.fr", "rows.parquet", "folder"])
def test_what_cannot_be_read_line_by_line_is_left_to_who_can(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.en").write_text("x\n" * 9, encoding="utf-8")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1" + b"\n" * 9)
    (tmp_path / "folder").mkdir()
    assert has_more_lines([tmp_path / "a.en"], 2) and not has_more_lines([tmp_path / "a.en", tmp_path / name], 2, 2)


def test_a_missing_file_beside_a_large_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("x\n" * 9, encoding="utf-8")
    with pytest.raises(DataError, match=r"no file .*a\.fr; check its name and its folder"):
        read_sized(("a.en", "a.fr"), (), tmp_path, 2)


def test_all_lines_of_a_table_are_other_texts_than_a_column(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("text\n" + "a b\n" * 5, encoding="utf-8")
    digests = [PlainText.read_sized(("t.tsv",), str(tmp_path), columns, 2).digest for columns in ((), ("text",))]
    assert all(digests) and len(set(digests)) == 2
