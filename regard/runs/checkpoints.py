"""Checkpoints: folders `step-N` of safetensors and one state.json, complete or not there at all.

A checkpoint is written into a folder of another name, pushed to the disk and renamed, so that a kill at any moment
leaves the one before.  Where processes divide the weights, each writes files of its own, and the leader renames when
all have.  Sizes and checksums in state.json, and one of its own, tell later damage from health.
"""

import dataclasses
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from regard import config
from regard.errors import RunError
from regard.learning.config import TrainingConfig
from regard.processes import ALONE, Processes
from regard.runs.durable import resume_command, sync_folder, write_through
from regard.runs.records import read_record
from regard.runs.shards import indexes, own_names, stem_of, weights_in
from regard.runs.weights import checksum, pack_tensors, read_tensors

MODEL, ADAPTER = "model.safetensors", "adapter.safetensors"  # a finished run: all weights, or what adapts another's
SEAL = "sha256"  # of state.json, in it
Tensors = dict[str, dict[str, Tensor]]  # by file: "model", "optimizer", "random", "ema" where there is one, and "task"


@dataclass(kw_only=True)
class TrainingProgress:
    """How far a training has come: all of its state that is not a tensor."""

    step: int = 0  # updates done
    epoch: int = 0  # (epoch, index) is the next batch
    index: int = 0
    n_batches: int = 0  # of that epoch, to notice on resume that the data have changed
    tokens: int = 0
    seconds: float = 0.0
    validated: int = 0  # the step of the last validation
    waited: int = 0  # validations since the best one
    best_step: int | None = None
    best_value: float | None = None
    averaged_since: int | None = None  # with `training.average_after`, the step from which on weights are averaged

    @property
    def position(self) -> tuple[int, int]:
        return self.epoch, self.index

    def is_over(self, config: TrainingConfig) -> bool:
        out_of_patience = bool(config.patience) and self.waited >= config.patience
        return self.step >= config.steps or out_of_patience

    def is_validation_due(self, config: TrainingConfig) -> bool:
        if not config.validate_every or self.validated == self.step:
            return False
        return self.step % config.validate_every == 0 or self.step >= config.steps

    def note_validation(self, value: float, higher_is_better: bool) -> bool:
        """Remember a validation; returns whether it is the best so far."""
        self.validated = self.step
        if is_better(value, self.best_value, higher_is_better):
            self.best_step, self.best_value, self.waited = self.step, value, 0
            return True
        self.waited += 1
        return False


def is_better(value: float, other: float | None, higher_is_better: bool) -> bool:
    if not math.isfinite(value):
        return False
    if other is None:
        return True
    return value > other if higher_is_better else value < other


@dataclass(frozen=True, kw_only=True)
class LoadedCheckpoint:
    progress: TrainingProgress
    tensors: Tensors


class Checkpoints:
    """Those of one run.  The last `keep` regular ones stay (at multiples of `every`, and the final one), and the
    best and the newest."""

    def __init__(self, run: Path, keep: int, every: int, say: Callable[[str], None]) -> None:
        self.folder = run / "checkpoints"
        self.keep = keep
        self.every = every
        self.say = say

    def steps(self) -> list[int]:
        """Of the complete checkpoints, oldest first."""
        return [step for step, path in sorted(named_steps(self.folder)) if state_of(path) is not None]

    def save(
        self,
        progress: TrainingProgress,
        tensors: Mapping[str, Mapping[str, Tensor]],
        is_final: bool,
        processes: Processes = ALONE,
    ) -> None:
        """Of several processes, each gives tensors of its own, and all must call."""
        path = step_folder(self.folder, progress.step)
        beside = self.folder / f".writing-{path.name}"
        with processes.leader_first():
            if processes.is_leader:
                self.sweep()
                beside.mkdir(parents=True)
        try:
            files = write_tensors(beside, tensors, processes)
            if not processes.is_leader:
                return
            write_state(beside, CheckpointState(progress=progress, is_final=is_final, files=files))
        except OSError:
            shutil.rmtree(beside, ignore_errors=True)  # gives the space back
            raise
        if path.exists():  # damaged, or the same step saved again
            path.rename(self.folder / f".replaced-{path.name}")
        beside.rename(path)
        sync_folder(self.folder)
        self.prune(progress.best_step)

    def prune(self, best_step: int | None) -> None:
        steps = self.steps()
        staying = {*self.regular()[-self.keep :], best_step, *steps[-1:]}
        for step in steps:
            if step not in staying:
                path = step_folder(self.folder, step)
                path.rename(self.folder / f".old-{path.name}")
        self.sweep()

    def sweep(self) -> None:
        """Remove what a kill left half written or half removed, and bring back what it left half replaced."""
        for replaced in self.folder.glob(".replaced-*"):
            path = self.folder / replaced.name.removeprefix(".replaced-")
            replaced.rename(self.folder / f".old-{path.name}" if path.exists() else path)
        for leftover in [*self.folder.glob(".writing-*"), *self.folder.glob(".old-*")]:
            shutil.rmtree(leftover)

    def regular(self) -> list[int]:
        """The steps saved by plan.  One saved because of a signal is not among them, so that an interrupted run keeps
        and averages the same ones as an uninterrupted run."""
        return [
            step
            for step in self.steps()
            if (step and step % self.every == 0)
            or ((state := state_of(step_folder(self.folder, step))) is not None and state.is_final)
        ]

    def load(self, step: int, files: tuple[str, ...] | None = None) -> LoadedCheckpoint:
        """One checkpoint, checked; `files` picks some of its tensors."""
        path = step_folder(self.folder, step)
        state = state_of(path)
        if state is None:
            raise RunError(f"{path} is incomplete or damaged: its files are not those that state.json lists")
        tensors: Tensors = {}
        for name, expected in state.files.items():
            stem = stem_of(name)
            if stem and (files is None or stem in files):
                if checksum((path / name).read_bytes()) != expected["sha256"]:
                    raise RunError(f"{path / name} is damaged: its content is not what was written")
                tensors.setdefault(stem, {}).update(read_tensors(path / name))
        return LoadedCheckpoint(progress=state.progress, tensors=tensors)

    def load_newest(self) -> LoadedCheckpoint | None:
        """The newest one that is whole; damaged ones are skipped with a message."""
        self.sweep()
        for step, path in sorted(named_steps(self.folder), reverse=True):
            try:
                checkpoint = self.load(step)
            except RunError as error:
                self.say(f"skipping {path}: {error}")
                continue
            best = checkpoint.progress.best_step
            if best is not None and best not in self.steps():
                self.say(f"the best checkpoint, step {best}, is gone: the next validation becomes the best")
                checkpoint.progress.best_step = checkpoint.progress.best_value = None
            return checkpoint
        return None

    def intact(self) -> str:
        steps = self.steps()
        if not steps:
            return "No checkpoint was written before."
        return f"Intact: {step_folder(self.folder, steps[-1])} and everything older."


def step_folder(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"step-{step}"


def named_steps(checkpoints: Path) -> list[tuple[int, Path]]:
    matches = [(re.fullmatch(r"step-(\d+)", path.name), path) for path in checkpoints.glob("step-*")]
    return [(int(match[1]), path) for match, path in matches if match]


def write_tensors(
    path: Path, tensors: Mapping[str, Mapping[str, Tensor]], processes: Processes
) -> dict[str, dict[str, int | str]]:
    """Size and checksum of each file that the processes have written, and of the indexes, which the leader writes."""
    own: dict[str, tuple[dict[str, int | str], list[str]]] = {}
    failure: tuple[int, str] | None = None
    try:
        for stem, name in own_names(list(tensors), processes).items():
            packed = pack_tensors(tensors[stem])
            write_through(path / name, packed)
            own[name] = {"bytes": len(packed), "sha256": checksum(packed)}, list(tensors[stem])
    except OSError as error:
        failure = error.errno or 0, str(path)
    rows = processes.gather((own, failure))
    for _, failed in rows:
        if failed is not None:  # here or elsewhere: no process goes on
            raise OSError(failed[0], os.strerror(failed[0]), failed[1])
    every = {name: file for row, _ in rows for name, file in row.items()}
    files = {name: file for name, (file, _) in every.items()}
    if processes.is_leader:
        names = {name: inside for name, (_, inside) in every.items()}
        for name, content in indexes(names, {name: int(file["bytes"]) for name, file in files.items()}).items():
            write_through(path / name, content)
            files[name] = {"bytes": len(content), "sha256": checksum(content)}
    return files


def write_state(path: Path, state: "CheckpointState") -> None:
    write_through(path / "state.json", sealed(dataclasses.asdict(state)))
    sync_folder(path)


@dataclass(frozen=True, kw_only=True)
class CheckpointState:
    """state.json of a checkpoint."""

    progress: TrainingProgress
    is_final: bool
    files: dict[str, dict[str, int | str]]  # by name: "bytes" and "sha256"


def sealed(content: Mapping[str, object]) -> bytes:
    """As JSON, with a checksum of all of it at the end."""
    return json.dumps({**content, SEAL: checksum(json.dumps(content).encode())}, indent=2).encode()


def state_of(path: Path) -> CheckpointState | None:
    """state.json of a checkpoint, or None when it is damaged or the folder is incomplete."""
    content = read_record(path / "state.json")
    if content is None:
        return None
    parts = {field.name: content.get(field.name) for field in dataclasses.fields(CheckpointState)}
    is_older = content.keys() == parts.keys()  # of a version that wrote no checksum
    try:
        if not is_older and (path / "state.json").read_bytes() != sealed(parts):
            return None
        known = {name: value for name, value in content["progress"].items() if value is not None}
        progress = config.build(TrainingProgress, known, "progress")
        state = CheckpointState(progress=progress, is_final=content["is_final"], files=content["files"])
        whole = all((path / name).stat().st_size == file["bytes"] for name, file in state.files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return state if whole else None


def refuse_existing(run: Path) -> None:
    """Training never writes over a run."""
    steps = [step for step, _ in named_steps(run / "checkpoints")]
    if steps or any((run / name).exists() for name in (MODEL, ADAPTER, "metrics.jsonl")):
        reached = f" (step {max(steps)})" if steps else ""
        raise RunError(
            f"{run} already holds a run{reached}, which is left as it is. "
            f"To continue it: {resume_command(run)}. To start a new one, choose another folder with --run"
        )


def find_weights(run: Path) -> tuple[Path, str]:
    """The file of weights to use, and what they are in words: the result of a finished training, otherwise the best
    checkpoint, otherwise the newest."""
    for path in (run / MODEL, run / ADAPTER):
        if path.is_file():
            return path, str((read_record(run / "result.json") or {}).get("weights", "as found"))
    checkpoints = Checkpoints(run, keep=1, every=1, say=lambda text: None)
    steps = checkpoints.steps()
    if not steps:
        raise RunError(f"{run} holds no weights: no model.safetensors and no complete checkpoint")
    state = state_of(step_folder(checkpoints.folder, steps[-1]))
    assert state is not None
    best = state.progress.best_step
    step, what = (
        (best, f"step {best}, the best so far") if best in steps else (steps[-1], f"step {steps[-1]}, the newest")
    )
    path = step_folder(checkpoints.folder, step)
    smoothed = weights_in(path, "ema")
    return (smoothed, f"{what} (running average)") if smoothed.is_file() else (weights_in(path, "model"), what)
