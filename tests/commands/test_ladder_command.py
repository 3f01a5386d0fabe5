"""A ladder of tiny models: complete, resumed, refused; every rung is a run like any other."""

import json
from pathlib import Path

import numpy as np
import pytest
from calling import Outcome, call
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import regard
from regard.config import load
from regard.data.corpora.grammar import generate
from regard.ladder.rungs import LADDERS, LANGUAGE, TRANSLATION
from regard.ladder.standings import RungRow, keep
from regard.models import ARCHITECTURES
from regard.runs.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training.signals import Stopped
from regard.viewer import charts

TINY = [
    "model.d_model=16",
    "model.d_hidden=16",
    "model.d_last=16",
    "model.n_heads=2",
    "model.n_layers=1",
    "model.d_ff=16",
    "n-gram.model.order=3",
    "tokenizer.vocab_size=300",
    "task.window=32",
    "data.batch_tokens=128",
]
SETTINGS = [part for one in TINY for part in ("--set", one)]
STEPS = ("--steps", "3")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text of a few hundred sentences, and their translations."""
    place = tmp_path_factory.mktemp("ladder")
    pairs = generate(2000).train[:150]
    (place / "text.en").write_text("".join(pair.source + "\n" for pair in pairs), encoding="utf-8")
    (place / "text.fr").write_text("".join(pair.target + "\n" for pair in pairs), encoding="utf-8")
    return place


def climb(place: Path, out: str, *arguments: str, data: str = "text.en") -> Outcome:
    return call(place, "ladder", "--data", data, "--out", out, *SETTINGS, "--device", "cpu", *arguments)


@pytest.fixture(scope="module")
def whole(place: Path) -> Outcome:
    return climb(place, "whole", *STEPS)


def report(place: Path, out: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((place / out / "ladder.json").read_text(encoding="utf-8"))
    return found


def figures(place: Path, out: str) -> dict[str, object]:
    """All of a ladder but its times."""
    return {row["rung"]: (row["figures"], row["parameters"], row["tokens"]) for row in report(place, out)["rungs"]}  # type: ignore[attr-defined, index]


def test_every_rung_has_its_row(place: Path, whole: Outcome) -> None:
    assert whole.code == 0, whole.err
    found = report(place, "whole")
    assert found["budget"] == "3 steps each"
    rows = found["rungs"]
    assert [row["rung"] for row in rows] == list(LANGUAGE.rungs)
    for row in rows:
        assert row["title"] in whole.out
        assert row["of"] == "5% of the text, held out"
        assert row["figures"]["bits_per_byte"] > 0 and 0 <= row["figures"]["accuracy"] <= 100
        assert (row["parameters"] == 0) == (row["counts"] > 0) == (row["steps"] == 0)
        assert row["tokens"] > 0 and row["seconds"] > 0
        assert row["tokens_per_second"] == pytest.approx(row["tokens"] / row["seconds"])
    learned = [row["tokens"] for row in rows if row["parameters"]]
    assert len(learned) == 6 and len(set(learned)) == 1  # the same budget
    for head in (*LANGUAGE.figures.values(), "seconds", "tokens/s", "weights"):
        assert head in whole.out
    assert (place / "whole" / "ladder.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow  # a ladder of its own
def test_rungs_share_one_tokenizer(place: Path, whole: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = []
    train = Tokenizer.train
    monkeypatch.setattr(Tokenizer, "train", lambda texts, config: learned.append(config) or train(texts, config))
    other = ("--set", "masked.tokenizer.vocab_size=290")
    shared = climb(place, "shared", *STEPS, "--rungs", "n-gram,skips,masked", *other)
    assert shared.code == 0, shared.err
    assert [config.vocab_size for config in learned] == [300, 290]  # the third rung has its own
    files = [(place / "shared" / name / "tokenizer.json").read_bytes() for name in ("n-gram", "skips", "masked")]
    assert files[0] == files[1] != files[2]
    assert files[0] == (place / "whole" / "skips" / "tokenizer.json").read_bytes()


@pytest.mark.slow  # a ladder of its own
def test_the_order_depends_on_the_budget_and_the_table_says_so(place: Path, whole: Outcome) -> None:
    note = "after another number of steps, the order of the rungs can be another"
    assert note in " ".join(whole.out.split())
    counted = climb(place, "counted", *STEPS, "--rungs", "n-gram,skips")  # counting has no steps
    assert counted.code == 0 and "number of steps" not in " ".join(counted.out.split())


@pytest.mark.slow  # three trainings; tests/training has patience without a ladder
def test_rungs_may_end_when_nothing_gets_better(place: Path) -> None:
    """A rate of 1 ruins the RNN at once; the LSTM goes on to the last step that it may take."""
    rates = ("--set", "rnn.training.learning_rate=1.0", "--set", "lstm.training.learning_rate=0.003")
    ended = climb(place, "until", "--rungs", "n-gram,rnn,lstm", "--steps", "8", "--patience", "2", *rates)
    assert ended.code == 0, ended.err
    budget = "each until 2 validations bring nothing better, at most 8 steps"
    found = report(place, "until")
    assert found["budget"] == budget and f"Trained {budget}" in " ".join(ended.out.split())
    rows = {row["rung"]: row for row in found["rungs"]}  # type: ignore[attr-defined]
    assert rows["rnn"]["steps"] < rows["lstm"]["steps"] == 8
    assert [len(rows[name]["curve"]) for name in rows] == [0, rows["rnn"]["steps"], 8]  # each step is validated
    tokens, losses = zip(*rows["lstm"]["curve"], strict=True)
    assert tokens[-1] == rows["lstm"]["tokens"] and losses[-1] < losses[0]
    assert (place / "until" / "ladder-curves.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow  # a ladder of its own
def test_a_time_may_be_the_most_until_nothing_gets_better(place: Path) -> None:
    """Far more steps fit into ten seconds than the ruined RNN takes; the folder knows the ladder again."""
    until = ("--rungs", "n-gram,rnn", "--minutes", "0.17", "--patience", "2", "--set", "rnn.training.learning_rate=1.0")
    ended = climb(place, "within", *until)
    assert ended.code == 0, ended.err
    budget = "each until 2 validations bring nothing better, at most 10.2 seconds of training"
    counted, learned = report(place, "within")["rungs"]  # type: ignore[misc]
    trained = Recipe.read(str(place / "within" / "rnn")).training
    assert learned["steps"] < trained.steps and learned["ended"].startswith("no better validation in 2")
    assert trained.schedule == "constant" and trained.ema > 0 and trained.validate_every * 100 >= trained.steps
    table = (place / "within" / "ladder.md").read_text(encoding="utf-8")
    assert budget in table and "| tokens | minutes |" in table
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    assert cells[2][0] == "n-gram" and cells[2][-1] == counted["ended"] == "all counted"
    assert cells[3][3:5] == [f"{learned['tokens']:,}", f"{learned['seconds'] / 60:.2f}"]
    again = climb(place, "within", *until)
    assert again.code == 0 and again.out.count("trained already") == 2


def test_a_rung_is_a_run(place: Path, whole: Outcome) -> None:
    for name in LANGUAGE.rungs:
        run = regard.load(place / "whole" / name, "cpu")
        [[written]] = run.generate(["The animal"], length=3)
        assert written.whole.startswith("The animal")
    stored = {row["rung"]: row["figures"] for row in report(place, "whole")["rungs"]}  # type: ignore[attr-defined, index]
    _, metrics = regard.load(place / "whole" / "lstm", "cpu").measure()[:2]
    assert {metric.name: metric.value for metric in metrics} == stored["lstm"]


def test_counting_knows_the_text_and_three_steps_do_not(place: Path, whole: Outcome) -> None:
    bits = {name: found[0]["bits_per_byte"] for name, found in figures(place, "whole").items()}  # type: ignore[index]
    assert max(bits["n-gram"], bits["masked"]) < min(bits["rnn"], bits["transformer"])


@pytest.mark.slow  # a ladder of its own
def test_a_stopped_ladder_goes_on_and_ends_as_if_never_stopped(
    place: Path, whole: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.training.learner import Learner

    few = ("--rungs", "masked,lstm,gru,transformer")
    update = Learner.update

    def stop_the_gru(self, step, batches, places):  # type: ignore[no-untyped-def]
        if step == 3 and type(self.model.reader).__name__ == "Recurrent" and self.model.config.cell == "gru":
            raise Stopped(2, "stopped by Ctrl-C", is_between_steps=True)
        update(self, step, batches, places)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", stop_the_gru)
        stopped = climb(place, "stopped", *STEPS, *few)
    assert stopped.code == 130 and "stopped by Ctrl-C" in stopped.err and "same command again" in stopped.err
    assert [row["rung"] for row in report(place, "stopped")["rungs"]] == ["masked", "lstm"]  # type: ignore[attr-defined, index]
    assert "LSTM" in stopped.out and "Transformer" not in stopped.out
    before = (place / "stopped" / "lstm" / "model.safetensors").stat().st_mtime_ns
    resumed = climb(place, "stopped", *STEPS, *few)
    assert resumed.code == 0 and resumed.out.count("trained already") == 2
    assert "resuming from" in resumed.out
    assert (place / "stopped" / "lstm" / "model.safetensors").stat().st_mtime_ns == before
    expected = figures(place, "whole")
    assert figures(place, "stopped") == {name: expected[name] for name in ("masked", "lstm", "gru", "transformer")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--steps", "4"), "is a ladder of 3 steps each, now it is 4 steps each"),
        ((*STEPS, "--minutes", "1"), "not both"),
        (("--patience", "2"), "--patience also needs --steps or --minutes"),
        (("--set", "training.steps=7"), "use --steps N"),
        ((), "now it is 300 steps each"),
        ((*STEPS, "--rungs", "lstm,grue"), "gru"),
        ((*STEPS, "--task", "chess"), "language, translation"),
        ((*STEPS, "--set", "model.n_experts=4"), "no rung has a setting model.n_experts"),
        ((*STEPS, "--set", "training.learning_rate=0.5", "--rungs", "rnn"), "training.learning_rate = 0.001, now"),
        ((*STEPS, "--set", "lstm.model.d_hiden=4"), "did you mean 'd_hidden'"),
        ((*STEPS, "--data", "text.fr"), "one text, or three"),
    ],
)
def test_what_does_not_fit_is_said(arguments: tuple[str, ...], message: str, place: Path, whole: Outcome) -> None:
    refused = climb(place, "whole", *arguments)
    assert refused.code == 1 and message in refused.err


def test_a_call_that_fails_does_not_settle_the_budget(place: Path) -> None:
    missing = climb(place, "begun", "--steps", "2", "--rungs", "n-gram", data="nothere.txt")
    assert missing.code == 1 and "no file" in missing.err
    assert not (place / "begun" / "budget.json").exists()
    begun = climb(place, "begun", *STEPS, "--rungs", "n-gram")
    assert begun.code == 0, begun.err
    other = climb(place, "begun", "--steps", "2", "--rungs", "n-gram")
    assert other.code == 1 and "begun is a ladder of 3 steps each, now it is 2 steps each" in other.err


def test_a_rung_has_one_color_in_all_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its rank, and whichever rungs are beside it."""
    figures: list[Figure] = []
    blank = charts.blank
    monkeypatch.setattr(charts, "blank", lambda *size: figures.append(blank(*size)) or figures[-1])

    def row(rung: str, bits: float) -> RungRow:
        sizes = {"parameters": 1, "counts": 0, "steps": 1, "tokens": 1, "seconds": 1.0, "ended": "all steps done"}
        measured = {"bits_per_byte": bits, "accuracy": 1.0}
        curve = [] if rung == "n-gram" else [(1, bits)]
        return RungRow(rung=rung, title=rung, run="", of="a text", figures=measured, curve=curve, **sizes)  # type: ignore[arg-type]

    rows = [row("n-gram", 2), row("lstm", 3), row("transformer", 4), row("gru", 1)]
    keep(rows, LANGUAGE, tmp_path, "3 steps each", "cpu")
    keep([rows[1], rows[3]], LANGUAGE, tmp_path, "3 steps each", "cpu")
    colors: dict[str, set[str]] = {row.rung: set() for row in rows}
    for curves, bars in zip(figures[::2], figures[1::2], strict=True):
        for line in curves.axes[0].get_lines():
            if line.get_label() in colors:
                colors[str(line.get_label())].add(to_hex(line.get_color()))
        for name, bar in zip(bars.axes[0].get_yticklabels(), bars.axes[0].patches, strict=True):
            colors[name.get_text()].add(to_hex(bar.get_facecolor()))
    assert [len(own) for own in colors.values()] == [1] * 4
    assert colors["lstm"] != colors["gru"]


@pytest.mark.slow  # six trainings
def test_a_budget_in_time_chooses_the_steps(place: Path) -> None:
    outcome = climb(place, "timed", "--minutes", "0.01", "--rungs", "n-gram,gru")
    assert outcome.code == 0, outcome.err
    counted, learned = report(place, "timed")["rungs"]  # type: ignore[misc]
    assert counted["steps"] == 0 and learned["steps"] >= 1
    assert Recipe.read(str(place / "timed" / "gru")).training.steps == learned["steps"]
    again = climb(place, "timed", "--minutes", "0.01", "--rungs", "n-gram,gru")
    assert again.code == 0 and again.out.count("trained already") == 2


@pytest.mark.parametrize("ladder", LADDERS.values(), ids=list(LADDERS))
def test_rungs_are_of_one_size(ladder) -> None:  # type: ignore[no-untyped-def]
    """Besides the embeddings: no rung that learns by gradients has 1.25 times the weights of another."""
    sizes = []
    for rung in ladder.rungs.values():
        table = dict(rung.model or load(ladder.recipe)["model"])
        architecture = ARCHITECTURES[table.pop("architecture")]
        model = architecture.module(architecture.config(vocab_size=1000, **table))
        if not model.is_counted:
            sizes.append(sum(p.numel() for p in model.parameters()) - 1000 * table["d_model"])
    assert len(sizes) >= 3 and max(sizes) < 1.25 * min(sizes)


@pytest.mark.slow  # six trainings
def test_translators_climb_too(place: Path) -> None:
    outcome = call(
        place, "ladder", "--task", "translation", "--data", "text.en", "text.fr", "--out", "pairs", *STEPS,
        *SETTINGS[:4], *SETTINGS[6:12], "--set", "tokenizer.vocab_size=300", "--set", "decoding.length_ratio=0.0",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    rows = report(place, "pairs")["rungs"]
    assert [row["rung"] for row in rows] == list(TRANSLATION.rungs)  # type: ignore[attr-defined, index]
    assert all(np.isfinite(row["figures"]["BLEU"]) for row in rows)  # type: ignore[attr-defined, index]
    lines = {part: (place / "pairs" / "data" / f"{part}.source").read_text().splitlines() for part in ("train", "test")}
    assert not set(lines["train"]) & set(lines["test"]) and len(lines["train"]) > 100
    turned = call(place, "ladder", "--task", "translation", "--data", "text.fr", "text.en", "--out", "pairs", *STEPS)
    assert turned.code == 1 and "lines of another ladder" in turned.err
