"""The training loop: `train` is the whole of it, and `Training` does its steps."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from regard.errors import RunError
from regard.learning.config import TrainingConfig
from regard.models.interface import Model
from regard.nn.lora import NO_ADAPTERS, LoraConfig
from regard.runs.card import About, Result, RunEnvironment, duration, write_card
from regard.runs.checkpoints import Checkpoints, TrainingProgress, refuse_existing, step_folder
from regard.runs.durable import disk_errors_said, resume_command, write_file
from regard.runs.expected import write_expected
from regard.runs.history import draw_curves
from regard.tasks.setup import B
from regard.tasks.task import BatchTask
from regard.training.environment import compile_model, peak_memory, record_environment, reproducible
from regard.training.estimate import validation_seconds
from regard.training.feed import Feed
from regard.training.finish import choose_weights, expected_figures, save_finished
from regard.training.finite import NonFinite
from regard.training.learner import Learner, Loss
from regard.training.metrics import MetricsFile, open_metrics
from regard.training.screen import Pace, Screen, step_line
from regard.training.signals import Signals, Stopped
from regard.training.team import LONE, Team

WAITING = "compiling the model; the first steps wait for it, for about a minute, and less where it was compiled before"


def train(
    model: Model,
    task: BatchTask[B],
    config: TrainingConfig,
    about: About,
    *,
    run: Path,
    d_model: int,
    device: torch.device,
    resume: bool,
    screen: Screen,
    lora: LoraConfig = NO_ADAPTERS,
    settle: Callable[[], None] = lambda: None,
    loss: Loss[B] | None = None,
    team: Team = LONE,
) -> Result:
    """Train the model in place and leave a finished run in the folder; its last weights are the chosen ones.

    `settle` is called when it is sure that a resumed run goes on.  `loss` is the task's own, if none is given.

    Raises `Stopped` (saved, exit code 130 or 143), `NonFinite` (exit code 3) or `RunError` (a full disk).
    """
    processes = team.processes
    if not resume and team.is_leader:
        refuse_existing(run)
    checkpoints = Checkpoints(run, config.keep, config.save_every, screen.say)
    with (
        reproducible(device),
        disk_errors_said(run, checkpoints.intact),
        closing(screen),
        Signals(processes) as signals,
    ):
        torch.manual_seed(config.seed)
        compiled = compile_model(model.to(device).train(), config.compile, device)
        learner = Learner(model, task, config, device, d_model, compiled == "compiled", loss, team)
        with processes.leader_first():
            checkpoints.sweep()
        progress = resume_from(checkpoints, learner, run) if resume else begin(learner)
        run.mkdir(parents=True, exist_ok=True)
        if team.is_leader:
            settle()
        environment, differences = record_environment(
            run, progress.step, device, learner.precision_name, compiled, team.is_leader
        )
        for difference in differences:
            screen.say(f"this machine differs from before, so losses may differ too: {difference}")
        screen.plan([*about.rows, *plan(config, progress, environment), *team.rows()])
        with (
            open_metrics(run, progress.step, config.tensorboard, team.is_leader) as metrics,
            Feed(task, progress.position, learner.ready, learner.is_idle, team.shards, team.config.n_shards) as feed,
        ):
            training = Training(learner, config, lora, run, progress, checkpoints, metrics, screen, signals)
            screen.begin(progress.step, config.steps, WAITING if compiled == "compiled" else "")
            try:
                while True:
                    signals.check()
                    if progress.is_validation_due(config):
                        training.validate()
                    if training.is_save_due():
                        training.save()
                    if progress.is_over(config):
                        screen.say(f"waiting for data took {feed.share_waited:.1%} of the time")
                        for price in learner.price():
                            screen.say(price)
                        return training.finish(about, environment)
                    learner.update(progress.step + 1, *feed.take(config.accumulate))
                    training.advance(feed.position())
            except Stopped as stop:
                raise training.stopped(stop) from None


def begin(learner: Learner[B]) -> TrainingProgress:
    """Show the task the model as it is before the first step."""
    with learner.resting() as model:
        learner.task.restore({}, model)
    return TrainingProgress()


def resume_from(checkpoints: Checkpoints, learner: Learner[B], run: Path) -> TrainingProgress:
    """Put the learner where the newest whole checkpoint left it."""
    if not run.is_dir():
        raise RunError(f"there is no run to resume in {run}; leave out --resume to start one")
    checkpoint = checkpoints.load_newest()
    if checkpoint is None:
        checkpoints.say(f"{run} has no whole checkpoint: starting from the first step")
        return begin(learner)
    progress = checkpoint.progress
    where = step_folder(checkpoints.folder, progress.step)
    learner.restore(checkpoint.tensors, str(where))
    learner.averaged_since = progress.averaged_since
    n_batches = learner.task.n_batches(progress.epoch)
    if n_batches != progress.n_batches:
        raise RunError(
            f"the data are not those that {where} was trained on: epoch {progress.epoch} had "
            f"{progress.n_batches:,} batches and has {n_batches:,}. Nothing was changed; bring back the files and "
            f"the settings of the data, or start another run from these weights with --from {run}"
        )
    checkpoints.say(f"resuming from {where}")
    return progress


def plan(config: TrainingConfig, progress: TrainingProgress, environment: RunEnvironment) -> list[tuple[str, str]]:
    """What the loop will do, as rows for the screen."""
    begins = f" from step {progress.step:,}" if progress.step else ""
    batches = "a batch" if config.accumulate == 1 else f"{config.accumulate} batches"
    validation = f"every {config.validate_every:,} steps" if config.validate_every else "never"
    return [
        ("training", f"{config.steps:,} steps{begins}, {batches} each; {config.optimizer}, {config.schedule}"),
        ("validation", validation + (f", patience {config.patience}" if config.patience else "")),
        ("checkpoints", f"every {config.save_every:,} steps; the last {config.keep} and the best stay"),
        ("machine", ", ".join(f"{environment[name]}" for name in ("device", "precision", "compile"))),
        ("time", "known after a few steps"),
    ]


@dataclass
class Training:
    """The parts of a training under way, and what is done with all of them together."""

    learner: Learner
    config: TrainingConfig
    lora: LoraConfig
    run: Path
    progress: TrainingProgress
    checkpoints: Checkpoints
    metrics: MetricsFile
    screen: Screen
    signals: Signals
    pace: Pace = field(init=False)
    clock: float = field(init=False, default_factory=time.monotonic)
    saved: tuple[int, int] | None = field(init=False, default=None)  # (step, last validated step)
    has_estimated: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        n_batches = self.config.accumulate * len(self.learner.team.shards)
        guess = partial(validation_seconds, self.learner.task, accumulate=n_batches)
        self.pace = Pace(self.config, self.progress.step, guess)
        if self.progress.step:
            self.saved = self.progress.step, self.progress.validated

    def advance(self, position: tuple[int, int]) -> None:
        """Count a step; read its figures where they are due or must be."""
        self.progress.step += 1
        self.progress.epoch, self.progress.index = position
        is_due = self.progress.step % self.config.log_every == 0 or self.progress.step >= self.config.steps
        if is_due or self.learner.must_read():
            self.read(is_shown=is_due)

    def read(self, is_shown: bool) -> None:
        """Bring the figures of the last steps to the files and the screen; raises `NonFinite`."""
        try:
            rows = self.learner.read()
        except NonFinite as error:
            raise self.not_finite(error) from None
        for note in self.learner.divider.said():
            self.screen.say(note)
        now = time.monotonic()
        self.progress.seconds += now - self.clock
        self.clock = now
        if not rows:
            return
        n_tokens = sum(row.n_tokens for row in rows)
        self.progress.tokens += n_tokens
        self.metrics.add_steps(rows)
        self.pace.note(len(rows), n_tokens)
        for row in rows:
            self.screen.advance(row)
        left = self.pace.seconds_left()
        if left is not None and not self.has_estimated:
            self.has_estimated = True
            memory = peak_memory(self.learner.device) / 2**20
            self.screen.say(f"expected time: {duration(left)}, measured on the first steps; memory {memory:,.0f} MiB")
        if is_shown:
            line = step_line(rows[-1], self.config.steps, self.pace.tokens_per_second(), left)
            self.screen.step(line, is_last=rows[-1].step == self.config.steps)

    def validate(self) -> None:
        self.read(is_shown=False)
        task, begun = self.learner.task, time.monotonic()
        with self.learner.smoothed(), self.learner.resting() as model, self.signals.interruptible():
            values = self.learner.team.processes.agree(task.validate(model))
            samples = task.samples(model)
        self.pace.note_validation(time.monotonic() - begun)
        is_best = self.progress.note_validation(values[task.config.metric], task.higher_is_better)
        self.metrics.add_validation(self.progress.step, values, samples)
        self.screen.validation(self.progress.step, values, is_best, samples)
        begins = self.config.average_after  # Merity et al. 2018, algorithm 1
        if begins and self.progress.averaged_since is None and self.progress.waited >= begins:
            self.progress.averaged_since = self.learner.averaged_since = self.progress.step
            self.screen.say(f"no better validation in {self.progress.waited}: from here on weights are averaged")

    def is_save_due(self) -> bool:
        progress = self.progress
        if self.saved == (progress.step, progress.validated):
            return False
        is_regular = progress.step % self.config.save_every == 0
        return is_regular or progress.best_step == progress.step or progress.is_over(self.config)

    def save(self) -> None:
        self.read(is_shown=False)
        self.metrics.sync()
        self.progress.n_batches = self.learner.task.n_batches(self.progress.epoch)
        is_over = self.progress.is_over(self.config)
        tensors, team = self.learner.tensors(), self.learner.team
        if team.writers.n > 1 or team.is_leader:
            self.checkpoints.save(self.progress, tensors, is_over, team.writers)
        self.saved = self.progress.step, self.progress.validated

    def finish(self, about: About, environment: RunEnvironment) -> Result:
        """Choose the weights and write what a finished run holds."""
        all_done = self.progress.step >= self.config.steps
        self.learner.team.processes.wait()  # until all is saved
        self.learner.unite()
        weights, values = choose_weights(self.learner, self.progress, self.checkpoints, self.run, self.signals)
        result = Result(
            steps=self.progress.step,
            reason="all steps done" if all_done else f"no better validation in {self.progress.waited}",
            weights=weights,
            values=values,
            best_step=self.progress.best_step,
            tokens=self.progress.tokens,
            seconds=self.progress.seconds,
            peak_memory=peak_memory(self.learner.device),
        )
        expected = expected_figures(self.learner, self.signals)
        if not self.learner.team.is_leader:
            return result
        write_expected(self.run, expected)
        path = save_finished(self.learner.model, self.lora, self.run)
        draw_curves(self.run, self.learner.task.config.drawn)
        write_card(self.run, about, result, path.name, self.config, environment)
        self.screen.say(f"done: {result.reason}; {path} holds {result.weights}")
        return result

    def stopped(self, stop: Stopped) -> Stopped:
        """Save before leaving, unless the signal came in the middle of a step."""
        what = f"{stop}. {self.checkpoints.intact()}"
        if stop.is_between_steps:
            if self.saved != (self.progress.step, self.progress.validated):
                self.save()
            saved = step_folder(self.checkpoints.folder, self.progress.step)
            what = f"{stop} after step {self.progress.step:,}. Saved: {saved}."
        message = f"{what} To resume: {resume_command(self.run)}"
        return Stopped(stop.number, message, stop.is_between_steps)

    def not_finite(self, error: NonFinite) -> NonFinite:
        """Leave the checkpoints alone, and write down all that was found."""
        record = {"message": str(error), "layer": error.layer, "lines": error.lines}
        if self.learner.team.is_leader:
            write_file(self.run / "non_finite.json", json.dumps(record, ensure_ascii=False, indent=2).encode())
        message = (
            f"{error}\n{self.checkpoints.intact()} All lines: {self.run / 'non_finite.json'}.\n"
            "Fix the lines, or try clipping, a longer warm-up or a lower rate, for example: "
            f"{resume_command(self.run)} --set training.learning_rate={self.config.learning_rate / 2:g}"
        )
        return NonFinite(message, error.lines, error.layer)
