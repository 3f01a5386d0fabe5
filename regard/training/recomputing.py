"""Activations that are computed again in the backward pass, so that a long window fits into memory."""

from collections.abc import Iterator
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def recompute(model: nn.Module) -> None:
    """Of each layer the inputs are kept; with them it runs a second time, with the same chance, before its gradients
    (Chen et al. 2016).  The price is one more forward pass: about a third of a step."""
    for layer in layers_of(model):
        layer.forward = MethodType(run_again, layer)  # of a copy of the model, its own


def layers_of(model: nn.Module) -> Iterator[nn.Module]:
    """Modules that a model has in a row, none inside another: blocks, usually."""
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            yield from (layer for layer in child if any(True for _ in layer.parameters()))
        else:
            yield from layers_of(child)


def run_again(layer: nn.Module, *inputs: object, **named: Any) -> object:  # what a layer takes
    forward = partial(type(layer).forward, layer)
    if not torch.is_grad_enabled():
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **named)
