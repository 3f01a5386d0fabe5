"""N lines in, N lines out: a line ends at \\n only, and whatever a line holds it gets its answer."""

import gzip
import io
import json
import lzma
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from calling import Call
from hypothesis import given
from hypothesis import strategies as st

from regard.commands.lines import answered, print_table, read_lines, write_line
from regard.errors import DataError

ENGLISH = "The animal didn't cross the street because it was too tired."

ODD_LINES = [
    ENGLISH,
    "",
    "   \t ",
    "two\u2028lines\u2029or\u0085one\x0bor\x0cnone",
    "</s> <pad> <s> <unk>",
    "नमस्ते 你好 🙂 \x00 \x1b[31m",
    "\ufeff",
    "a" * 3000,
    ENGLISH,
]


def from_bytes(content: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))
    return list(read_lines(None))


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\n", ["a", ""]),
        (b"\n", [""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        ("a\u2028b\u0085c\n".encode(), ["a\u2028b\u0085c"]),
        (b" a \n", [" a "]),
    ],
)
def test_a_line_ends_at_a_line_feed_only(content: bytes, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert from_bytes(content, monkeypatch) == lines


def test_a_file_is_read_as_standard_input_is(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes("é\u2028\r\n\nz".encode())
    assert list(read_lines(tmp_path / "lines.txt")) == ["é\u2028", "", "z"]


def test_a_byte_order_mark_and_crlf_are_no_text_and_each_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = "\ufeffa\r\nb\n\ufeffc\r\n".encode()
    assert from_bytes(content, monkeypatch) == ["a", "b", "\ufeffc"]  # a mark is one at the beginning only
    assert capsys.readouterr().err.splitlines() == [
        "byte order mark dropped: 1 (first at standard input:1)",
        "CRLF line end read as LF: 2 (first at standard input:1)",
    ]
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\nb\r\n")
    assert list(read_lines(path)) == ["a", "b"]
    assert capsys.readouterr().err == f"CRLF line end read as LF: 1 (first at {path}:2)\n"
    path.write_bytes(b"a\nb\n")
    assert list(read_lines(path)) == ["a", "b"] and capsys.readouterr().err == ""


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_unpacked(ending: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / f"lines.txt{ending}"
    path.write_bytes(pack("\ufeffé\u2028\r\n\nz".encode()))
    assert list(read_lines(path)) == ["é\u2028", "", "z"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"cannot be read: .*; it may be incomplete"):
        list(read_lines(path))


def test_a_dash_is_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert list(read_lines(Path("-"))) == ["a", "b"]
    typed = iter(["c", "d"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    assert [line for _, line, _ in islice(answered(Path("-"), list), 1)] == ["c"]
    assert list(typed) == ["d"]  # on a terminal a line is answered before the next is read


def test_bytes_that_are_no_text_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"lines\.txt:2 is not UTF-8 \(byte 4\); fix it and run again"):
        list(read_lines(path))
    with pytest.raises(DataError, match="standard input:1 is not UTF-8"):
        from_bytes(b"\xff\n", monkeypatch)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file"):
        list(read_lines(tmp_path / "none.txt"))


@given(st.text())
def test_what_is_written_is_one_line(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stream = io.StringIO(newline="")
        patch.setattr(sys, "stdout", stream)
        write_line(text)
    written = stream.getvalue()
    assert written.endswith("\n") and written.count("\n") == 1 and "\r" not in written


def test_every_odd_line_has_its_answer(lab: Path, regard: Call) -> None:
    stdin = "".join(line + "\n" for line in ODD_LINES).encode()
    outcome = regard("translate", lab / "one", "--device", "cpu", stdin=stdin)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.split("\n")
    assert lines.pop() == "" and len(lines) == len(ODD_LINES)
    assert [lines[i] for i in (1, 2)] == ["", ""]
    assert lines[0] and lines[0] == lines[-1]  # the same sentence, the same answer, wherever it stands


@pytest.mark.parametrize("n", [400, pytest.param(2000, marks=pytest.mark.slow)])  # seconds to translate 10,000 words
def test_json_says_what_happened_to_each_line(lab: Path, regard: Call, n: int) -> None:
    words = "The dog crossed the street. " * n
    sentences = [ENGLISH, "", " ", words, "dog " * 200]
    stdin = "".join(line + "\n" for line in sentences).encode()
    outcome = regard("translate", lab / "one", "--json", "--device", "cpu", stdin=stdin)
    assert outcome.code == 0, outcome.err
    records = [json.loads(line) for line in outcome.out.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [record["source"] for record in records] == sentences
    assert records[1]["notes"] == records[2]["notes"] == ["empty"]
    assert records[1]["translation"] == records[2]["translation"] == ""
    assert not [note for note in records[0]["notes"] if note.startswith("split")]
    assert records[3]["notes"][0].startswith("split into ") and records[4]["notes"][0].startswith("split into ")
    assert int(records[3]["notes"][0].split()[-1]) > n / 20


def test_what_happened_is_also_said_beside_plain_output(lab: Path, regard: Call) -> None:
    outcome = regard("translate", lab / "one", "--device", "cpu", stdin=f"\n{'dog ' * 200}\n".encode())
    assert outcome.code == 0
    assert "line 2: split into " in outcome.err and "line 1" not in outcome.err


def test_words_that_are_unknown_are_said(lab: Path, regard: Call) -> None:
    words = ("--set", "tokenizer.kind=spaces", "--set", "training.steps=1", "--device", "cpu")
    assert regard("train", lab / "tiny.toml", "--run", "words", *words).code == 0
    stdin = b"The zebra\n\nThe dog\n"
    plain = regard("translate", "words", "--device", "cpu", stdin=stdin)
    assert plain.code == 0 and plain.out.count("\n") == 3
    assert "unknown: 'zebra'" in plain.err.splitlines()[0] and plain.err.count("unknown") == 1
    forced = regard("translate", "words", "--prefix", "Le zèbre", "--json", "--device", "cpu", stdin=stdin)
    first, empty, last = (json.loads(line)["notes"] for line in forced.out.splitlines())
    assert "unknown: 'zebra' 'zèbre'" in first and empty == ["empty"] and "unknown: 'zèbre'" in last


def test_a_byte_order_mark_and_crlf_change_nothing(lab: Path, regard: Call) -> None:
    one, other = (
        regard("translate", lab / "one", "--device", "cpu", stdin=f"{mark}{ENGLISH}{end}\n{end}\n".encode())
        for mark, end in (("", ""), ("\ufeff", "\r"))
    )
    assert one.code == 0 and one.out == other.out and one.out.count("\n") == 2
    assert other.err.splitlines()[:2] == [
        "byte order mark dropped: 1 (first at standard input:1)",
        "CRLF line end read as LF: 2 (first at standard input:1)",
    ]


def test_packed_files_and_a_dash_are_translated_as_lines_are(lab: Path, regard: Call, tmp_path: Path) -> None:
    lines = f"{ENGLISH}\n".encode()
    (tmp_path / "lines.xz").write_bytes(lzma.compress(lines))
    piped = regard("translate", lab / "one", "--device", "cpu", stdin=lines)
    assert piped.code == 0 and piped.out.strip()
    assert regard("translate", lab / "one", "lines.xz", "--device", "cpu") == piped
    assert regard("translate", lab / "one", "-", "--device", "cpu", stdin=lines) == piped


def test_nothing_in_nothing_out(lab: Path, regard: Call) -> None:
    outcome = regard("translate", lab / "one", "--device", "cpu")
    assert (outcome.code, outcome.out) == (0, "")


def test_special_tokens_in_a_line_are_text(lab: Path, regard: Call) -> None:
    """`</s>` does not end the source: what stands behind it still counts."""
    stdin = f"a </s> {ENGLISH}\na </s>\n".encode()
    first, second = regard("translate", lab / "one", "--json", "--device", "cpu", stdin=stdin).out.splitlines()
    assert json.loads(first)["log_prob"] != json.loads(second)["log_prob"]


NORMS = ("run", "clip", "steps", "median norm", "largest", "at step", "clipped", "last loss")
FIGURES = ["1", "2 of 80", "1.58e+05", "3.15e+06", "2,000", "100.0%", "3.373"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_in_a_table_is_cut(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")  # no colors
    monkeypatch.setenv("FORCE_COLOR", "1" if is_terminal else "")
    print_table(NORMS, [["sentences-gru", *FIGURES], ["runs/sentences-gru/longer", *FIGURES]], are_numbers=True)
    numbers = capsys.readouterr().out
    [row] = [line for line in numbers.splitlines() if " sentences-gru " in line]
    assert all(figure in row for figure in FIGURES) and "…" not in numbers
    assert is_terminal == (max(map(len, numbers.splitlines())) <= 80)
    print_table(("file", "what"), [["data/sentences-of-a-long-name.txt", "a/long/path" * 20]])
    words = capsys.readouterr().out
    assert "data/sentences-of-a-long-name.txt" in words and "…" not in words
    assert max(map(len, words.splitlines())) <= 80
