import itertools

import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.nn.convolution import CONVOLUTIONS, Convolution
from regard.nn.layout import Ragged, Rectangle

LENGTHS = [5, 1, 9, 2]
CASES = list(itertools.product((1, 3, 5), (1, 2, 4), (True, False)))  # kernel, dilation, causal


def convolution(kernel, dilation, causal):
    torch.manual_seed(0)
    return Convolution(4, 6, kernel, dilation, causal).double()


def block(kind, causal, kernel=3, dilation=2):
    torch.manual_seed(0)
    return CONVOLUTIONS[kind](8, kernel, dilation, causal, dropout=0.0).double()


def rows(width, lengths=LENGTHS):
    torch.manual_seed(1)
    return torch.randn(sum(lengths), width, dtype=torch.double)


def written_out(layer, x, kernel, dilation, causal):
    """One sequence (T, d_in) by conv1d, its zeros put there by hand."""
    weight = layer.product.weight.unflatten(1, (kernel, -1)).transpose(1, 2)  # d_out d_in k
    both = (kernel - 1) * dilation
    padded = F.pad(x.T[None], (both, 0) if causal else (both // 2, both // 2))
    return F.conv1d(padded, weight, layer.product.bias, dilation=dilation)[0].T


@pytest.mark.parametrize(("kernel", "dilation", "causal"), CASES)
def test_it_is_conv1d_of_each_sequence_in_values_and_gradients(kernel, dilation, causal):
    layer = convolution(kernel, dilation, causal)
    x = rows(4).requires_grad_()
    ours = layer(x, Ragged(LENGTHS))
    theirs = torch.cat([written_out(layer, each, kernel, dilation, causal) for each in x.split(LENGTHS)])
    torch.testing.assert_close(ours, theirs)
    sought = [x, layer.product.weight, layer.product.bias]
    seed = torch.randn_like(ours)
    torch.testing.assert_close(torch.autograd.grad(ours, sought, seed), torch.autograd.grad(theirs, sought, seed))


@pytest.mark.parametrize(("kernel", "dilation", "causal"), CASES)
def test_the_receptive_field_is_as_the_formula_says(kernel, dilation, causal):
    n, middle = 41, 20
    x = rows(4, [n]).requires_grad_()
    convolution(kernel, dilation, causal)(x, Ragged([n]))[middle].sum().backward()
    seen = x.grad.abs().sum(1).nonzero()[:, 0].tolist()
    last = middle if causal else middle + kernel // 2 * dilation
    assert seen == list(range(last - (kernel - 1) * dilation, last + 1, dilation))


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("causal", [True, False])
def test_a_sequence_alone_is_as_in_the_batch(kind, causal):
    layer, x = block(kind, causal), rows(8)
    whole = layer(x, Ragged(LENGTHS)).split(LENGTHS)
    for each, expected in zip(x.split(LENGTHS), whole, strict=True):
        torch.testing.assert_close(layer(each, Ragged([len(each)])), expected)


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("causal", [True, False])
def test_neither_padding_nor_another_sequence_is_read(kind, causal):
    """Not even multiplied by zero: what is not a number would show."""
    layer, x, layout = block(kind, causal), rows(8), Ragged(LENGTHS)
    expected = layer(x, layout)
    rectangle = Rectangle(layout.lengths, layout.longest)
    padding = layout.pad(torch.ones(len(x), 1)) == 0
    padded = torch.where(padding, torch.nan, layout.pad(x))
    torch.testing.assert_close(layout.flatten(layer(padded, rectangle)), expected)
    x[5] = torch.nan  # the second sequence, of one row
    others = torch.arange(len(x)) != 5
    torch.testing.assert_close(layer(x, layout)[others], expected[others])


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_the_future_does_not_change_the_past(kind):
    x, layout = rows(8), Ragged(LENGTHS)
    changed = x.clone()
    changed[3:5] += 1  # the end of the first sequence
    for causal in (True, False):
        layer = block(kind, causal)
        difference = (layer(x, layout) - layer(changed, layout)).abs().sum(1)
        assert (difference[3:5] > 1e-3).all() and not difference[5:].any()
        assert difference[:3].any() != causal


def test_a_gated_block_is_its_equation():
    layer, x = block("convs2s", causal=True, dilation=1), rows(8, [3])
    a, b = written_out(layer.convolution, x, 3, 1, True).chunk(2, dim=-1)
    torch.testing.assert_close(layer(x, Ragged([3])), (x + a * b.sigmoid()) / 2**0.5)


def test_a_dilated_block_is_its_equation():
    layer, x = block("bytenet", causal=False), rows(8, [7])

    def f(x):
        return F.relu(F.layer_norm(x, x.shape[-1:]))

    narrow = f(x) @ layer.narrow.weight.T
    convolved = written_out(layer.convolution, f(narrow), 3, 2, False)
    torch.testing.assert_close(layer(x, Ragged([7])), x + f(convolved) @ layer.widen.weight.T)


def test_a_stack_of_gated_blocks_neither_fades_nor_explodes():
    """The paper's weights reckon with a gate at one half; the true gates let the variance grow a little."""
    torch.manual_seed(0)
    x, layout = torch.randn(4000, 64), Ragged([4000])
    for _ in range(8):
        x = CONVOLUTIONS["convs2s"](64, 3, 1, True, 0.0)(x, layout)
    assert 0.5 < x.var() < 10


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", [[], [0], [0, 2, 0], [1]])
def test_sequences_of_length_zero_and_one(kind, causal, lengths):
    x = rows(8, lengths)
    out = block(kind, causal)(x, Ragged(lengths))
    assert out.shape == x.shape and out.isfinite().all()


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="kernel must be at least 1, got 0"):
        Convolution(4, 4, 0, 1, True)
    with pytest.raises(ConfigError, match="must be odd, got 4"):
        Convolution(4, 4, 4, 1, False)
    with pytest.raises(ConfigError, match="d_model must be even, got 7"):
        CONVOLUTIONS["bytenet"](7, 3, 1, True, 0.0)
