import dataclasses
import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console
from tiny_training import CONFIG, TinyModel, TinyTask, run_tiny

from regard.errors import DataError
from regard.learning.config import TrainingConfig
from regard.nn.compiler import compile_failure
from regard.runs.history import draw_curves, read_metrics
from regard.training.environment import compile_model, peak_memory
from regard.training.feed import Feed, walk
from regard.training.metrics import MetricsFile
from regard.training.screen import MEASURED, LiveScreen, Pace, Screen, duration, open_screen, sparkline, step_line
from regard.training.unread import StepRecord

LINE = step_line(StepRecord(50, 2.5, 1e-3, 0.7, 100), 1000, tokens_per_second=12345.6, seconds_left=125.0)
CPU = torch.device("cpu")


def test_a_finished_run_holds_every_file_and_a_filled_card(tmp_path: Path) -> None:
    result = run_tiny(tmp_path)
    draw_curves(tmp_path, ("loss",))
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    card = (tmp_path / "README.md").read_text()
    for part in (
        "# tiny",
        "regard generate tiny",
        "step 20, the best by loss",
        "20 (all steps done)",
        "`warmup` | `4`",
    ):
        assert part in card
    assert f"| loss | {result.values['loss']:.4g} |" in card
    assert json.loads((tmp_path / "result.json").read_text()) == dataclasses.asdict(result)
    assert json.loads((tmp_path / "environment.json").read_text())["now"]["compile"] == "eager"
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, 21))
    assert [row["step"] for row in rows if row["kind"] == "valid"] == [5, 10, 15, 20]
    assert rows[-1]["samples"][0][0] == "3"
    assert result.tokens == sum(row["n_tokens"] for row in rows if row["kind"] == "train")


@pytest.mark.slow  # drawn by Matplotlib
def test_the_lines_of_the_loss_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tiny(tmp_path)
    with_legend: list[str] = []
    monkeypatch.setattr("regard.viewer.curves.legend", lambda axes, _: with_legend.append(axes.get_title(loc="left")))
    draw_curves(tmp_path, ("loss",))
    assert with_legend == ["loss"]


def test_the_time_left_is_told_once_enough_steps_were_measured() -> None:
    pace = Pace(TrainingConfig(steps=100, validate_every=50), done=0, guess=lambda step: 1000.0)
    times: list[float | None] = []
    for _ in range(MEASURED + 2):
        times.append(pace.seconds_left())
        pace.note(1, 10)
    assert times[:-1] == [None] * (MEASURED + 1)  # the first step compiles and does not count
    assert times[-1] is not None and 2000 < times[-1] < 2100  # two validations are to come, as long as guessed
    pace.note_validation(0.0)
    assert (pace.seconds_left() or 0) < 100


def test_the_peak_of_memory_is_in_bytes() -> None:
    held = torch.ones(64 << 18)  # 64 MiB
    assert held.nbytes < peak_memory(CPU) < 1 << 40


def test_metrics_are_cut_back_to_the_resumed_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "kind": "train", "loss": 1.0}) for step in (1, 2, 3, 4)]
    path.write_text("\n".join(lines) + '\n{"step": 5, "ki')
    with MetricsFile(tmp_path, step=2, tensorboard=False) as metrics:
        metrics.add_validation(3, {"loss": float("inf")}, [])
    assert [row["step"] for row in read_metrics(path)] == [1, 2, 3]
    assert json.loads(path.read_text().splitlines()[-1])["loss"] is None


def test_tensorboard_on_request(tmp_path: Path) -> None:
    run_tiny(tmp_path / "without", dataclasses.replace(CONFIG, steps=2))
    assert not (tmp_path / "without/tensorboard").exists()
    run_tiny(tmp_path / "with", dataclasses.replace(CONFIG, steps=2, tensorboard=True))
    assert list((tmp_path / "with/tensorboard").glob("events.out.tfevents.*"))


def test_in_a_pipe_the_screen_is_plain_lines(tmp_path: Path) -> None:
    screen = io.StringIO()
    run_tiny(tmp_path, dataclasses.replace(CONFIG, accumulate=2), say=screen)
    shown = screen.getvalue()
    assert "\x1b" not in shown and "\r" not in shown
    assert shown.index("20 steps, 2 batches each; adam, constant") < shown.index("step 1/20")
    assert "validation at step 5" in shown and "best" in shown
    assert "expected time: " in shown
    assert "step 20/20  loss " in shown
    assert type(open_screen(Console(file=io.StringIO()))) is Screen


def test_the_time_is_estimated_after_a_few_steps(tmp_path: Path) -> None:
    """On a CPU steps are timed one by one, however rarely they are shown; it once came with the hundredth."""
    screen = io.StringIO()
    run_tiny(tmp_path, dataclasses.replace(CONFIG, steps=40, log_every=40), say=screen)
    assert screen.getvalue().index("expected time: ") < screen.getvalue().index("validation at step 20")


def test_lines_in_a_pipe_are_not_too_many() -> None:
    screen = Screen(Console(file=io.StringIO(), width=200), seconds=60)
    for _ in range(10):
        screen.step(LINE, is_last=False)
    assert screen.console.file.getvalue().count("step 50/1,000") == 1  # type: ignore[attr-defined]


def test_on_a_terminal_the_line_is_live_and_goes_away() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    screen = open_screen(console)
    assert isinstance(screen, LiveScreen)
    screen.step(LINE, is_last=False)
    screen.validation(50, {"loss": 2.0}, True, [("[b]source[/b]", "reference", "output")])
    screen.close()
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "loss 2.5000  lr 1.00e-03  norm 0.70  12,346 tokens/s  2 min left" in shown
    assert "[b]source[/b]" in shown, "text is shown as it is, not read as markup"
    assert "validation at step 50" in shown


def test_the_live_line_has_a_bar_from_the_first_step_and_the_course_of_the_loss() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    screen = open_screen(console)
    screen.begin(0, 10, "")
    screen.close()
    assert "0%" in console.file.getvalue() and "the first step" in console.file.getvalue()  # type: ignore[attr-defined]
    assert sparkline([4.0, 3.0, 2.0, 1.0]) == "█▆▃▁"
    assert sparkline([float(n) for n in range(64)]) == "▁▁▂▂▃▃▄▄▅▅▆▆▇▇██"
    assert sparkline([2.0, float("nan"), 2.0]) == "▁▁" and sparkline([]) == ""


def test_what_the_first_step_waits_for_is_said_until_it_is_done() -> None:
    row = StepRecord(step=1, loss=2.0, lr=0.1, grad_norm=1.0, n_tokens=8)
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=200)
        screen = open_screen(console)
        screen.begin(0, 10, "compiling the model")
        screen.close()  # draws what is not drawn yet
        assert "compiling the model" in console.file.getvalue()  # type: ignore[attr-defined]
        screen.advance(row)
        if isinstance(screen, LiveScreen):
            assert screen.line == "" and not screen.waits


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.2, "1 s"),
        (5, "5 s"),
        (89, "89 s"),
        (600, "10 min"),
        (7200, "2.0 h"),
        (1e6, "12 days"),
        (1e11, "3,169 years"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_feed_goes_through_every_batch_of_every_epoch_from_any_place() -> None:
    task = TinyTask()
    with Feed(task, (0, 4), lambda batch: batch, lambda: True) as feed:
        assert feed.position() == (0, 4)
        batches, places = feed.take(3)
        assert places == [(0, 4), (0, 5), (1, 0)]
        assert feed.position() == (1, 1)
        assert [batch.lines for batch in batches] == [task.batch(*place).lines for place in places]


def test_a_task_without_batches_is_an_error_and_not_a_hang() -> None:
    class Empty(TinyTask):
        def n_batches(self, epoch: int) -> int:
            return 0

    with pytest.raises(DataError, match="no batches"):
        next(walk(Empty(), (0, 0)))


def test_a_mistake_in_the_thread_of_the_feed_reaches_the_caller(tmp_path: Path) -> None:
    class Missing(TinyTask):
        def gather(self, chosen: list[int]) -> object:  # type: ignore[override]
            raise DataError("train.en:7 is gone")

    with pytest.raises(DataError, match=r"train\.en:7"):
        run_tiny(tmp_path, task=Missing())


def test_without_a_compiler_it_runs_eagerly_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(function: object) -> object:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr("regard.training.environment.compile_failure", compile_failure.__wrapped__)  # not remembered
    screen = io.StringIO()
    run_tiny(tmp_path, dataclasses.replace(CONFIG, compile="on", steps=3), say=screen)
    assert "eager, because nothing can be compiled here (No working C++ compiler found)" in screen.getvalue()


def test_compiling_is_for_cuda_unless_asked_for() -> None:
    assert compile_model(TinyModel(), "auto", CPU) == "eager"
    assert compile_model(TinyModel(), "off", CPU) == "eager"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("default")
def test_compiled_it_learns_the_same_under_the_same_names(tmp_path: Path) -> None:
    compiled = dataclasses.replace(CONFIG, compile="on")
    run_tiny(tmp_path / "eager", model=TinyModel(dropout=0.0))
    model = TinyModel(dropout=0.0)
    names = list(model.state_dict())
    run_tiny(tmp_path / "compiled", compiled, model=model)
    assert list(model.state_dict()) == names
    assert json.loads((tmp_path / "compiled/environment.json").read_text())["now"]["compile"] == "compiled"
    ours, theirs = (
        [row["loss"] for row in read_metrics(tmp_path / name / "metrics.jsonl") if row["kind"] == "train"]
        for name in ("compiled", "eager")
    )
    assert ours == pytest.approx(theirs, rel=1e-4)
