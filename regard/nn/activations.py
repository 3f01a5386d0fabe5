"""Functions of one number that stand between two products."""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

Activation = Callable[[Tensor], Tensor]

relu: Activation = F.relu
gelu: Activation = F.gelu  # x Phi(x)  (Hendrycks and Gimpel 2016; BERT)
swish: Activation = F.silu  # x sigmoid(x)  (Ramachandran et al. 2017; Marian)


def tanh_gelu(x: Tensor) -> Tensor:
    """x Phi(x), with Phi approximated by tanh."""
    return F.gelu(x, approximate="tanh")
