"""The optimizers, and their state as named tensors (safetensors, never pickle)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.choose import choose
from regard.learning.depth import depths, is_inside_a_layer
from regard.learning.muon import MOMENTUM, Muon

FACTOR = "factor"  # of the rate, for a group of weights
SEPARATING = ("muon",)  # optimizers that update matrices inside layers in a way of their own

RateGroups = list[dict[str, object]]  # of weights, as PyTorch takes them


# Fused kernels update all weights in one pass, on CPU too, and can leave them alone when told so by a tensor on
# the device (`found_inf`), which is how a non-finite step is stopped without asking the device (finite.py).
def adam(groups: RateGroups, betas: tuple[float, float], epsilon: float) -> Optimizer:
    return torch.optim.Adam(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)


def adamw(groups: RateGroups, betas: tuple[float, float], epsilon: float) -> Optimizer:
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=epsilon, fused=True)


def muon(groups: RateGroups, betas: tuple[float, float], epsilon: float) -> Optimizer:
    return Muon(groups, lr=0.0, betas=betas, eps=epsilon)


def sgd(groups: RateGroups, betas: tuple[float, float], epsilon: float) -> Optimizer:
    """w ← w - rate · gradient: without Adam's moments, so betas and epsilon mean nothing to it."""
    return torch.optim.SGD(groups, lr=0.0, fused=True)


OPTIMIZERS: dict[str, Callable[[RateGroups, tuple[float, float], float], Optimizer]] = {
    "adam": adam,
    "adamw": adamw,
    "muon": muon,
    "sgd": sgd,
}


def make_optimizer(
    name: str,
    model: nn.Module,
    betas: tuple[float, float],
    epsilon: float,
    weight_decay: float,
    layer_decay: float = 1.0,
    momentum: float = 0.95,
) -> Optimizer:
    """Matrices decay; biases and the gains of norms, which have one dimension, do not.  The deeper a layer, the lower
    its rate: `layer_decay` to the power of its depth."""
    depth = depths(name for name, _ in model.named_parameters())
    groups: dict[tuple[bool, bool, float], list[nn.Parameter]] = {}
    for weight_name, parameter in model.named_parameters():
        if parameter.requires_grad:
            factor = 1.0 if layer_decay == 1.0 else layer_decay ** depth[weight_name]
            is_hidden = name in SEPARATING and parameter.ndim == 2 and is_inside_a_layer(weight_name)
            groups.setdefault((not is_hidden, parameter.ndim < 2, factor), []).append(parameter)
    make = choose(OPTIMIZERS, name, "optimizer")
    ordered = sorted(groups.items(), key=lambda group: (*group[0][:2], -group[0][2]))  # matrices first
    with_settings: RateGroups = [
        {
            "params": parameters,
            "weight_decay": 0.0 if is_vector else weight_decay,
            FACTOR: factor,
            **({} if is_other else {MOMENTUM: momentum}),
        }
        for (is_other, is_vector, factor), parameters in ordered
    ]
    return make(with_settings, betas, epsilon)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get(FACTOR, 1.0)


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The state under "weight's name/what", such as "embed.weight/exp_avg"."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}/{what}": tensor
        for parameter, state in optimizer.state.items()
        for what, tensor in state.items()
    }


def restore_optimizer(optimizer: Optimizer, model: nn.Module, tensors: dict[str, Tensor]) -> None:
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states: dict[int, dict[str, Tensor]] = {}
    for number, parameter in enumerate(ordered):
        prefix = f"{names[parameter]}/"
        state = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        if state:  # empty before the first step
            states[number] = state
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
