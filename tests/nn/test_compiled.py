"""A compiled model learns what the model itself learns: its gradients are the same, of every weight."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from regard.models.compressive import CompressiveConfig, CompressiveTransformer
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.nn.layout import Ragged

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = dict(vocab_size=50, d_model=32, n_heads=2, n_layers=1, d_ff=32, dropout=0.0, max_length=300)
CARRYING = {**SHAPE, "max_length": 8, "position": "rotary"}
SHORT = ([9, 7, 8, 8], [6, 8, 8, 7])
LONG = ([140, 9], [150, 8])  # longer than sentences are
FULL = ([140, 140], [150, 150])


def translator() -> nn.Module:
    return Transformer(TransformerConfig(**SHAPE))


def stack() -> nn.Module:
    return Stack(StackConfig(**SHAPE))


def windowed() -> nn.Module:
    return Stack(StackConfig(**SHAPE, attention_window=8, global_rows=2, position="buckets"))


def gradients(make: Callable[[], nn.Module], lengths: tuple[list[int], ...], compiled: bool) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = make().to(DEVICE)
    if compiled:
        model.compile(dynamic=True, backend="inductor" if DEVICE.type == "cuda" else "aot_eager")
    sides = [(torch.randint(5, 50, (sum(side),)).to(DEVICE), Ragged(side).to(DEVICE)) for side in lengths]
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
        hidden = model(*(part for side in sides for part in side))
    (hidden.float() * torch.linspace(-1, 1, hidden.numel(), device=DEVICE).view_as(hidden)).sum().backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize(
    ("make", "lengths"),
    [  # eight seconds and more each; among the fast tests, test_scores.py compiles the attention alone
        pytest.param(stack, LONG[:1], id="stack, long", marks=pytest.mark.slow),
        pytest.param(stack, SHORT[:1], id="stack, short", marks=pytest.mark.slow),
        pytest.param(windowed, ([270, 9],), id="windows with global rows", marks=pytest.mark.slow),
        pytest.param(translator, SHORT, id="short", marks=pytest.mark.slow),
        pytest.param(translator, LONG, id="long", marks=pytest.mark.slow),
        pytest.param(translator, FULL, id="full", marks=pytest.mark.slow),  # the long ones without padding
    ],
)
def test_compiled_gradients_are_those_of_the_model(make, lengths):
    torch.compiler.reset()
    plain, compiled = gradients(make, lengths, compiled=False), gradients(make, lengths, compiled=True)
    assert compiled.keys() == plain.keys()
    for name, gradient in plain.items():
        if "to_keys.bias" in name:  # a softmax does not see what is added to all keys alike: the gradient is rounding
            continue
        assert gradient.norm() > 0, name
        if DEVICE.type == "cuda":  # bfloat16, rounded in other places: single numbers are off by 5 % of the largest
            assert (compiled[name] - gradient).norm() <= 0.05 * gradient.norm(), name
        else:
            assert (compiled[name] - gradient).abs().max() <= 1e-4 * gradient.abs().max(), name


def test_after_a_short_window_the_usual_ones_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that is resumed before the last window of an epoch begins with that one."""
    compiled = []
    monkeypatch.setattr(
        torch, "compile", lambda call, **_: lambda *given: compiled.append(given[1].longest) or call(*given)
    )
    model = LanguageModel(TransformerXL(TransformerXLConfig(**CARRYING, memory=8)))
    model.compile_passes()
    state = None
    for length in (8, 5, 8, 8, 5):
        layout, tokens = Ragged([length] * 3), torch.randint(5, 50, (3 * length,))
        _, state = model.carried_loss(tokens, tokens, layout, state, 0.0)
    assert compiled == [5, 8, 8]


def carried_gradients(config: TransformerXLConfig, compiled: bool) -> tuple[list[float], list[dict[str, Tensor]]]:
    """Losses and gradients of seven segments, each read on from the one before.  The first ones have fewer rows before
    them; the last, as at the end of an epoch, is shorter."""
    torch.manual_seed(0)
    kind = CompressiveTransformer if isinstance(config, CompressiveConfig) else TransformerXL
    model = LanguageModel(kind(config)).to(DEVICE)
    if compiled:
        model.compile_passes()
    state, losses, found = None, [], []
    for length in (8, 8, 8, 8, 8, 8, 5):
        layout, tokens = Ragged([length] * 3).to(DEVICE), torch.randint(5, 50, (3 * length,)).to(DEVICE)
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda"):
            loss, state = model.carried_loss(tokens, tokens.flip(0), layout, state, 0.0)
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        losses.append(float(loss.detach()))
        found.append(
            {name: g for (name, _), g in zip(model.named_parameters(), gradients, strict=True) if g is not None}
        )
    return losses, found


@pytest.mark.slow  # ten seconds
@pytest.mark.parametrize(
    "config",
    [
        TransformerXLConfig(**CARRYING, memory=12),
        CompressiveConfig(**CARRYING, memory=8, compressed_memory=4, compression_rate=4),
    ],
    ids=["transformer-xl", "compressive"],
)
def test_reading_on_is_one_graph_and_learns_the_same(
    config: TransformerXLConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compiler.reset()
    counters.clear()
    backend = "inductor" if DEVICE.type == "cuda" else "aot_eager"
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend, fullgraph=True))
    (plain_losses, plain), (losses, compiled) = (carried_gradients(config, compiled) for compiled in (False, True))
    assert (
        counters["stats"]["unique_graphs"] == 1
    )  # though the first segments have less before them, and the last is shorter
    assert losses == pytest.approx(plain_losses, rel=1e-5 if DEVICE.type == "cpu" else 2e-3)
    for expected, got in zip(plain, compiled, strict=True):
        assert got.keys() == expected.keys()
        for name, gradient in expected.items():
            size = gradient.abs().max().clamp(min=1e-3)
            bound = 1e-4 if DEVICE.type == "cpu" else 5e-2
            torch.testing.assert_close(got[name] / size, gradient / size, atol=bound, rtol=bound)
