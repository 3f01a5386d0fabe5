import csv
import gzip
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.files import records
from regard.data.files.reading import read_columns, read_examples, read_lines
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r")), min_size=1))
def test_a_line_ends_at_newline_only(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    lines[0] = lines[0].lstrip("\ufeff")
    path = write(tmp_path_factory.mktemp("lines") / "a.txt", "\n".join(lines) + "\n")
    assert read_lines(path) == lines


@pytest.mark.parametrize(("content", "expected"), [("a\nb", 2), ("a\nb\n", 2), ("a\n\n", 2), ("\n", 1), ("", 0)])
def test_last_line_end_is_optional(tmp_path: Path, content: str, expected: int) -> None:
    assert len(read_lines(write(tmp_path / "a.txt", content))) == expected


def test_a_lone_carriage_return_at_the_end_of_a_file_is_half_a_line_end(tmp_path: Path) -> None:
    notes = Notes()
    assert read_lines(write(tmp_path / "a.txt", "a\nb\r"), notes) == ["a", "b"]
    assert notes.rows() == ["CRLF line end read as LF: 1 (first at a.txt:2)"]


def test_separators_other_than_newline(tmp_path: Path) -> None:
    text = "a\x85b\u2028c\x0cd\re"
    assert read_lines(write(tmp_path / "a.txt", text + "\nf\n")) == [text, "f"]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files(tmp_path: Path, ending: str, pack) -> None:
    packed = pack("é\nb\n".encode())
    assert read_lines(write(tmp_path / f"a.txt{ending}", packed)) == ["é", "b"]
    with pytest.raises(DataError, match=r"broken\.txt.*cannot be read.*again"):
        read_lines(write(tmp_path / f"broken.txt{ending}", packed[:-9]))


@pytest.mark.parametrize("between", [b"", bytes(4), bytes(8)])
@pytest.mark.parametrize("behind", [b"", bytes(4)])
def test_all_streams_of_an_xz_file_are_read(tmp_path: Path, between: bytes, behind: bytes) -> None:
    packed = lzma.compress(b"a\n") + between + lzma.compress(b"b\n") + behind
    assert read_lines(write(tmp_path / "a.txt.xz", packed)) == ["a", "b"]


def test_damage_behind_the_first_stream_of_an_xz_file(tmp_path: Path) -> None:
    first, second = lzma.compress(b"a\n"), lzma.compress(b"b\n")
    flipped = [second[:i] + bytes([second[i] ^ 1]) + second[i + 1 :] for i in range(len(second))]
    cut = [second[:i] for i in range(1, len(second))]
    for damaged in (*flipped, *cut, b"garbage", bytes(3), bytes(4) + b"garbage", bytes(2) + second):
        with pytest.raises(DataError, match=r"a\.txt\.xz cannot be read.*again"):
            read_lines(write(tmp_path / "a.txt.xz", first + damaged))


@pytest.mark.parametrize(("ending", "pack"), [(".GZ", gzip.compress), (".Xz", lzma.compress)])
def test_endings_may_be_in_capitals(tmp_path: Path, ending: str, pack) -> None:
    assert read_lines(write(tmp_path / f"a.txt{ending}", pack(b"a\n"))) == ["a"]
    for name, content in TABLE_TEXTS.items():
        for file, data in ((name.upper(), content.encode()), (name.upper() + ending, pack(content.encode()))):
            write(tmp_path / file, data)
            assert read_examples((file,), ("en", "fr", "id"), tmp_path)[1] == ("two", "deux, trois", "2")


def test_crlf_and_byte_order_mark_are_noted(tmp_path: Path) -> None:
    notes = Notes()
    assert read_lines(write(tmp_path / "a.txt", "\ufeffa\nb\r\nc\r\n"), notes) == ["a", "b", "c"]
    assert notes.rows() == [
        "byte order mark dropped: 1 (first at a.txt:1)",
        "CRLF line end read as LF: 2 (first at a.txt:2)",
    ]


@pytest.mark.parametrize(("prefix", "line"), [(b"", 3), (b"\xef\xbb\xbf", 3)])
def test_invalid_utf8_names_the_line(tmp_path: Path, prefix: bytes, line: int) -> None:
    path = write(tmp_path / "a.txt", prefix + b"a\nb\nc\xe9d\n")
    with pytest.raises(DataError, match=rf"a\.txt:{line} is not UTF-8 \(byte 0xe9\)"):
        read_lines(path)


def test_utf16_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt:1 is UTF-16; save it as UTF-8"):
        read_lines(write(tmp_path / "a.txt", "abc".encode("utf-16")))


def test_missing_file_points_to_a_packed_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.root"):
        read_lines(tmp_path / "a.txt")
    write(tmp_path / "a.txt.xz", lzma.compress(b"a\n"))
    with pytest.raises(DataError, match=r"a\.txt\.xz exists"):
        read_lines(tmp_path / "a.txt")


def test_parallel_files(tmp_path: Path) -> None:
    for name in ("a.en", "a.fr", "b.en", "b.fr"):
        write(tmp_path / name, f"{name} 1\n{name} 2\n")
    examples = read_examples(("a.en", "a.fr", "b.en", "b.fr"), ("en", "fr"), tmp_path)
    assert [examples[i] for i in range(len(examples))] == [
        ("a.en 1", "a.fr 1"),
        ("a.en 2", "a.fr 2"),
        ("b.en 1", "b.fr 1"),
        ("b.en 2", "b.fr 2"),
    ]
    assert [examples.where(i) for i in range(4)] == ["a.en:1", "a.en:2", "b.en:1", "b.en:2"]
    assert [examples.where(i, 1) for i in range(4)] == ["a.fr:1", "a.fr:2", "b.fr:1", "b.fr:2"]
    assert examples.take(np.array([3])).where(0, column=-1) == "b.fr:2"
    assert read_examples(("a.en", "a.fr"), (), tmp_path).names == ("a.en", "a.fr")
    with pytest.raises(ConfigError, match="2 columns"):
        read_examples(("a.en", "a.fr", "b.en"), ("en", "fr"), tmp_path)


def test_unequal_counts_say_where_to_look(tmp_path: Path) -> None:
    write(tmp_path / "a.en", "one\ntwo\nthree\n")
    write(tmp_path / "a.fr", "un\n\n")
    with pytest.raises(DataError) as caught:
        read_examples(("a.en", "a.fr"), (), tmp_path)
    message = str(caught.value)
    for part in ("a.en has 3 lines", "a.fr has 2", "a.en:3 ('three')", "one side only is a.fr:2"):
        assert part in message


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "a.en", "")
    with pytest.raises(DataError, match="no lines at all"):
        read_examples(("a.en",), (), tmp_path)
    with pytest.raises(ConfigError, match=r"data\.train"):
        read_examples((), (), tmp_path)


TABLE_TEXTS = {
    "t.tsv": 'id\tfr\ten\n1\tun "\tone\n\n2\tdeux, trois\ttwo\n',
    "t.csv": 'id,fr,en\n1,"un """,one\n\n2,"deux, trois",two\n',
    "t.jsonl": '{"id": 1, "fr": "un \\"", "en": "one"}\n\n{"en": "two", "fr": "deux, trois", "id": 2}\n',
}


@pytest.mark.parametrize("name", TABLE_TEXTS)
def test_tables_give_named_columns(tmp_path: Path, name: str) -> None:
    write(tmp_path / f"{name}.xz", lzma.compress(TABLE_TEXTS[name].encode()))
    examples = read_examples((f"{name}.xz",), ("en", "fr", "id"), tmp_path)
    assert [examples[0], examples[1]] == [("one", 'un "', "1"), ("two", "deux, trois", "2")]
    assert examples.where(1) == examples.where(1, 2) == f"{name}.xz:{3 if name == 't.jsonl' else 4}"
    assert examples.notes.counts == {"empty line of a table skipped": 1}
    with pytest.raises(DataError, match=r"no .*'de'; it has: .*fr"):
        read_examples((f"{name}.xz",), ("de",), tmp_path)
    with pytest.raises(ConfigError, match="columns ="):
        read_examples((f"{name}.xz",), (), tmp_path)


def test_tables_without_a_header_have_numbered_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "ham\tGo\nspam\tWin\n")
    assert read_columns(path, ("2", "1")) == ([["Go", "Win"], ["ham", "spam"]], [1, 2])


def test_csv_fields_may_hold_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'a,b\n"one\ntwo",x\nthree,y\n')
    assert read_columns(path, ("a", "b")) == ([["one\ntwo", "three"], ["x", "y"]], [2, 4])


def test_csv_fields_may_be_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, long = csv.field_size_limit(), "a" * 200_000
    path = write(tmp_path / "t.csv", f'a,b\n"{long}",x\n')
    assert read_columns(path, ("a", "b")) == ([[long], ["x"]], [2])
    monkeypatch.setattr(records, "LONGEST_FIELD", 100_000)
    with pytest.raises(DataError, match=r"t\.csv:2 has a field that is too long \(.*100000.*; shorten it"):
        read_columns(path, ("a", "b"))
    assert csv.field_size_limit() == usual


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "a\tb\n1\t2\n1\n", r"t\.tsv:3 has 1 fields, the first line has 2"),
        ("t.tsv", "a\ta\n1\t2\n", r"t\.tsv:1 names the column 'a' twice"),
        ("t.csv", 'a,b\n1,2\n"1,2\n', r"t\.csv:3 is not valid CSV"),
        ("t.jsonl", '{"a": "x"}\n{"a": \n', r"t\.jsonl:2 is not valid JSON"),
        ("t.jsonl", '{"a": "x"}\n["x"]\n', r"t\.jsonl:2 must be a JSON object"),
        ("t.jsonl", '{"a": "x"}\n{"a": ["x"]}\n', r"t\.jsonl:2: 'a' must be text"),
        ("t.jsonl", '{"a": "\\ud800"}\n', r"t\.jsonl:1: 'a' contains half of a surrogate pair"),
        ("t.jsonl", '{"a": "x"}\n{"a": NaN}\n', r"t\.jsonl:2: 'a' is NaN, not a finite number"),
        ("t.jsonl", '{"a": -Infinity}\n', r"t\.jsonl:1: 'a' is -Infinity, not a finite number"),
        ("t.jsonl", '{"a": 1e999}\n', r"t\.jsonl:1: 'a' is Infinity, not a finite number"),
        ("t.jsonl", '{"a": "x"}\n{"a": "y", "a": "z"}\n', r"t\.jsonl:2 cannot be read: an object has 'a' twice"),
        ("t.jsonl", '{"a": 1' + 5000 * "0" + "}\n", r"t\.jsonl:1 cannot be read: .*digits"),
    ],
)
def test_broken_tables_name_the_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_columns(write(tmp_path / name, content), ("a",))


def test_tables_and_plain_text_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"t\.tsv is a table and a\.en is plain text"):
        read_examples(("a.en", "t.tsv"), ("a",), tmp_path)
