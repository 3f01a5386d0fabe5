import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from bench import data, machine, translators
from bench.__main__ import BENCHES, GPU_ONLY, main
from bench.memory import STATUS, peak_here, process_peak
from bench.report import Report, Row
from bench.timing import Figures, take_turns
from regard.commands import evaluate as command
from regard.errors import RegardError

ROOT = Path(__file__).parents[2]


def test_contenders_take_turns():
    seen = []
    taken = take_turns({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 3, torch.device("cpu"))
    assert "".join(seen) == "ababab"
    assert [len(taken[name].rounds) for name in "ab"] == [3, 3]


def row(contender, *values, case="case"):
    return Row(case=case, contender=contender, figures=Figures(list(values)))


def test_a_ratio_is_of_medians_within_a_case_with_the_best_of_ours():
    report = Report("name", "tokens/s", "work")
    report.rows = [row("regard", 1, 2, 90), row("regard compiled", 6), row("peer", 3), row("peer", 5, case="other")]
    assert [report.ratio(each) for each in report.rows] == [3, 1, 2, None]


def test_where_less_is_better_the_ratio_turns_round():
    report = Report("name", "ms", "work", less_is_better=True, rows=[row("regard", 2), row("peer", 10)])
    assert report.ratio(report.rows[1]) == 5


def test_batches_hold_the_budget_and_grouping_saves_padding():
    corpus = data.sentences(2000, longest=60, vocab_size=50)
    lengths = np.array([[len(s), len(t)] for s, t in zip(corpus.sources, corpus.targets, strict=True)])
    assert len(lengths) == 2000 and lengths.min() >= 3 and lengths.max() <= 60
    made = {order: data.batches(corpus, order, budget=800, n=3) for order in data.ORDERS}
    for chosen in made.values():
        assert all(740 <= batch.n_targets <= 800 for batch in chosen)
    assert data.padding(made["grouped"]) < 0.15 < 0.4 < data.padding(made["random"])


@pytest.mark.parametrize("multiple", [1, 8])
def test_a_padded_batch_holds_the_same_words(multiple):
    corpus = data.sentences(50, longest=30, vocab_size=50)
    (batch,) = data.batches(corpus, "random", budget=200, n=1)
    padded = data.padded(batch, multiple)
    assert padded.source.shape[1] % multiple == 0 and padded.target.shape[1] % multiple == 0
    assert padded.source[padded.source_mask].equal(batch.source)
    real = padded.labels != data.IGNORED
    assert padded.target[real].equal(batch.target) and padded.labels[real].equal(batch.labels)
    assert not padded.source[~padded.source_mask].any() and not padded.target[~real].any()


def test_a_missing_peer_is_named():
    names, notes = machine.which_can_run(
        ["ours", "theirs", "slow"], {"ours": ("json",), "theirs": ("json", "no_such_package")}, ("slow",)
    )
    assert names == ["ours"]
    assert notes == ["theirs: missing, because no_such_package is not installed", "slow: left out on request"]


def take_50_megabytes():
    return lambda: bytearray(50_000_000)


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells")
def test_the_peak_is_what_the_work_took():
    reader, writer = os.pipe()
    if not (child := os.fork()):  # whose peak begins with what it has
        os.write(writer, str(peak_here(take_50_megabytes, ())).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        assert 49e6 < int(file.read()) < 60e6


@pytest.mark.slow  # a fresh process imports PyTorch and the benches
@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells")
def test_the_peak_of_a_process_is_what_its_work_took():
    peak = process_peak(take_50_megabytes)
    assert peak is not None and 49e6 < peak < 60e6


def test_without_the_bench_folder_the_command_says_where_to_find_it(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "__file__", str(tmp_path / "regard" / "commands" / "bench.py"))
    with pytest.raises(RegardError, match="clone the repository"):
        command.bench()


def as_a_program(arguments):
    done = subprocess.run([sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def within_this_process(arguments):
    app = typer.Typer()
    app.command()(main)
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    return done.exit_code, done.stdout, done.stderr


def run_in_toy_sizes(call, file, *names):
    """The reports by name of `python -m bench`; what it prints has all of them."""
    arguments = ["--tiny", "--device", "cpu", "--rounds", "1", "--threads", "1", "--json", str(file)]
    code, out, err = call([*names, *arguments])
    assert code == 0, out + err
    assert all(f"bench {n} of {len(names)}: {name}\n" in err for n, name in enumerate(names, start=1))
    assert "round 1 of 1: " in err and "round 1 of" not in out  # progress is not among the figures
    reports = {report["name"]: report for report in json.loads(file.read_text())["reports"]}
    for report in reports.values():
        for found in report["rows"]:
            assert found["median"] > 0
            assert f"{found['contender']}" in out
    return reports


def test_a_bench_runs_by_its_name(tmp_path):
    assert list(run_in_toy_sizes(within_this_process, tmp_path / "figures.json", "additive")) == ["additive"]


@pytest.mark.slow  # a minute: imports every peer and trains and decodes with each
def test_every_bench_runs_in_toy_sizes_and_the_contenders_do_the_same_work(tmp_path):
    reports = run_in_toy_sizes(as_a_program, tmp_path / "figures.json")
    assert list(reports) == [name for name in BENCHES if name not in GPU_ONLY]
    notes = " ".join(reports["training"]["notes"] + reports["decoding"]["notes"])
    assert "the same loss" in notes and "write the same" in notes
    present = {found["contender"] for name in ("training", "decoding") for found in reports[name]["rows"]}
    for contender in ("transformers", "CTranslate2 float32"):
        can = all(machine.is_there(package) for package in translators.PACKAGES[contender])
        assert (contender in present) == can and (f"{contender}: missing" in notes) != can
