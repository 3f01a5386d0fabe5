import pytest
import torch

from regard.nn.linear import Linear, at_once, logits, products


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
