"""Norms of rows."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """w * x / sqrt(mean(x²) + epsilon)  (Zhang and Sennrich 2019, eq. 4)

    PyTorch's, which on a CPU is a row of small operations; in decoding there are fewer of them here.
    """

    def __init__(self, width: int, epsilon: float):
        super().__init__(width, epsilon)
        self.epsilon = torch.tensor(epsilon, device="cpu")

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cpu or x.dtype != torch.float32 or torch.is_grad_enabled() or torch.compiler.is_compiling():
            return super().forward(x)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        shrink = torch.addcmul(self.epsilon, length, length, value=1 / x.shape[-1]).rsqrt_()
        return (x * shrink).mul_(self.weight)


NORMS: dict[str, Callable[[int, float], nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}  # of width and epsilon
