"""The command line end to end, on a model trained for a few steps: outputs and exit codes."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from calling import Call, call

from regard.config import shipped_recipes
from regard.models import ARCHITECTURES
from regard.runs.recipe import Recipe
from tests.shipped import own_models

TIRED = "The animal didn't cross the street because it was too tired."


def one_of_each_architecture() -> list[Any]:
    """All recipes; those whose architecture another recipe has shown already are slow."""
    shown: set[str] = set()
    cases = []
    paths = shipped_recipes()
    for name in own_models():
        architecture = "".join(
            re.findall(r"^architecture = .*$", paths[name].read_text(encoding="utf-8"), re.MULTILINE)
        )
        cases.append(pytest.param(name, marks=pytest.mark.slow if architecture in shown else ()))
        shown.add(architecture)
    return cases


def test_help_version_and_usage(regard: Call) -> None:
    assert regard("--version").out.startswith("regard 0.")
    helped = regard("--help")
    assert helped.code == 0
    for command in ("demo", "recipes", "show", "doctor", "train", "evaluate", "translate", "score", "look", "bench"):
        assert command in helped.out
    assert regard().code == 2
    assert regard("nonsense").code == 2
    assert regard("translate").code == 2
    assert regard("translate", "run", "--nonsense").code == 2


def test_the_process_ends_with_the_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "regard"]
    fine = subprocess.run([*command, "recipes"], cwd=tmp_path, capture_output=True, text=True)
    assert fine.returncode == 0 and "transformer-base" in fine.stdout
    wrong = subprocess.run([*command, "tokenizer", "train", "nothing"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 1 and wrong.stderr.startswith("error: no file nothing")
    assert wrong.stdout == "" and not (tmp_path / "error.log").exists()


def test_a_fault_of_ours_leaves_its_traceback(regard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the moon is full")

    monkeypatch.setattr("regard.config.shipped_recipes", fail)
    ended = regard("recipes")
    assert ended.code == 1 and "error: RuntimeError: the moon is full" in ended.err and "error.log" in ended.err
    assert "the moon is full" in (tmp_path / "error.log").read_text(encoding="utf-8")


def test_show_counts_the_papers_models(regard: Call) -> None:
    base = regard("show", "transformer-base")
    assert base.code == 0 and "63,082,496" in base.out and "3.3e+18" in base.out
    big = regard("show", "transformer-big")
    assert "214,245,376" in big.out and "2.3e+19" in big.out


@pytest.mark.parametrize("name", one_of_each_architecture())
def test_show_of_every_recipe(regard: Call, name: str) -> None:
    shown = regard("show", name)
    assert shown.code == 0, shown.err
    recipe = Recipe.read(name)
    if ARCHITECTURES[recipe.architecture].module.is_counted:
        assert "by counting" in shown.out
        return
    with torch.device("meta"):
        n = sum(parameter.numel() for parameter in recipe.build_model().parameters())
    assert f"{n:,}" in shown.out and "FLOPs per token" in shown.out


def test_show_of_a_run(lab: Path, regard: Call) -> None:
    shown = regard("show", lab / "one")
    assert shown.code == 0 and "embedding" in shown.out and "400 × 32" in shown.out


def test_a_run_is_a_folder_of_inert_files(lab: Path) -> None:
    names = {path.name for path in (lab / "one").iterdir()}
    files = {"recipe.toml", "tokenizer.json", "model.safetensors", "metrics.jsonl", "README.md", "curves.png"}
    assert files | {"result.json", "environment.json", "checkpoints"} <= names
    kinds = {path.suffix for path in (lab / "one").rglob("*") if path.is_file()}
    assert kinds <= {".toml", ".json", ".jsonl", ".safetensors", ".md", ".png", ".npy"}


def test_training_never_writes_over_a_run(lab: Path, regard: Call) -> None:
    before = (lab / "one" / "model.safetensors").read_bytes()
    again = regard("train", lab / "tiny.toml", "--run", lab / "one", "--device", "cpu")
    assert again.code == 1 and "already holds a run (step 20), which is left as it is" in again.err
    assert f"regard train {lab / 'one'} --resume" in again.err
    assert (lab / "one" / "model.safetensors").read_bytes() == before


def test_training_goes_on_where_it_stopped(lab: Path, regard: Call, tmp_path: Path) -> None:
    few = ("--set", "training.steps=4", "--set", "training.save_every=2", "--set", "training.validate_every=0")
    started = regard("train", lab / "tiny.toml", "--run", "r", *few, "--device", "cpu")
    assert started.code == 0, started.err
    went_on = regard("train", "r", "--resume", "--set", "training.steps=6", "--device", "cpu")
    assert went_on.code == 0, went_on.err
    steps = [json.loads(line)["step"] for line in (tmp_path / "r" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5, 6]


def test_training_can_begin_with_another_runs_weights(lab: Path, regard: Call, tmp_path: Path) -> None:
    few = ("--set", "training.steps=1", "--set", "training.learning_rate=1e-12", "--device", "cpu")
    tuned = regard("train", lab / "tiny.toml", "--run", "tuned", "--from", lab / "one", *few)
    assert tuned.code == 0, tuned.err
    assert (tmp_path / "tuned" / "tokenizer.json").read_bytes() == (lab / "one" / "tokenizer.json").read_bytes()
    ours, theirs = (
        regard("score", run, lab / "data" / "valid.en", lab / "data" / "valid.fr", "--device", "cpu").out
        for run in (lab / "one", "tuned")
    )
    assert [float(x) for x in ours.split()] == pytest.approx([float(x) for x in theirs.split()], abs=1e-3)
    wrong = regard("train", lab / "tiny.toml", "--run", "w", "--from", lab / "one", "--set", "model.d_ff=32", *few)
    assert wrong.code == 1 and "model.d_ff = 32 (" in wrong.err and "leave it out" in wrong.err


def test_translate_decodes_as_it_is_told(lab: Path, regard: Call) -> None:
    def run(*settings: str) -> str:
        given = [part for setting in settings for part in ("--set", setting)]
        answered = regard("translate", lab / "one", *given, "--device", "cpu", stdin=f"{TIRED}\n".encode())
        assert answered.code == 0, answered.err
        return answered.out

    assert run() == run("beam=1")
    draws = ("sample=true", "temperature=2.0")
    assert run(*draws, "seed=1") == run(*draws, "seed=1") != run(*draws, "seed=2")


def test_translate_can_be_forced_and_give_more_than_one(lab: Path, regard: Call) -> None:
    wants = ("--set", "beam=3", "--set", "n_best=3", "--prefix", "Les chats", "--json", "--device", "cpu")
    record = json.loads(regard("translate", lab / "one", *wants, stdin=f"{TIRED}\n".encode()).out)
    scores = [found["score"] for found in record["n_best"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True) and record["score"] == scores[0]
    assert all(found["text"].startswith("Les chats") for found in record["n_best"])


def test_translate_aligns_every_target_word(lab: Path, regard: Call) -> None:
    stdin = f"{TIRED}\n\n".encode()
    text, pairs = (
        regard("translate", lab / "one", *more, "--device", "cpu", stdin=stdin).out for more in ((), ("--alignments",))
    )
    translated, empty, _ = pairs.split("\n")
    found = [tuple(map(int, pair.split("-"))) for pair in translated.split()]
    assert empty == "" and sorted(target for _, target in found) == list(range(len(text.split("\n")[0].split())))
    assert all(0 <= source < len(TIRED.split()) for source, _ in found)


def test_runs_translate_together(lab: Path, regard: Call) -> None:
    """The mean of the probabilities of a run and itself is its own; of two runs it is neither's."""

    def log_prob(*partners: str | Path) -> float:
        with_them = [part for partner in partners for part in ("--with", partner)]
        answered = regard(
            "translate", lab / "one", *with_them, "--json", "--device", "cpu", stdin=f"{TIRED}\n".encode()
        )
        assert answered.code == 0, answered.err
        return float(json.loads(answered.out)["log_prob"])

    assert log_prob(lab / "one") == pytest.approx(log_prob(), abs=1e-3)
    assert abs(log_prob(lab / "other") - log_prob()) > 1e-3


def test_score_agrees_with_translate(lab: Path, regard: Call, tmp_path: Path) -> None:
    """The forced score of the model's own answer is the log-probability with which it was found."""
    sources = (lab / "data" / "valid.en").read_text(encoding="utf-8")
    answered = regard("translate", lab / "one", "--json", "--device", "cpu", stdin=sources.encode())
    records = [json.loads(line) for line in answered.out.splitlines()]
    assert len(records) == 12
    (tmp_path / "answers.fr").write_text("".join(r["translation"] + "\n" for r in records), encoding="utf-8")
    arguments = ("score", lab / "one", lab / "data" / "valid.en", "answers.fr", "--device", "cpu")
    plain = [float(line) for line in regard(*arguments).out.splitlines()]
    detailed = [json.loads(line) for line in regard(*arguments, "--json").out.splitlines()]
    assert plain == pytest.approx([row["log_prob"] for row in detailed], abs=1e-4)
    for record, row in zip(records, detailed, strict=True):
        assert len(row["tokens"]) == len(row["log_probs"]) and row["tokens"][-1] == "</s>"
        limited = any("length limit" in note for note in record["notes"])  # then translate counts no end
        mine = sum(row["log_probs"][:-1]) if limited else row["log_prob"]
        assert mine == pytest.approx(record["log_prob"], abs=1e-3)


def test_evaluate_reports_figures_with_their_settings(lab: Path, regard: Call, tmp_path: Path) -> None:
    whole = regard("evaluate", lab / "one", "--json", "--outputs", "out.fr", "--device", "cpu")
    assert whole.code == 0, whole.err
    [report] = json.loads(whole.out)["runs"]
    assert report["lines"] == 12 and report["decoding"]["beam"] == 1
    names = [metric["name"] for metric in report["metrics"]]
    assert names == ["BLEU", "BLEU lower-cased", "chrF", "exact match"]
    assert all("case:" in metric["signature"] for metric in report["metrics"])
    assert "|tok:13a|" in report["metrics"][0]["signature"]
    assert len((tmp_path / "out.fr").read_text(encoding="utf-8").splitlines()) == 12
    assert "BLEU lower-cased" in regard("evaluate", lab / "one", "--device", "cpu").out


def test_two_runs_are_compared_by_the_paired_test(lab: Path, regard: Call) -> None:
    compared = regard("evaluate", lab / "one", lab / "other", "--json", "--device", "cpu")
    assert compared.code == 0, compared.err
    found = json.loads(compared.out)
    assert len(found["runs"]) == 2 and [row["name"] for row in found["paired"]] == ["BLEU", "BLEU lower-cased", "chrF"]
    assert all(0 <= row["p"] <= 1 for row in found["paired"])
    table = regard("evaluate", lab / "one", lab / "other", "--device", "cpu").out
    assert "Paired bootstrap test" in table


def test_runs_of_different_tests_are_not_compared(lab: Path, regard: Call, tmp_path: Path) -> None:
    other = shutil.copytree(lab / "other", tmp_path / "other")
    recipe = (other / "recipe.toml").read_text(encoding="utf-8")
    (other / "recipe.toml").write_text(
        recipe.replace('test = ["held-out.en", "held-out.fr"]', 'test = ["valid.en", "valid.fr"]')
    )
    refused = regard("evaluate", lab / "one", other, "--device", "cpu")
    assert refused.code == 1 and "have different test sets, so nothing was compared" in refused.err
    files = [lab / "data" / f"valid.{language}" for language in ("en", "fr")]
    assert regard("evaluate", lab / "one", other, *files, "--device", "cpu").code == 0


def test_evaluate_takes_other_files(lab: Path, regard: Call) -> None:
    files = (lab / "data" / "valid.en", lab / "data" / "valid.fr")
    own, same, other = (
        json.loads(regard("evaluate", lab / "one", *more, "--json", "--device", "cpu").out)["runs"][0]["metrics"]
        for more in ((), (lab / "data" / "held-out.en", lab / "data" / "held-out.fr"), files)
    )
    assert own == same != other
    half = regard("evaluate", lab / "one", files[0], "--device", "cpu")
    assert (
        half.code == 1
        and "pairs need two files, source and target, or a table with two columns; " in half.err
        and "valid.en give valid.en" in half.err
    )


def test_doctor_reports_and_writes_nothing(lab: Path, regard: Call, tmp_path: Path) -> None:
    before = sorted(path for path in lab.rglob("*"))
    told = regard("doctor", lab / "tiny.toml", "--seconds", "0.5", "--device", "cpu")
    assert told.code == 0, told.err
    for what in ("examples", "tokens per word", "length ratio", "also in training", "memory to train", "by heart"):
        assert what in told.out
    assert sorted(path for path in lab.rglob("*")) == before and list(tmp_path.iterdir()) == []


def test_signatures_are_whole_also_on_a_narrow_screen(lab: Path, regard: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calling.COLUMNS", "80")
    assert "|tok:13a|smooth:exp|version:" in regard("evaluate", lab / "one", "--device", "cpu").out


def test_what_is_looked_at_cannot_steer_the_terminal(lab: Path, regard: Call) -> None:
    shown = regard("look", lab / "one", "\x1b[31mThe animal\x07", "--terminal", "--device", "cpu")
    assert shown.code == 0 and "\x1b" not in shown.out and "\x07" not in shown.out


def test_the_doctor_writes_nothing_also_where_a_cache_is_named(lab: Path, regard: Call, tmp_path: Path) -> None:
    cache = ("--set", f"data.cache={tmp_path / 'cache'}")
    assert regard("doctor", lab / "one" / "recipe.toml", *cache, "--seconds", "0.1", "--device", "cpu").code == 0
    assert not (tmp_path / "cache").exists()


def test_settings_of_sampling_without_sampling_are_refused(lab: Path, regard: Call) -> None:
    for name in ("temperature", "top_k", "top_p", "min_p"):
        refused = regard("translate", lab / "one", "--set", f"{name}=1", "--device", "cpu", stdin=b"dog\n")
        assert refused.code == 1 and f"{name} is for sampling" in refused.err
    drawn = ("--set", "sample=true", "--set", "temperature=0.5")
    assert regard("translate", lab / "one", *drawn, "--device", "cpu", stdin=b"dog\n").code == 0


def test_evaluate_says_what_faster_decoding_costs(lab: Path) -> None:
    asked = ("evaluate", lab / "one", "--set", "decoding.weights=int8", "--device", "cpu")
    measured = call(lab, *asked, "--json", "--outputs", "outputs.txt")
    assert measured.code == 0, measured.err
    report = json.loads(measured.out)
    assert [run["decoding"]["weights"] for run in report["runs"]] == ["float32", "int8"]
    assert report["paired"][0]["value_b"] == report["runs"][1]["metrics"][0]["value"]
    assert len((lab / "outputs.txt").read_text(encoding="utf-8").splitlines()) == 12
    shown = call(lab, *asked).out
    heading = next(line for line in shown.splitlines() if "change" in line)
    assert heading.replace("┃", " ").split() == ["metric", "weights=float32", "weights=int8", "change", "p"]
