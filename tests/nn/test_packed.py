import gc
from threading import Thread

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.decoding.config import DecodingConfig
from regard.decoding.search import generate
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn import linear as packed
from regard.nn.linear import Linear, PackedReading, logits
from regard.text.words import END, START

pytestmark = pytest.mark.skipif(not packed.HAS_BLOCKS, reason="weights are packed on x86 only")


@pytest.fixture
def layer() -> Linear:
    torch.manual_seed(0)
    return Linear(512, 512)


def holds(layer: Linear) -> bool:
    """Whether a new search reads the weights as they are now."""
    x = torch.randn(4, 512)
    with torch.no_grad(), PackedReading():
        return torch.allclose(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 1), (1,), (0,), (64,), (2, 70)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [(512, 300), (130, 1013)])
def test_the_product_is_the_same(shape, bias, widths):
    torch.manual_seed(0)
    layer, x = Linear(*widths, bias=bias), torch.randn(*shape, widths[0])
    with torch.no_grad(), PackedReading():
        decoded = layer(x)
    assert layer.weight in packed.copies
    assert decoded.is_contiguous() and decoded.shape == (*shape, widths[1])
    torch.testing.assert_close(decoded, layer(x).detach())


@torch.no_grad()
def test_one_copy_serves_all_products(layer):
    x = torch.randn(4, 512)
    with PackedReading():
        layer(x)
    first = packed.copies[layer.weight][1]
    with PackedReading():
        layer(x), logits(x, layer.weight)
    assert packed.copies[layer.weight][1] is first


def learn(layer: Linear) -> None:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)  # which counts no version up
    layer(torch.randn(4, 512)).square().sum().backward()
    optimizer.step()


def load(layer: Linear) -> None:
    layer.load_state_dict({"weight": torch.randn(512, 512) / 32, "bias": torch.zeros(512)})


def replace(layer: Linear) -> None:
    layer.weight.data = torch.randn(512, 512) / 32


def write_one(layer: Linear) -> None:
    layer.weight.data[300, 5] += 1


def swap_rows(layer: Linear) -> None:
    layer.weight.data.copy_(layer.weight.data.flip(0))


def turn(layer: Linear) -> None:
    layer.weight = nn.Parameter(torch.randn(512, 512).T / 32)


@pytest.mark.parametrize("change", [learn, load, replace, write_one, swap_rows, turn])
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
    monkeypatch.setattr(packed, "copies", type(packed.copies)())
    monkeypatch.setattr(packed, "ROOM", 512 * 512)
    other = Linear(512, 512)
    assert holds(layer) and holds(other)
    assert list(packed.copies) == [layer.weight]


@pytest.mark.parametrize(
    "weight",
    [
        nn.Parameter(torch.randn(16, 16)),
        nn.Parameter(torch.randn(600, 513)),
        nn.Parameter(torch.randn(512, 512).T),
        torch.randn(512, 512),
        nn.Parameter(torch.randn(600, 512))[:512],
    ],
    ids=["small", "odd", "turned", "passing", "part"],
)
@torch.no_grad()
def test_what_is_not_packed(weight):
    x = torch.randn(4, weight.shape[1])
    with PackedReading():
        assert packed.blocks(x, weight) is None
        torch.testing.assert_close(logits(x, weight), F.linear(x, weight))


def test_only_a_search_packs(layer):
    x = torch.randn(4, 512)
    with PackedReading():
        layer(x)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
        with torch.no_grad():
            torch.export.export(layer, (x,))
    with torch.no_grad():
        layer(x)
    assert layer.weight not in packed.copies


def test_searches_in_threads_share_copies(layer):
    x, found = torch.randn(4, 512), []

    def read() -> None:
        with torch.no_grad(), PackedReading():
            found.append(layer(x))

    threads = [Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(torch.equal(one, found[0]) for one in found)
    assert packed.current.get() is None


def test_a_search_with_blocks_finds_what_one_without_finds(monkeypatch):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=600, d_model=256, n_heads=4, n_layers=2, d_ff=512, max_length=32)
    model = Transformer(config).eval()
    prompts = [[7, 8, 9, 10], [300, 20], [45]]
    settings = DecodingConfig(beam=4, max_length=12)
    found = generate(model, prompts, settings, START, END)
    assert model.embedding.weight in packed.copies
    monkeypatch.setattr(packed, "HAS_BLOCKS", False)
    plain = generate(model, prompts, settings, START, END)
    assert [best.tokens for best, *_ in found] == [best.tokens for best, *_ in plain]
    assert [best.log_prob for best, *_ in found] == pytest.approx([best.log_prob for best, *_ in plain], abs=1e-4)
