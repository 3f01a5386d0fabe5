import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.nn import packed
from regard.nn.linear import Linear, logits

pytestmark = pytest.mark.skipif(not packed.HAS_BLOCKS, reason="weights are packed on x86 only")


@pytest.fixture
def layer() -> Linear:
    torch.manual_seed(0)
    return Linear(512, 512)


def holds(layer: Linear) -> bool:
    """Whether the layer decodes as it should with the weights that it has now."""
    x = torch.randn(4, 512)
    with torch.no_grad():
        return torch.allclose(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5)


@torch.no_grad()
def test_one_copy_serves_all_products(layer):
    x = torch.randn(4, 512)
    layer(x)
    first = packed.copies[layer.weight][1]
    layer(x), logits(x, layer.weight)
    assert packed.copies[layer.weight][1] is first


def learn(layer: Linear) -> None:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.randn(4, 512)).square().sum().backward()
    optimizer.step()


def load(layer: Linear) -> None:
    layer.load_state_dict({"weight": torch.randn(512, 512) / 32, "bias": torch.zeros(512)})


def move(layer: Linear) -> None:
    layer.weight.data = torch.randn(512, 512) / 32


def turn(layer: Linear) -> None:
    layer.weight = nn.Parameter(torch.randn(512, 512).T / 32)


@pytest.mark.parametrize("change", [learn, load, move, turn])
def test_changed_weights_are_copied_again(layer, change):
    assert holds(layer)
    before = layer.weight.detach().clone()
    change(layer)
    assert not torch.equal(layer.weight, before) and holds(layer)


def test_copies_go_with_their_weights():
    layer = Linear(512, 512)
    assert holds(layer)
    before = len(packed.copies)
    del layer
    gc.collect()
    assert len(packed.copies) == before - 1


def test_weights_beyond_the_room_are_read_as_they_are(layer, monkeypatch):
    gc.collect()
    monkeypatch.setattr(packed, "copies", type(packed.copies)())
    monkeypatch.setattr(packed, "ROOM", 512 * 512)
    other = Linear(512, 512)
    assert holds(layer) and holds(other)
    assert list(packed.copies) == [layer.weight]


@pytest.mark.parametrize(
    "weight",
    [
        nn.Parameter(torch.randn(16, 16)),
        torch.randn(512, 512),
        nn.Parameter(torch.randn(600, 512))[:512],
        nn.Parameter(torch.randn(512, 512).bfloat16()),
    ],
    ids=["small", "passing", "part", "half"],
)
@torch.no_grad()
def test_what_is_not_packed(weight):
    assert packed.pack(weight) is None


def test_training_autocast_and_compiled_code_take_plain_products(layer, monkeypatch):
    def refuse(*arguments: object) -> None:
        raise AssertionError("packed")

    monkeypatch.setattr(packed, "pack", refuse)
    x = torch.randn(4, 512)
    layer(x)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    with torch.no_grad():
        layer.double()(x.double())
        torch.export.export(layer.float(), (x,))
        with pytest.raises(AssertionError, match="packed"):
            layer(x)
