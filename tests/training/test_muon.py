import dataclasses
from pathlib import Path

import pytest
import torch
from tiny_training import CONFIG, TinyModel, TinyTask, run_tiny
from torch import Tensor, nn

from regard.learning.muon import orthogonal
from regard.learning.optimizers import make_optimizer, set_learning_rate
from regard.models.interface import Model
from regard.runs.history import read_metrics
from regard.runs.recipe import Recipe
from regard.training.finite import Guard

SMALL = ("model.d_model=16", "model.n_heads=2", "model.n_layers=2", "model.d_ff=24", "tokenizer.vocab_size=300")


class Layered(TinyModel):
    """With matrices inside layers: square, wide and tall."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__(dropout)
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(8, 12), nn.Linear(12, 8)]) for _ in range(3)])

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        for expand, contract in self.layers:
            x = x + contract(self.dropout(expand(x).tanh()))
        return self.out(self.hidden(x))


def gpt() -> Model:
    torch.manual_seed(0)
    return Recipe.read("gpt2", SMALL).build_model()


def with_gradients(model: nn.Module, seed: int) -> nn.Module:
    draw = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        weight.grad = torch.randn(weight.shape, generator=draw)
    return model


def test_matrices_inside_layers_learn_as_pytorchs_muon_has_it_and_the_rest_as_adamw_has_it() -> None:
    ours, theirs = gpt(), gpt()
    optimizer = make_optimizer("muon", ours, (0.9, 0.95), 1e-8, weight_decay=0.1, momentum=0.9)
    set_learning_rate(optimizer, 0.01)
    weights = dict(theirs.named_parameters())
    hidden = {name for name, weight in weights.items() if weight.ndim == 2 and ".blocks." in name}
    assert {name.split(".")[-2] for name in hidden} == {
        "to_queries", "to_keys", "to_values", "to_output", "expand", "contract"
    }  # fmt: skip
    muon = torch.optim.Muon(
        [weights[name] for name in hidden], lr=0.01, weight_decay=0.1, momentum=0.9, adjust_lr_fn="match_rms_adamw"
    )
    matrices = [weight for name, weight in weights.items() if name not in hidden and weight.ndim > 1]
    vectors = [weight for weight in weights.values() if weight.ndim < 2]
    adamw = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], 0.01, (0.9, 0.95))
    for group in adamw.param_groups[:1]:
        group["weight_decay"] = 0.1
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    for step in range(4):
        with_gradients(ours, step)
        with_gradients(theirs, step)
        for each in (optimizer, muon, adamw):
            each.step()
    for name, weight in ours.named_parameters():
        moved, as_moved = weight - before[name], weights[name] - before[name]
        if name in hidden:  # PyTorch takes the products in bfloat16
            assert (moved - as_moved).norm().item() < 0.03 * as_moved.norm().item(), name
        else:
            torch.testing.assert_close(moved, as_moved, rtol=1e-4, atol=1e-6, msg=name)


def test_an_update_has_singular_values_near_1_whatever_the_gradient() -> None:
    draw = torch.Generator().manual_seed(1)
    rotation = torch.linalg.qr(torch.randn(6, 6, generator=draw))[0]
    matrices = torch.stack([rotation * scale @ torch.eye(6, 9) for scale in (1e-3, 1.0, 1e3)])
    values = torch.linalg.svdvals(orthogonal(matrices))
    assert float(values.min()) > 0.6
    assert float(values.max()) < 1.3
    assert torch.isfinite(orthogonal(torch.zeros(1, 3, 5))).all()


def test_a_bad_step_leaves_every_weight_alone() -> None:
    model = with_gradients(gpt(), 0)
    optimizer = make_optimizer("muon", model, (0.9, 0.95), 1e-8, weight_decay=0.1)
    set_learning_rate(optimizer, 0.01)
    guard = Guard(optimizer, torch.device("cpu"))
    optimizer.step()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    guard.watch(torch.tensor(float("nan")), torch.tensor(1.0))
    for weight in model.parameters():
        assert weight.grad is not None
        weight.grad.fill_(float("nan"))
    optimizer.step()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]), name


def test_a_weight_without_a_gradient_stays_as_it_is() -> None:
    model = with_gradients(gpt(), 0)
    still = model.get_parameter("reader.blocks.0.attention.to_queries.weight")
    still.grad = None
    before = still.detach().clone()
    optimizer = make_optimizer("muon", model, (0.9, 0.95), 1e-8, weight_decay=0.1)
    set_learning_rate(optimizer, 0.01)
    optimizer.step()
    assert torch.equal(still, before)


def test_layers_of_other_depths_have_other_rates() -> None:
    model = with_gradients(gpt(), 0)
    optimizer = make_optimizer("muon", model, (0.9, 0.95), 1e-8, weight_decay=0.0, layer_decay=0.5)
    set_learning_rate(optimizer, 0.01)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimizer.step()
    moved = {name: (weight - before[name]).norm().item() for name, weight in model.named_parameters()}
    low, high = (next(moved[name] for name in moved if f".blocks.{i}." in name and "expand.w" in name) for i in "01")
    assert low / high == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_resumed_it_goes_on_bit_for_bit(tmp_path: Path, accumulate: int) -> None:
    config = dataclasses.replace(CONFIG, optimizer="muon", weight_decay=0.1, steps=8, accumulate=accumulate)
    run_tiny(tmp_path / "whole", config, model=Layered())
    run_tiny(tmp_path / "run", dataclasses.replace(config, steps=4), model=Layered())
    run_tiny(tmp_path / "run", config, model=Layered(), resume=True)
    ours, theirs = (tmp_path / name / "model.safetensors" for name in ("run", "whole"))
    assert ours.read_bytes() == theirs.read_bytes()
    rows = [row for row in read_metrics(tmp_path / "run/metrics.jsonl") if row["kind"] == "train"]
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_a_model_without_such_matrices_learns_by_adamw(tmp_path: Path) -> None:
    config = dataclasses.replace(CONFIG, weight_decay=0.1, steps=4)
    for name in ("muon", "adamw"):
        run_tiny(tmp_path / name, dataclasses.replace(config, optimizer=name), task=TinyTask())
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("muon", "adamw")]
    assert files[0] == files[1]
