import pytest
import torch
from torch.nn import functional as F

from regard.nn.linear import BLOCK, FEW, Linear, at_once, logits, products


@pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 1), (FEW,), (FEW + 1,), (2, FEW)])
@pytest.mark.parametrize("bias", [True, False])
def test_every_order_gives_the_product(shape, bias):
    torch.manual_seed(0)
    layer, x = Linear(16, 24, bias=bias), torch.randn(*shape, 16)
    with torch.no_grad():
        decoded = layer(x)
    assert decoded.is_contiguous() and decoded.shape == (*shape, 24)
    torch.testing.assert_close(decoded, layer(x).detach())


@pytest.mark.parametrize("n_words", [7, BLOCK, 2 * BLOCK + 3])
@pytest.mark.parametrize("shape", [(5,), (1, 1), (2, FEW)])
def test_logits_in_blocks_or_turned_are_the_whole_product(n_words, shape):
    torch.manual_seed(0)
    hidden, table = torch.randn(*shape, 16), torch.randn(n_words, 16)
    with torch.no_grad():
        out = logits(hidden, table)
    assert out.shape == (*shape, n_words)
    torch.testing.assert_close(out, F.linear(hidden, table))


def test_gradients_flow_as_through_a_plain_product():
    hidden, table = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    logits(hidden, table).sum().backward()
    torch.testing.assert_close(hidden.grad, table.detach().sum(0).expand(3, -1))


@pytest.mark.parametrize("bias", [True, False])
def test_products_at_once_are_those_taken_apart(bias):
    torch.manual_seed(0)
    linears = [Linear(16, width, bias=bias) for width in (24, 8, 8)]
    x = torch.randn(5, 16, requires_grad=True)
    gradients = []
    for take in (products, at_once):
        made = take(x, linears)
        assert [one.shape for one in made] == [(5, 24), (5, 8), (5, 8)]
        learnt = [x, *(weight for linear in linears for weight in linear.parameters())]
        gradients.append([*made, *torch.autograd.grad(sum(one.square().sum() for one in made), learnt)])
    torch.testing.assert_close(gradients[0], gradients[1])
