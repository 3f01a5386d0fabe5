"""Muon: the update of a hidden matrix is made orthogonal, so that all its directions learn equally fast."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

MOMENTUM = "momentum"  # μ of a group of matrices inside layers; other groups have none
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of a polynomial that brings singular values near 1 in few rounds
ROUNDS = 5
RMS = 0.2  # of an update, as AdamW's usually are, so that AdamW's learning rates and decay can be kept
# What the products of the rounds are taken in: a GPU is faster with bfloat16, and many CPUs are slower.
PRODUCTS = {"cuda": torch.bfloat16, "cpu": torch.float32}


class Muon(Optimizer):
    """M ← μ M + (1 - μ) G,  O = orthogonal((1 - μ) G + μ M),  W ← (1 - η λ) W - 0.2 √max(rows, columns) η O

    for matrices inside layers (Jordan et al. 2024), with the scale of Liu et al. 2025 (section 2.2); AdamW for
    embeddings, the output, norms and biases.  `torch.optim.Muon` with `match_rms_adamw` does the same, one matrix after
    the other: here those of a shape are stacked, which takes a tenth of the kernels.  And a bad step, which
    `found_inf` says, leaves the weights alone, as with the fused optimizers (`training/finite.py`).
    """

    found_inf: Tensor | None = None
    grad_scale: Tensor | None = None

    def __init__(self, groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float) -> None:
        others = [group for group in groups if MOMENTUM not in group]
        self.adamw = AdamW(others, lr=lr, betas=betas, eps=eps, fused=True) if others else None
        ready = iter(self.adamw.param_groups if self.adamw else [])  # with all that AdamW says of its groups
        super().__init__([group if MOMENTUM in group else next(ready) for group in groups], {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        if self.adamw:
            # Loading a state makes new objects of both.
            self.adamw.state = self.state
            self.adamw.param_groups = [group for group in self.param_groups if MOMENTUM not in group]
            self.adamw.found_inf, self.adamw.grad_scale = self.found_inf, self.grad_scale  # type: ignore[attr-defined]
            self.adamw.step()
        for group in self.param_groups:
            if MOMENTUM in group:
                by_shape: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
                for weight in group["params"]:
                    if weight.grad is not None:
                        by_shape[tuple(sorted(weight.shape))].append(weight)
                for weights in by_shape.values():
                    self.update(weights, group)

    def update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Of matrices of one shape, some of them perhaps transposed."""
        momentum, rate = group[MOMENTUM], group["lr"]
        for weight in weights:
            self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight))
        gradients = [weight.grad for weight in weights if weight.grad is not None]  # which all have
        momenta = [self.state[weight]["momentum_buffer"] for weight in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, momenta, momentum)  # Nesterov's
        are_tall = [len(update) > len(update[0]) for update in ahead]
        wide = torch.stack([update.T if tall else update for update, tall in zip(ahead, are_tall, strict=True)])
        made = orthogonal(wide).to(weights[0].dtype)
        updates = [update.T if tall else update for update, tall in zip(made, are_tall, strict=True)]
        scale = rate * RMS * max(weights[0].shape) ** 0.5
        new = list(torch._foreach_mul(weights, 1 - rate * group["weight_decay"]))
        torch._foreach_add_(new, updates, alpha=-scale)
        if self.found_inf is not None:  # is known on the device only
            is_bad = self.found_inf.bool()
            new = [torch.where(is_bad, weight, changed) for weight, changed in zip(weights, new, strict=True)]
        torch._foreach_copy_(weights, new)


def orthogonal(matrices: Tensor) -> Tensor:
    """Wide matrices U S V^T, stacked, -> about U V^T: rounds of a X + (b A + c A²) X with A = X X^T (Newton-Schulz)."""
    a, b, c = COEFFICIENTS
    norms = matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # then no singular value is above 1
    x = (matrices / norms).to(PRODUCTS[matrices.device.type])
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(squares, squares, squares, beta=b, alpha=c), x, beta=a)
    return x
