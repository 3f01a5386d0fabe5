"""Reversible residuals: gradients of the plain graph, and memory that does not grow with the layers."""

import pytest
import torch

from regard.errors import ConfigError
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged

SMALL = {"vocab_size": 11, "d_model": 16, "n_heads": 2, "d_ff": 32, "dropout": 0.0, "max_length": 64}


def make(n_layers=3, **settings):
    torch.manual_seed(0)
    return Stack(StackConfig(**SMALL, n_layers=n_layers, **{"reversible": True} | settings))


def plain(model, tokens, layout):
    """The same streams, whose graph autograd keeps."""
    first = second = model.embed(tokens, layout)
    for block in model.blocks:
        first, second = block.couple(first, second, layout, model.sight)
    return model.norm((first + second) / 2)


def batch():
    layout = Ragged([9, 4])
    return torch.randint(0, 11, (13,), generator=torch.Generator().manual_seed(1)), layout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("position", ["rotary", "learned", "buckets"])  # buckets: all blocks share a table
def test_values_and_gradients_are_those_of_the_plain_graph(position, dtype):
    model, both = make(position=position).to(dtype), batch()
    out, expected = model(*both), plain(model, *both)
    torch.testing.assert_close(out, expected)
    push = torch.randn_like(out)
    gradients = [torch.autograd.grad(x, list(model.parameters()), push) for x in (out, expected)]
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_steps_give_what_the_whole_gives():
    model = make(position="rotary").eval()
    tokens = torch.randint(0, 11, (2, 9))
    with torch.no_grad():
        state = model.start(2, 9)
        stepped = torch.cat([model.step(part, state) for part in tokens.split([4, 1, 4], 1)], 1)
    torch.testing.assert_close(stepped, model(tokens.flatten(), Ragged([9, 9])).view(2, 9, -1), atol=1e-5, rtol=1e-5)


def bytes_kept(model):
    """For the gradient, beside the weights."""
    own = {weight.data_ptr() for weight in model.parameters()}
    kept = {}

    def keep(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model(*batch())
    del out
    return sum(kept.values())


def test_layers_keep_nothing_for_the_gradient():
    few, many = bytes_kept(make(n_layers=2)), bytes_kept(make(n_layers=8))
    assert few == many
    assert many < 0.2 * bytes_kept(make(n_layers=8, reversible=False))


def test_weights_that_stay_have_no_gradient():
    model, both = make(position="rotary"), batch()
    model.blocks[0].requires_grad_(False)
    model(*both).sum().backward()
    assert all(weight.grad is None for weight in model.blocks[0].parameters())
    assert all(weight.grad is not None for weight in model.blocks[1].parameters())


def test_what_cannot_be_computed_again_is_refused():
    with pytest.raises(ConfigError, match="reversible = true needs pre_norm = true and dropout = 0"):
        StackConfig(vocab_size=11, reversible=True, dropout=0.1)
