"""Training with a carried state: killed at any step it goes on bit for bit; a bad step is explained with its state."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.learning.config import TrainingConfig
from regard.models.compressive import CompressiveConfig, CompressiveTransformer
from regard.models.heads import LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.runs.card import About
from regard.runs.checkpoints import Checkpoints
from regard.runs.history import read_metrics
from regard.runs.weights import read_tensors
from regard.tasks.language.task import Language, LanguageConfig
from regard.tasks.setup import Setup
from regard.text import Tokenizer, TokenizerConfig
from regard.training.finite import NonFinite
from regard.training.loop import train
from regard.training.screen import Screen

TEXT = "".join(f"{a} and {b}\n" for a in ("one", "two", "three") for b in ("four", "five", "six", "seven"))
CONFIG = {"steps": 14, "warmup": 2, "schedule": "constant", "learning_rate": 0.01, "save_every": 3, "compile": "off"}


class Killed(Exception):
    """Stands for SIGKILL: nothing is saved on the way out."""


class Dying(Language):
    """Dies while it computes the n-th loss."""

    at_loss = 0

    def loss(self, model: Any, batch: Any) -> torch.Tensor:
        self.at_loss -= 1
        loss = super().loss(model, batch)
        if self.at_loss == 0:
            raise Killed
        return loss


def run(folder: Path, at_loss: int = 0, resume: bool = False, model: nn.Module | None = None, **settings: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")
    data = DataConfig(root=str(folder), train=("a.txt",), valid_share=0.2, batch_tokens=20)
    tokenizer = Tokenizer.train([TEXT], TokenizerConfig(kind="characters"))
    setup = Setup(data=data, tokenizer=tokenizer, dropout=0.0, cache=folder, seed=0, decoding=DecodingConfig())
    task = Dying.make(LanguageConfig(unit="text", window=5, carry=True, shown=1, sample_length=3), setup)
    task.at_loss = at_loss
    torch.manual_seed(5)
    model = model or build(tokenizer.vocab_size)
    train(
        model,
        task,
        TrainingConfig(**CONFIG | {"validate_every": 4} | settings),
        About(title="tiny", summary="", rows=(), usage=()),
        run=folder,
        d_model=8,
        device=torch.device("cpu"),
        resume=resume,
        screen=Screen(Console(file=io.StringIO(), width=200), seconds=0),
    )


def build(vocab_size: int) -> LanguageModel:
    config = RecurrentConfig(vocab_size=vocab_size, d_model=8, d_hidden=8, d_last=8, dropout=0.3, locked=True)
    return LanguageModel(Recurrent(config))


def trained(folder: Path) -> list[Any]:
    return [row for row in read_metrics(folder / "metrics.jsonl") if row["kind"] == "train"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("carried") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.training.loop.draw_curves", lambda *_: None)
        run(folder)
    return folder


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("at_loss", [2, 4, 5, 7, 8, 11, 14])  # within epochs, at their ends, after a save
def test_killed_at_any_step_it_ends_the_same_bit_for_bit(whole: Path, tmp_path: Path, at_loss: int) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "run", at_loss)
    torch.manual_seed(99)
    run(tmp_path / "run", resume=True)
    assert read_metrics(tmp_path / "run/metrics.jsonl") == read_metrics(whole / "metrics.jsonl")
    ours, theirs = ((folder / "model.safetensors").read_bytes() for folder in (tmp_path / "run", whole))
    assert ours == theirs


SIZES = {"vocab_size": 32, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 8, "dropout": 0.3, "memory": 7}
REMEMBERING = {
    "transformer-xl": lambda: TransformerXL(TransformerXLConfig(**SIZES)),
    "compressive": lambda: CompressiveTransformer(CompressiveConfig(**SIZES, compressed_memory=4, compression_rate=2)),
}
KEPT = {"layer.0": (4, 7, 8), "layer.1": (4, 7, 8), "lengths": (4,)}
HELD = {
    "transformer-xl": KEPT,
    "compressive": KEPT
    | {"layer.0": (4, 8, 8), "layer.1": (4, 8, 8), "compressed.0": (4, 4, 8), "compressed.1": (4, 4, 8)},
}


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("name", REMEMBERING)
def test_a_killed_memory_ends_the_same_bit_for_bit(name: str, tmp_path: Path) -> None:
    """Rows of a Transformer, and what they were compressed to, are carried as states are."""

    def remembering() -> LanguageModel:
        torch.manual_seed(5)
        return LanguageModel(REMEMBERING[name]())

    run(tmp_path / "whole", model=remembering())
    with pytest.raises(Killed):
        run(tmp_path / "run", at_loss=5, model=remembering())
    path = tmp_path / "run/checkpoints/step-4/task.safetensors"
    assert {name: tuple(tensor.shape) for name, tensor in read_tensors(path).items()} == HELD[name]
    run(tmp_path / "run", resume=True, model=remembering())
    assert trained(tmp_path / "run") == trained(tmp_path / "whole")
    ours, theirs = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "whole"))
    assert ours == theirs


def test_the_checkpoint_holds_the_state_and_needs_it(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run(tmp_path / "run", at_loss=5)
    assert Checkpoints(tmp_path / "run", 1, 1, print).steps()[-1] == 4  # the validation at 4 was the best
    path = tmp_path / "run/checkpoints/step-4/task.safetensors"
    assert set(read_tensors(path)) == {"layer.0", "layer.1", "lengths"}
    assert read_tensors(path)["lengths"].tolist() == [20] * 4  # 4 windows of 5 in 4 columns


def test_validation_does_not_disturb_what_is_carried(whole: Path, tmp_path: Path) -> None:
    run(tmp_path / "run", validate_every=0)
    assert trained(tmp_path / "run") == trained(whole)


class Fragile(LanguageModel):
    """Ruins its loss and its state at the fourth call, and notes the states that it is given."""

    def carried_loss(self, tokens: Any, labels: Any, layout: Any, state: Any, smoothing: float) -> Any:
        GIVEN.append({} if state is None else {name: tensor.clone() for name, tensor in state.tensors().items()})
        loss, after = super().carried_loss(tokens, labels, layout, state, smoothing)
        if len(GIVEN) == 4:
            after.layers = [layer * float("nan") for layer in after.layers]
            return loss * float("nan"), after
        return loss, after


GIVEN: list[dict[str, torch.Tensor]] = []


def test_a_bad_step_is_run_again_from_the_state_it_had(tmp_path: Path) -> None:
    """Not from the ruined one that it left, which would blame the first layer."""
    GIVEN.clear()
    torch.manual_seed(5)
    model = Fragile(build(21).reader)
    with pytest.raises(NonFinite, match="step 4: the loss is nan") as caught:
        run(tmp_path / "run", model=model, validate_every=0)
    assert len(GIVEN) == 5 and GIVEN[3].keys() == GIVEN[4].keys() == {"layer.0", "layer.1", "lengths"}
    assert all(torch.equal(GIVEN[3][name], GIVEN[4][name]) for name in GIVEN[3])
    assert "none in a second run" in caught.value.layer  # which was sound
    assert Checkpoints(tmp_path / "run", 1, 1, print).steps() == [3]
