import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn import packed
from regard.nn.activations import relu
from regard.nn.blocks import FEED_FORWARDS
from regard.nn.linear import Linear, in_use, logits
from regard.nn.packed import Copies, WeightBlocks, WeightsInt8
from regard.text.words import END, START

pytestmark = pytest.mark.skipif(not packed.HAS_BLOCKS, reason="weights are packed on x86 only")


@pytest.fixture
def layer() -> Linear:
    torch.manual_seed(0)
    return Linear(512, 512)


def copied(copies: Copies) -> list[torch.Tensor]:
    return [weight for known in copies.known.values() if known.content is not None for weight in known.weights]


def holds(layer: Linear, copies: Copies) -> bool:
    """Whether a step reads the weights as they are now."""
    x = torch.randn(4, 512)
    with torch.no_grad(), copies:
        return torch.allclose(layer(x), F.linear(x, layer.weight, layer.bias), atol=1e-5)


@pytest.mark.parametrize("shape", [(5,), (2, 3), (1, 1), (1,), (0,), (64,), (2, 70)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [(512, 300), (130, 1013)])
def test_the_product_is_the_same(shape, bias, widths):
    torch.manual_seed(0)
    layer, x, copies = Linear(*widths, bias=bias), torch.randn(*shape, widths[0]), WeightBlocks()
    with torch.no_grad(), copies:
        decoded = layer(x)
    assert copied(copies) == [layer.weight]
    assert decoded.is_contiguous() and decoded.shape == (*shape, widths[1])
    torch.testing.assert_close(decoded, layer(x).detach())


@torch.no_grad()
def test_one_copy_serves_all_products(layer):
    x, copies = torch.randn(4, 512), WeightBlocks()
    with copies:
        layer(x)
    first = copies.known[id(layer.weight),].content
    with copies:
        layer(x), logits(x, layer.weight)
    assert copies.known[id(layer.weight),].content is first


def learn(layer: Linear) -> None:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.randn(4, 512)).square().sum().backward()
    optimizer.step()


def load(layer: Linear) -> None:
    layer.load_state_dict({"weight": torch.randn(512, 512) / 32, "bias": torch.zeros(512)})


def turn(layer: Linear) -> None:
    layer.weight = nn.Parameter(torch.randn(512, 512).T / 32)


@pytest.mark.parametrize("change", [learn, load, turn])
def test_changed_weights_are_copied_again(layer, change):
    copies = WeightBlocks()
    assert holds(layer, copies)
    before = layer.weight.detach().clone()
    change(layer)
    assert not torch.equal(layer.weight, before) and holds(layer, copies)


def test_a_search_after_a_fused_step_reads_the_new_weights():
    """Which torch does not count as a change: every search in training has its own copies."""
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=600, d_model=256, n_heads=4, n_layers=1, d_ff=512, max_length=32)
    model, settings = Transformer(config).eval(), DecodingConfig(max_length=6)
    before = generate(model, [[7, 8]], settings, START, END)[0][0].log_prob
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    after, plain = (generate(model, [[7, 8]], settings, START, END)[0][0].log_prob for _ in range(2))
    assert after == plain != before


def test_weights_beyond_the_room_are_read_as_they_are(layer, monkeypatch):
    monkeypatch.setattr(packed, "ROOM", 512 * 512)
    other, copies = Linear(512, 512), WeightBlocks()
    assert holds(layer, copies) and holds(other, copies)
    assert copied(copies) == [layer.weight]


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
    x, copies = torch.randn(4, weight.shape[1]), WeightBlocks()
    assert copies.product(x, weight, None, None, None) is None
    with copies:
        torch.testing.assert_close(logits(x, weight), F.linear(x, weight))


def test_only_a_search_packs(layer):
    x, copies = torch.randn(4, 512), WeightBlocks()
    with copies:
        layer(x)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
        with torch.no_grad():
            torch.export.export(layer, (x,))
    with torch.no_grad():
        layer(x)
    assert not copied(copies) and in_use.get() is None


def test_a_search_with_blocks_finds_what_one_without_finds(monkeypatch):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=600, d_model=256, n_heads=4, n_layers=2, d_ff=512, max_length=32)
    model = Transformer(config).eval()
    prompts = [[7, 8, 9, 10], [300, 20], [45]]
    settings = DecodingConfig(beam=4, max_length=12)
    found = generate(model, prompts, settings, START, END)
    monkeypatch.setattr(packed, "HAS_BLOCKS", False)
    plain = generate(model, prompts, settings, START, END)
    assert [best.tokens for best, *_ in found] == [best.tokens for best, *_ in plain]
    assert [best.log_prob for best, *_ in found] == pytest.approx([best.log_prob for best, *_ in plain], abs=1e-4)


@torch.no_grad()
def test_eight_bits_are_near_and_no_row_depends_on_its_neighbors(layer):
    torch.manual_seed(1)
    x, copies = torch.randn(3, 5, 512), WeightsInt8()
    x[1, 2] *= 1000
    x[2, 0] = 0
    exact = F.linear(x, layer.weight, layer.bias)
    with copies:
        rough = layer(x)
        alone = torch.stack([torch.stack([layer(row[None])[0] for row in rows]) for rows in x])
    assert copied(copies) == [layer.weight]
    assert torch.equal(rough, alone)
    errors = (rough - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert 0 < errors.max() < 0.03 and torch.equal(rough[2, 0], layer.bias)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 17, 300])
@torch.no_grad()
def test_eight_bits_are_those_of_whole_numbers(layer, n_rows):
    """By any number of rows: whole numbers have exact sums."""
    torch.manual_seed(1)
    x, copies = torch.randn(n_rows, 512), WeightsInt8()
    scales, largest = layer.weight.abs().amax(1) / 127, x.abs().amax(-1, keepdim=True)
    whole_rows = (x * (packed.LEVELS / largest)).round().double()
    exact = whole_rows @ (layer.weight / scales[:, None]).round().double().T
    expected = exact * scales.double() / packed.LEVELS * largest.double() + layer.bias.double()
    with copies:
        torch.testing.assert_close(layer(x).double(), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_row_of_nan_stays_one_in_eight_bits(layer):
    x, copies = torch.randn(3, 512), WeightsInt8()
    x[1, 7] = torch.nan
    with copies:
        assert layer(x).isnan().all(1).tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [WeightBlocks, WeightsInt8])
@torch.no_grad()
def test_rows_are_added_to_a_product(layer, kind):
    x, added, copies = torch.randn(2, 5, 512), torch.randn(2, 5, 512), kind()
    for bias in (layer.bias, None):
        for activation in (None, relu):
            made = copies.product(x, layer.weight, bias, activation, None)
            both = copies.product(x, layer.weight, bias, activation, added)
            torch.testing.assert_close(both, added + made)


@pytest.mark.parametrize("kind", [WeightBlocks, WeightsInt8])
@torch.no_grad()
def test_a_gate_and_what_it_gates_are_one_product(kind):
    torch.manual_seed(0)
    net, x, copies = FEED_FORWARDS["swiglu"](512, 600, False), torch.randn(2, 1, 512), kind()
    exact = net(x)
    with copies:
        made = net(x)
    assert [len(known.weights) for known in copies.known.values()] == [2, 1]
    torch.testing.assert_close(made, exact, atol=1e-5 if kind is WeightBlocks else 0.01, rtol=0)


def test_a_search_in_eight_bits_is_the_same_alone_and_in_company():
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=600, d_model=256, n_heads=4, n_layers=2, d_ff=512, max_length=32)
    model = Transformer(config).eval()
    prompts = [[7, 8, 9, 10], [300, 20], [45], [500, 2, 3]]
    settings = DecodingConfig(beam=2, max_length=8, weights="int8")
    together = generate(model, prompts, settings, START, END)
    plain = generate(model, prompts, DecodingConfig(beam=2, max_length=8), START, END)
    for prompt, (best, *_), (exact, *_) in zip(prompts, together, plain, strict=True):
        [[alone]] = generate(model, [prompt], settings, START, END)
        # The last digits of float32 depend on the number of rows; now and then one puts a number into the next of 255.
        assert alone.tokens == best.tokens and alone.log_prob == pytest.approx(best.log_prob, rel=5e-3)
        assert best.log_prob == pytest.approx(exact.log_prob, rel=0.05) and best.log_prob != exact.log_prob
