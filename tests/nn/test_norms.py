import pytest
import torch
from torch import nn

from regard.nn.norms import RMSNorm


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("shape", [(1, 1, 576), (3, 2, 10), (0, 8)])
def test_the_norm_of_decoding_is_pytorchs(shape, size):
    torch.manual_seed(0)
    x, ours, theirs = size * torch.randn(shape), RMSNorm(shape[-1], 1e-3), nn.RMSNorm(shape[-1], 1e-3)
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)  # in training it is that one
