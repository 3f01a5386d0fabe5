"""Weights of which training leaves some out, by chance; where processes train together, all leave out the same."""

import torch
from torch import Tensor
from torch.nn import functional as F


class MaskedWeights:
    """A module that draws such masks.  With a seed they depend on that alone, otherwise on PyTorch's generator."""

    mask_seed: int | None = None

    def without_some(self, weights: Tensor, p: float) -> Tensor:
        """Dropout on weights: zeros with the chance p, the others divided by 1 - p."""
        if self.mask_seed is None or p == 0:
            return F.dropout(weights, p)
        generator = torch.Generator(weights.device).manual_seed(self.mask_seed)
        stays = torch.empty_like(weights, requires_grad=False).bernoulli_(1 - p, generator=generator)
        return weights * stays.div_(1 - p)
