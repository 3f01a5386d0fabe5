"""A recipe for files of one's own: the task that recognizes them proposes models, this computer is measured, and the
largest that it has time for is taken."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard import config
from regard.data.config import DataConfig
from regard.data.files.recognizing import Recognized
from regard.errors import ConfigError, RunError
from regard.runs.recipe import Recipe
from regard.tasks.recognition import recognize
from regard.tasks.sizing import Brief, Draft, Plan, RecipeTables
from regard.tasks.task import AnyTask
from regard.training.estimate import (
    KEPT_FREE,
    VALIDATING,
    Estimate,
    expected_seconds,
    measure,
    peak_memory,
    time_step,
    validation_seconds,
)
from regard.training.prepare import Prepared, prepare

Say = Callable[[str], None]
TRIED = Plan(size=0, steps=1000, epochs=10.0, batch_tokens=0)  # with which sizes are timed
SECONDS = 3.0  # of steps, for each size
WANTED = 2000  # updates: fewer tokens in a batch make more of them
FEWEST_STEPS = 20
HELD_OUT, LARGE, SMALL_SHARE = 0.1, 20 * 2**20, 0.02  # of files of more than so many bytes, a smaller share
TUNED_RATE = 2e-4  # at most, where weights of another run learn further


@dataclass(frozen=True)
class Proposal:
    kind: str
    tables: RecipeTables
    remarks: dict[str, str]  # by "table.setting"
    why: str
    assumed: list[tuple[str, str]]
    estimate: Estimate
    usage: tuple[str, ...]  # commands with the word RUN


def propose(
    files: Sequence[Path], kind: str | None, minutes: float, device: torch.device, origin: Path | None, say: Say
) -> Proposal:
    """Raises where no task knows the files, or where they cannot be read."""
    chosen = recognize(files, kind)
    say(f"{chosen.files.why}: the task is {chosen.kind}")
    if chosen.others:
        say(f"also possible: {', '.join(f'--task {other}' for other in chosen.others)}")
    return Sizer(chosen.kind, chosen.task, chosen.files, minutes, device, origin, say).propose()


@dataclass
class Sizer:
    kind: str
    task_class: type[AnyTask]
    recognized: Recognized
    minutes: float
    device: torch.device
    origin: Path | None
    say: Say
    n_prepared: int = 0

    def propose(self) -> Proposal:
        task_class = self.task_class
        if task_class.needs_weights and self.origin is None:
            raise ConfigError(f"the task {self.kind} {task_class.needs_weights}")
        data = {**self.recognized.data, **self.shares()}
        theirs = None if self.origin is None else Recipe.of_run(self.origin)
        brief = Brief(
            task=config.build(task_class.settings, dict(self.recognized.task), "task"),
            data=config.build(DataConfig, data, "data"),
            is_tuned=theirs is not None,
            reads_marks=theirs is not None and theirs.task_class.reads_marks,
        )
        draft = task_class.draft(brief)
        with tempfile.TemporaryDirectory() as folder:
            plan, estimate, prepared = self.choose_size(draft, data, theirs, Path(folder))
            tables = self.merged(draft, plan, data, theirs)
            examples, usage = prepared.task.train.describe(), prepared.task.usage(Path("RUN"))
        remarks = {**self.own_remarks(draft, plan), **draft.remarks}
        assumed = [
            ("training data", examples),
            *((f"held out for {part}", f"{data[f'{part}_share']:.0%}, {draft.held_out}") for part in held_out(data)),
            *([("model", f"size {plan.size + 1} of {draft.n_sizes} for so much data")] if theirs is None else []),
            ("training", f"{plan.steps:,} steps, {plan.epochs:.1f} epochs"),
        ]
        return Proposal(self.kind, tables, remarks, self.recognized.why, assumed, estimate, usage)

    def shares(self) -> dict[str, object]:
        """What is held out where no files are named for it."""
        data = self.recognized.data
        root, files = Path(str(data["root"])), data["train"]
        assert isinstance(files, tuple)
        n_bytes = sum((root / name).stat().st_size for name in files)
        share = HELD_OUT if n_bytes < LARGE else SMALL_SHARE
        return {f"{part}_share": share for part in ("valid", "test") if part not in data}

    def merged(self, draft: Draft, plan: Plan, data: config.Settings, theirs: Recipe | None) -> RecipeTables:
        """The tables of the recipe."""
        proposed = draft.tables(plan)
        tables: RecipeTables = {
            "task": {"kind": self.kind, **self.recognized.task, **proposed.get("task", {})},
            "data": {**data, "root": shown_root(str(data["root"])), **proposed.get("data", {})},
            **{name: proposed[name] for name in ("tokenizer", "model", "training", "decoding") if name in proposed},
        }
        if theirs is not None:
            own = theirs.tables()
            tables["model"] = {name: value for name, value in own["model"].items() if name != "vocab_size"}
            tables["tokenizer"] = {**own["tokenizer"], "dropout": 0.0}
            longest = min(tables["data"].get("max_length", 256), theirs.model.max_length - 1)
            tables["data"]["max_length"] = longest
            tables["training"]["learning_rate"] = min(TUNED_RATE, tables["training"]["learning_rate"])
        return tables

    # Time.

    def choose_size(
        self, draft: Draft, data: config.Settings, theirs: Recipe | None, folder: Path
    ) -> tuple[Plan, Estimate, Prepared]:
        begun = time.monotonic()
        chosen = TRIED
        budget = 0.0
        for size in range(1 if theirs else draft.n_sizes):
            plan = replace(TRIED, size=size, batch_tokens=draft.batch_tokens[1])
            prepared = self.prepared(self.merged(draft, plan, data, theirs), folder)
            if not size:  # the data are read once more when the training begins
                budget = max(1.0, 60 * self.minutes * (1 - KEPT_FREE) - (time.monotonic() - begun))
            planned = self.planned(draft, plan, prepared, budget, time_step(prepared, self.device, SECONDS))
            what = f"{parameters(prepared):,} weights"
            self.say(f"size {size + 1} of {draft.n_sizes}, {what}: time for {planned.epochs:.1f} epochs")
            if size and planned.epochs < draft.least_epochs:
                break
            chosen = planned
        batch = fitting_batch(chosen, draft)
        prepared = self.prepared(self.merged(draft, replace(chosen, batch_tokens=batch), data, theirs), folder)
        estimate = measure(prepared, self.device, 2 * SECONDS)
        plan = self.planned(draft, replace(chosen, batch_tokens=batch), prepared, budget, estimate.step)
        tables = self.merged(draft, plan, data, theirs)
        training = Recipe.of(self.kind, tables).training
        seconds = expected_seconds(training, estimate.step, validation_seconds(prepared.task, estimate.step))
        return plan, replace(estimate, seconds=seconds, memory=peak_memory(self.device)), prepared

    def planned(self, draft: Draft, plan: Plan, prepared: Prepared, budget: float, step: float) -> Plan:
        """The same size, with as many steps as there is time for, or as help."""
        validation = validation_seconds(prepared.task, step)
        n_validations = max(1, min(10, int(VALIDATING * budget / validation) if validation else 10))
        n_batches = prepared.task.n_batches(0)
        most = max(FEWEST_STEPS, round(draft.most_epochs * n_batches))
        steps = max(FEWEST_STEPS, min(most, int((budget - n_validations * validation) / step)))
        return replace(plan, steps=steps, epochs=steps / n_batches, n_validations=n_validations)

    def prepared(self, tables: RecipeTables, folder: Path) -> Prepared:
        """The tokenizer of the first time serves again, unless another run gives its own."""
        recipe = Recipe.of(self.kind, tables)
        if recipe.model_class.is_counted:
            raise RunError(f"{self.origin} is a model that counts: it does not learn further")
        self.n_prepared += 1
        if self.origin is not None:
            return prepare(recipe, folder / str(self.n_prepared), weights_from=self.origin)
        return prepare(recipe, folder, resume=self.n_prepared > 1)

    def own_remarks(self, draft: Draft, plan: Plan) -> dict[str, str]:
        allowed = f"{self.minutes:g} minutes on this {self.device.type} allow"
        size = f"size {plan.size + 1} of {draft.n_sizes}: as large as {allowed}"
        only = "the only size for so much data" if draft.n_sizes == 1 else size
        return {
            "data.train": "relative to root",
            "data.columns": "in this order",
            "data.valid_share": f"held out for validation, {draft.held_out}",
            "data.test_share": "likewise, for `regard evaluate`; 0: learn from these too",
            "data.batch_tokens": "tokens of a batch",
            "model.architecture": only,
            "training.steps": f"{plan.epochs:.1f} epochs",
        }


def fitting_batch(plan: Plan, draft: Draft) -> int:
    """Tokens of a batch with which about `WANTED` updates are made, in powers of two of the smallest."""
    smallest, largest = draft.batch_tokens
    batch, total = smallest, plan.steps * plan.batch_tokens
    while 2 * batch <= largest and total / (2 * batch) >= WANTED:
        batch *= 2
    return batch


def held_out(data: config.Settings) -> list[str]:
    return [part for part in ("valid", "test") if f"{part}_share" in data]


def parameters(prepared: Prepared) -> int:
    return sum(parameter.numel() for parameter in prepared.model.parameters())


def shown_root(root: str) -> str:
    """Relative to the current folder, if it is inside."""
    path = Path(root)
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else root
