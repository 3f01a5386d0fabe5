"""Chunks of the additive sum: the plain equation's values and gradients, without its memory."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.nn import scores as module
from regard.nn.scores import additive, plain_additive

SHAPES = {"heads": ((2, 3, 5, 4), (2, 3, 7, 4)), "one step": ((4, 1, 1, 8), (4, 1, 9, 8)), "empty": ((1, 1, 0, 2),) * 2}


def inputs(shape, dtype=torch.float32):
    torch.manual_seed(0)
    queries, keys = (torch.randn(size, dtype=dtype, requires_grad=True) for size in SHAPES[shape])
    return queries, keys, torch.randn(queries.shape[-1], dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("chunk", [1, 400, 2**20])  # one query at a time, a few, all
@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_equal_the_equation_in_values_and_gradients(shape, chunk, monkeypatch):
    monkeypatch.setitem(module.CHUNK, "cpu", chunk)
    given = inputs(shape)
    out, expected = additive(*given), plain_additive(*given)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    push = torch.randn_like(out)
    gradients = [torch.autograd.grad(x, given, push) for x in (out, expected)]
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled("the cases differ in shape alone")
@pytest.mark.parametrize("chunk", [1, 400])
def test_the_gradient_is_the_slope(chunk, monkeypatch):
    monkeypatch.setitem(module.CHUNK, "cpu", chunk)
    assert torch.autograd.gradcheck(additive, inputs("heads", torch.float64))


class Largest(TorchDispatchMode):
    """The largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        made = [x.numel() for x in (out if isinstance(out, tuple | list) else [out]) if isinstance(x, torch.Tensor)]
        self.numbers = max(self.numbers, *made, 0)
        return out


def largest(function, given):
    with Largest() as seen:
        out = function(*given)
        out.backward(torch.ones_like(out))
    return seen.numbers


def test_queries_by_keys_by_width_are_never_held(monkeypatch):
    n, width = 64, 16
    given = [torch.randn(2, 1, n, width, requires_grad=True) for _ in range(2)]
    given.append(torch.randn(width, requires_grad=True))
    assert largest(plain_additive, given) == 2 * n * n * width
    monkeypatch.setitem(module.CHUNK, "cpu", 8 * n * width)
    assert largest(additive, given) == 2 * n * n  # the scores themselves: a chunk is as large or smaller


def test_half_precision_adds_up_in_single(monkeypatch):
    monkeypatch.setitem(module.CHUNK, "cpu", 1)
    torch.manual_seed(0)
    exact = [torch.randn(1, 1, 512, 8), torch.randn(1, 1, 3, 8), torch.randn(8)]
    rough = [x.bfloat16().requires_grad_() for x in exact]
    exact = [x.detach().float().requires_grad_() for x in rough]
    gradients = []
    for given in (rough, exact):
        out = additive(*given)
        gradients.append(torch.autograd.grad(out, given, torch.ones_like(out)))
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got.float(), want, atol=0.3, rtol=2e-2)
