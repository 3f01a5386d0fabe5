"""Dropout before, between and after recurrent layers; locked, it leaves out the same channels at all steps."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class LockedDropout(nn.Module):
    """Dropout that leaves out the same channels at all steps of a sequence  (Gal and Ghahramani 2016)"""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:  # B T D
        if not (self.training and self.p):
            return x
        return x * F.dropout(torch.ones_like(x[:, :1]), self.p)


class LayerDropout(NamedTuple):
    """The chance that a number is left out of what goes into a stack of layers, of what goes from layer to layer, and
    of what comes out  (Merity et al. 2018, sections 4.2 and 5)"""

    before: float
    between: float
    after: float
    locked: bool = False

    @classmethod
    def everywhere(cls, p: float, locked: bool = False) -> "LayerDropout":
        return cls(p, p, p, locked)

    def modules(self) -> tuple[nn.Module, nn.Module, nn.Module]:
        make = LockedDropout if self.locked else nn.Dropout
        return make(self.before), make(self.between), make(self.after)
