"""What happened to the lines of a translator is said on standard error, whatever is asked of it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from calling import Call, call

from regard.commands.evaluate import write_outputs
from regard.evaluation.measured import Measured

ENGLISH = "The animal didn't cross the street because it was too tired."
FRENCH = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
LONG = "The dog crossed the street. " * 40
MARKED = ["byte order mark dropped: 1 (first at a.en:1)", "CRLF line end read as LF: 3 (first at a.en:1)"]


@pytest.fixture(scope="module")
def words(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows whole words only, in a folder of its own."""
    place = tmp_path_factory.mktemp("words")
    few = ("--set", "tokenizer.kind=words", "--set", "training.steps=1", "--device", "cpu")
    assert call(place, "train", lab / "tiny.toml", "--run", "words", *few).code == 0
    return place / "words"


@pytest.fixture
def marked(tmp_path: Path) -> tuple[str, str]:
    """Files as some editors write them; the second source is empty."""
    (tmp_path / "a.en").write_bytes(f"\ufeff{ENGLISH}\r\n\r\n".encode())
    (tmp_path / "a.fr").write_bytes(f"{FRENCH}\n{FRENCH}\r\n".encode())
    return "a.en", "a.fr"


def test_score_says_what_it_read(lab: Path, regard: Call, marked: tuple[str, str]) -> None:
    scored = regard("score", lab / "one", *marked, "--device", "cpu")
    assert scored.code == 0 and len(scored.out.splitlines()) == 2
    assert scored.err.splitlines() == [*MARKED, "line 2: empty source"]
    files = [lab / "data" / f"valid.{language}" for language in ("en", "fr")]
    assert regard("score", lab / "one", *files, "--device", "cpu").err == ""


def test_score_says_which_words_are_unknown(words: Path, regard: Call, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text(f"{ENGLISH}\nThe xyzzy\n", encoding="utf-8")
    (tmp_path / "a.fr").write_text(f"{FRENCH}\nLe plugh\n", encoding="utf-8")
    scored = regard("score", words, "a.en", "a.fr", "--json", "--device", "cpu")
    assert scored.code == 0 and len(scored.out.splitlines()) == 2
    assert scored.err == "line 2: unknown: ' xyzzy', unknown: ' plugh'\n"


def test_evaluate_says_what_it_read_once(lab: Path, regard: Call, marked: tuple[str, str]) -> None:
    compared = regard("evaluate", lab / "one", lab / "other", *marked, "--json", "--device", "cpu")
    assert compared.code == 0 and compared.err.splitlines() == MARKED
    assert json.loads(compared.out)["runs"][0]["lines"] == 2
    assert regard("evaluate", lab / "one", "--device", "cpu").err == ""


def test_outputs_of_runs_of_one_name_are_refused(lab: Path, regard: Call, tmp_path: Path) -> None:
    for folder, run in (("a", "one"), ("b", "other")):
        shutil.copytree(lab / run, tmp_path / folder / "m")
    refused = regard("evaluate", "a/m", "b/m", "--outputs", "oo", "--device", "cpu")
    assert refused.code == 1 and "a/m and b/m, which have one name, to one file, oo.m" in refused.err
    assert not list(tmp_path.glob("oo*"))
    assert regard("evaluate", "a/m", "b/m", "--device", "cpu").code == 0
    assert regard("evaluate", "a/m", lab / "other", "--outputs", "oo", "--device", "cpu").code == 0
    assert sorted(path.name for path in tmp_path.glob("oo*")) == ["oo.m", "oo.other"]


def test_translate_says_that_there_are_more(lab: Path, regard: Call) -> None:
    ask = ("translate", lab / "one", "--set", "beam=3", "--set", "n_best=3", "--device", "cpu")
    stdin = f"{ENGLISH}\n{LONG}\n".encode()
    plain = regard(*ask, stdin=stdin)
    said = "n_best = 3: the best of each line is shown; --json shows the others too"
    assert plain.code == 0 and len(plain.out.splitlines()) == 2 and plain.err.splitlines().count(said) == 1
    full = regard(*ask, "--json", stdin=stdin)
    short, long = map(json.loads, full.out.splitlines())
    assert full.err == "" and len(short["n_best"]) == 3
    assert "n_best" not in long and "no n_best of a split line" in long["notes"]
    assert "n_best" not in regard("translate", lab / "one", "--device", "cpu", stdin=stdin).err


def test_alignments_come_with_the_same_notes_as_the_text(lab: Path, regard: Call) -> None:
    ask, stdin = ("translate", lab / "one", "--device", "cpu"), f"{ENGLISH}\n{LONG}\n\n".encode()
    plain, aligned = regard(*ask, stdin=stdin), regard(*ask, "--alignments", stdin=stdin)
    assert aligned.code == 0 and len(aligned.out.split("\n")) == 4
    assert "line 2: split into " in aligned.err and aligned.err == plain.err


@pytest.fixture
def certain(lab: Path, tmp_path: Path) -> Path:
    """A run that expects to be as sure as no line makes it."""
    run = Path(shutil.copytree(lab / "one", tmp_path / "certain"))
    (run / "expected.json").write_text('{"log_prob_per_token": -0.25}', encoding="utf-8")
    return run


def test_a_training_keeps_how_sure_its_translations_are(lab: Path, regard: Call) -> None:
    """The first percentile of what greedy translations of the validation lines have."""
    lines = (lab / "data" / "valid.en").read_bytes()
    greedy = regard("translate", lab / "one", "--json", "--set", "beam=1", "--device", "cpu", stdin=lines)
    records = [json.loads(line) for line in greedy.out.splitlines()]
    kept = json.loads((lab / "one" / "expected.json").read_text())["log_prob_per_token"]
    values = [record["log_prob_per_token"] for record in records]
    assert np.percentile(values, 1) == pytest.approx(kept, abs=1e-5)
    noted = [any(note.startswith("unusual: ") for note in record["notes"]) for record in records]
    assert noted == [value < kept for value in values] and noted.count(True) == 1
    assert sum(values) < 0 and all(record["log_prob"] <= record["log_prob_per_token"] for record in records)


def test_a_line_that_is_less_likely_than_in_validation_gets_a_note(certain: Path, lab: Path, regard: Call) -> None:
    note = "line 1: {}unusual: the model is unsure, perhaps because it was not trained on such input (log P per token -"
    plain = regard("translate", certain, "--device", "cpu", stdin=f"{ENGLISH}\n\n".encode())
    assert plain.code == 0 and note.format("hit the length limit, ") in plain.err and "line 2" not in plain.err
    assert "above -0.25 in 99 % of the validation lines)" in plain.err
    full = regard("translate", certain, "--json", "--device", "cpu", stdin=f"{ENGLISH}\n\n".encode())
    first, empty = map(json.loads, full.out.splitlines())
    assert first["notes"][-1].startswith("unusual: ") and first["log_prob_per_token"] < -0.25
    assert empty["log_prob_per_token"] is None and empty["notes"] == ["empty"]


@pytest.mark.parametrize("options", [("--set", "sample=true"), ("--prefix", "Le"), ("--with", "other")])
def test_what_the_model_did_not_choose_alone_gets_no_such_note(
    certain: Path, lab: Path, regard: Call, options: tuple[str, str]
) -> None:
    if options[0] == "--with":
        options = ("--with", str(lab / options[1]))
    told = regard("translate", certain, *options, "--device", "cpu", stdin=f"{ENGLISH}\n".encode())
    assert told.code == 0 and "unusual" not in told.err


def test_a_run_that_kept_nothing_gives_no_such_note(certain: Path, regard: Call) -> None:
    (certain / "expected.json").unlink()
    told = regard("translate", certain, "--device", "cpu", stdin=f"{ENGLISH}\n".encode())
    assert told.code == 0 and "unusual" not in told.err


@pytest.mark.parametrize("content", ["", "null", "[]", '{"log_prob_per_token": null}', "[" * 100_000, '{"a": NaN}'])
def test_what_was_kept_may_be_corrupted(certain: Path, regard: Call, content: str) -> None:
    (certain / "expected.json").write_text(content, encoding="utf-8")
    told = regard("translate", certain, "--device", "cpu", stdin=f"{ENGLISH}\n".encode())
    assert told.code == 1 and "expected.json is corrupted" in told.err


def test_an_output_of_several_lines_is_one_line_of_the_file(tmp_path: Path) -> None:
    measured = Measured("two lines", [], {}, [], outputs=["one\ntwo\nthree", "four"])
    write_outputs(measured, tmp_path / "outputs")
    assert (tmp_path / "outputs").read_text() == "one two three\nfour\n"
