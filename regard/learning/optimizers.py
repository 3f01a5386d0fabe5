"""The optimizers, and their state as named tensors (safetensors, never pickle)."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.choose import choose

# Fused kernels update all weights in one pass, on CPU too, and can leave them alone when told so by a tensor on
# the device (`found_inf`), which is how a non-finite step is stopped without asking the device (finite.py).
OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True),
    "adamw": partial(torch.optim.AdamW, fused=True),
}


def make_optimizer(
    name: str, model: nn.Module, betas: tuple[float, float], epsilon: float, weight_decay: float
) -> Optimizer:
    """Matrices decay; biases and the gains of norms, which have one dimension, do not."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in learned if parameter.ndim >= 2]
    vectors = [parameter for parameter in learned if parameter.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    make = choose(OPTIMIZERS, name, "optimizer")
    return make([group for group in groups if group["params"]], lr=0.0, betas=betas, eps=epsilon)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


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
