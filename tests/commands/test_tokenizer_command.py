"""regard tokenizer train and show, as a user runs them."""

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from regard.commands.tokenizer import app
from regard.errors import ConfigError, DataError, RunError
from regard.text import Tokenizer

TEXT = "the animal was tired, the street was wide\nla rue était large\n"


def regard_tokenizer(*arguments: str | Path, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=typed, catch_exceptions=False)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text(TEXT * 3, encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(TEXT.replace("\n", "\r\n").encode()))
    out = tmp_path / "tokenizer.json"
    arguments = ("train", tmp_path / "a.txt", tmp_path / "b.txt.gz", "--vocab-size", 280, "--out", out)
    result = regard_tokenizer(*map(str, arguments))
    assert result.exit_code == 0
    assert "8 lines" in result.stdout
    assert "CRLF line end read as LF: 2 (first at b.txt.gz:1)" in result.stdout
    assert "bpe, 280 tokens" in result.stdout
    return out


def test_train_writes_a_tokenizer(trained: Path) -> None:
    tokenizer = Tokenizer.load(trained)
    assert tokenizer.vocab_size == 280
    assert tokenizer.decode(tokenizer.encode("été")) == "été"


def test_train_says_what_is_unknown_and_what_was_not_needed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    out = tmp_path / "a new folder" / "words.json"
    result = regard_tokenizer("train", tmp_path / "a.txt", "--kind", "words", "--min-count", "2", "--out", out)
    assert "unknown" in result.stdout
    assert "instead of 8,000" in result.stdout


def test_show_gives_the_merges_in_order(trained: Path) -> None:
    for source in (trained, trained.parent):
        shown = regard_tokenizer("show", source, "the [b]tired").stdout
        row = next(line for line in shown.splitlines() if "␣" not in line and " the " in line)
        assert "h+e" in row or "t+h" in row
        assert "[" in shown and "lost" not in shown


def test_show_reads_standard_input(trained: Path) -> None:
    assert regard_tokenizer("show", trained, typed="été\n").stdout == regard_tokenizer("show", trained, "été").stdout


def test_show_of_words_names_what_is_lost(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    regard_tokenizer("train", tmp_path / "a.txt", "--kind", "words", "--out", tmp_path / "tokenizer.json")
    shown = regard_tokenizer("show", tmp_path, "the cow\nwas [red]").stdout
    assert "lost: ␣cow" in shown and "lost: \\n" in shown and "lost: ␣[" in shown


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    for error, arguments in (
        (DataError, ["train", tmp_path / "empty.txt"]),
        (DataError, ["train", tmp_path / "missing.txt"]),
        (ConfigError, ["train", tmp_path / "empty.txt", "--vocab-size", "100"]),
        (ConfigError, ["train", tmp_path / "empty.txt", "--kind", "syllables"]),
        (RunError, ["show", tmp_path, "text"]),
    ):
        with pytest.raises(error):
            regard_tokenizer(*arguments)


def test_further_special_tokens(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT + "the <mask>\n", encoding="utf-8")
    out = tmp_path / "tokenizer.json"
    result = regard_tokenizer("train", tmp_path / "a.txt", "--extra", "<mask>", "--extra", "<to-fr>", "--out", out)
    assert result.exit_code == 0
    tokenizer = Tokenizer.load(out)
    assert [tokenizer.special_id(name) for name in ("<mask>", "<to-fr>")] == [4, 5]
    assert not {4, 5} & set(tokenizer.encode("the <mask><to-fr>"))
