"""A loss or gradient that is not a finite number stops the training before it reaches the weights.

Asking the device after every step would make it wait, so the answer stays there: `Guard.bad` becomes 1 at the first
bad step and stays 1, and the fused optimizers leave the weights alone while it is 1.  The loop reads it when it reads
the losses (every step on CPU, every `log_every` steps on CUDA), then runs the bad step again to find the place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.errors import RegardError


class NonFinite(RegardError):
    """A loss or gradient is infinite or not a number."""

    exit_code = 3

    def __init__(self, message: str, lines: list[str], layer: str) -> None:
        super().__init__(message)
        self.lines = lines
        self.layer = layer


class Guard:
    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self.bad = torch.zeros((), device=device)
        optimizer.grad_scale = None  # type: ignore[attr-defined]  # read by the fused kernels, as is found_inf
        optimizer.found_inf = self.bad  # type: ignore[attr-defined]

    def watch(self, loss: Tensor, norm: Tensor) -> Tensor:
        """Before each update; returns 1 if this step or one before it was bad, else 0."""
        is_bad = torch.isfinite(loss + norm).logical_not()
        torch.maximum(self.bad, is_bad.to(self.bad.dtype), out=self.bad)
        return self.bad.clone()


def first_bad_layer(model: nn.Module, loss: Tensor, seen: list[str]) -> str | None:
    """After a forward and backward pass: where the numbers went wrong, in words, or None if nowhere."""
    weights = [name for name, weight in model.named_parameters() if not is_finite(weight)]
    gradients = [name for name, weight in model.named_parameters() if not is_finite(weight.grad)]
    if weights:
        return f"the weights {weights[0]}, before this step already"
    if seen:
        return f"the layer {seen[0]}"
    if not is_finite(loss):
        return "the loss itself (the output of every layer is finite)"
    if gradients:  # gradients flow from the last layer to the first
        return f"the gradient of {gradients[-1]} (the loss is finite)"
    return None


@contextmanager
def noting_bad_outputs(model: nn.Module) -> Iterator[list[str]]:
    """The names of modules whose output is not finite, in the order in which they answer: the first is the culprit."""
    seen: list[str] = []

    def note(name: str, kind: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if not is_finite(output):
                seen.append(f"{name or 'model'} ({kind})")

        return hook

    hooks = [module.register_forward_hook(note(name, type(module).__name__)) for name, module in model.named_modules()]
    try:
        with torch.compiler.set_stance("force_eager"):  # hooks see the parts only of the eager model
            yield seen
    finally:
        for hook in hooks:
            hook.remove()


def is_finite(value: object) -> bool:
    """Of every floating-point tensor in what a module returned.  An infinity in there is as bad as a nan."""
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(torch.isfinite(value).all())
    if isinstance(value, tuple | list):
        return all(is_finite(item) for item in value)
    return True
