"""A task small enough to train in a test, and a child process that trains on it (to be killed by the tests)."""

import dataclasses
import io
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.data.batching.batch import Batch
from regard.learning.config import TrainingConfig
from regard.runs.card import About, Result
from regard.training.loop import train
from regard.training.screen import Screen

N_EXAMPLES, N_WORDS = 23, 11
CPU = torch.device("cpu")
DEVICES = [CPU, torch.device("cuda")] if torch.cuda.is_available() else [CPU]
ABOUT = About(
    title="tiny", summary="Learns the next word.", rows=(("words", f"{N_WORDS}"),), usage=("regard generate tiny",)
)
CONFIG = TrainingConfig(
    steps=20,
    schedule="constant",
    warmup=4,
    learning_rate=0.01,
    validate_every=5,
    save_every=4,
    keep=2,
    log_every=1,
    compile="off",
)


@dataclass(frozen=True)
class TinyBatch(Batch):
    words: Tensor
    targets: Tensor

    @property
    def n_targets(self) -> int:
        return len(self.targets)

    @property
    def n_tokens(self) -> int:
        return len(self.words)


class TinyTask:
    """Ragged sequences in which each word names the next; four of them to a batch, in an order of chance."""

    config = SimpleNamespace(metric="loss", drawn=("loss",))
    higher_is_better = False

    def __init__(self, bad_line: int | None = None) -> None:
        random = np.random.default_rng(0)
        self.examples = [random.integers(0, N_WORDS, size=length) for length in 2 + np.arange(N_EXAMPLES) % 9]
        self.bad_line = bad_line

    def n_batches(self, epoch: int) -> int:
        return -(-N_EXAMPLES // 4)

    def batch(self, epoch: int, index: int) -> TinyBatch:
        order = np.random.default_rng((5, epoch)).permutation(N_EXAMPLES)
        return self.gather([int(i) for i in order[4 * index : 4 * index + 4]])

    def gather(self, chosen: list[int]) -> TinyBatch:
        words = torch.tensor(np.concatenate([self.examples[i] for i in chosen]))
        return TinyBatch([f"tiny.txt:{i + 1}" for i in chosen], words, (3 * words + 1) % N_WORDS)

    def loss(self, model: nn.Module, batch: TinyBatch) -> Tensor:
        loss = cross_entropy(model(batch.words), batch.targets, reduction="sum")
        return loss * float("nan") if f"tiny.txt:{self.bad_line}" in batch.lines else loss

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: dict[str, Tensor], model: nn.Module) -> None:
        assert not tensors

    def validate(self, model: nn.Module) -> dict[str, float]:
        torch.rand(3)  # a careless draw, which must not reach the training
        batch = self.gather(list(range(N_EXAMPLES))).to(device_of(model))
        return {"loss": float(cross_entropy(model(batch.words), batch.targets)), "mode": float(model.training)}

    def samples(self, model: nn.Module) -> list[tuple[str, str, str]]:
        return [("3", "10", str(int(model(torch.tensor([3], device=device_of(model))).argmax())))]

    def expected(self, model: nn.Module) -> dict[str, float]:
        return {}


class TinyModel(nn.Module):
    """Tied, so that one tensor has two names."""

    is_recordable = False

    def compile_passes(self) -> None:
        self.compile(dynamic=True)

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.embed = nn.Embedding(N_WORDS, 8)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(8, 8)
        self.out = nn.Linear(8, N_WORDS)
        self.out.weight = self.embed.weight

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.dropout(self.hidden(self.embed(words)).tanh()))


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def run_tiny(
    folder: Path,
    config: TrainingConfig = CONFIG,
    resume: bool = False,
    task: Any = None,
    model: nn.Module | None = None,
    say: Any = None,
    device: torch.device = CPU,
) -> Result:
    return train(
        model or TinyModel(),
        task or TinyTask(),
        config,
        ABOUT,
        run=folder,
        d_model=8,
        device=device,
        resume=resume,
        screen=Screen(Console(file=say or io.StringIO(), width=200), seconds=0),
    )


class SelfKilling(TinyTask):
    """Sends itself a signal while it computes the n-th loss."""

    def __init__(self, number: int, at_loss: int) -> None:
        super().__init__()
        self.number, self.left = number, at_loss

    def loss(self, model: nn.Module, batch: TinyBatch) -> Tensor:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)
        return super().loss(model, batch)


def train_and_exit_code(folder: Path, options: dict[str, Any]) -> int:
    """As a command does it: an error is printed and has its code."""
    task = SelfKilling(signal.Signals[options["signal"]], options["at_loss"]) if "signal" in options else TinyTask()
    settings = options.get("settings", {})
    try:
        run_tiny(folder, dataclasses.replace(CONFIG, **settings), options.get("resume", False), task, say=sys.stdout)
    except ValueError as error:
        print(error, file=sys.stderr)
        return int(getattr(error, "exit_code", 1))
    return 0


def in_child(folder: Path, **options: Any) -> tuple[int, str]:
    """The exit code and the standard error of a training in a forked child, where PyTorch is imported already."""
    said = folder.with_name(f"{folder.name}.stderr")
    torch.set_num_threads(1)
    child = os.fork()
    if not child:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
        sys.stdout, sys.stderr = io.StringIO(), os.fdopen(2, "w", buffering=1)
        code = 99  # of what is no error of ours
        try:
            code = train_and_exit_code(folder, options)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, said.read_text(encoding="utf-8")
