"""The span finder against loops over all spans."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from regard.models.spans import SpanFinder
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged, Rectangle

LENGTHS = [7, 4, 9]
TOKENS = torch.arange(sum(LENGTHS)) % 11
OFFSET, N_CONTEXT = torch.tensor([3, 3, 2]), torch.tensor([3, 0, 6])  # behind the context stands </s>


@pytest.fixture(scope="module")
def model() -> SpanFinder:
    torch.manual_seed(0)
    config = StackConfig(
        vocab_size=11, d_model=16, n_heads=2, n_layers=1, d_ff=32, max_length=16, causal=False, dropout=0.0
    )
    return SpanFinder(Stack(config), dropout=0.0).eval()


def logits_of(model: SpanFinder) -> list[Tensor]:
    with torch.no_grad():
        return list(model(TOKENS, Ragged(LENGTHS)).split(LENGTHS))


def test_the_loss_is_that_of_two_choices_in_each_sequence(model: SpanFinder) -> None:
    spans = torch.tensor([[3, 5], [0, 0], [2, 2]])
    expected = 0.0
    for logits, span in zip(logits_of(model), spans, strict=True):
        expected -= float(logits[:, 0].log_softmax(0)[span[0]] + logits[:, 1].log_softmax(0)[span[1]])
    assert model.nats(TOKENS, Ragged(LENGTHS), spans).item() == pytest.approx(expected, abs=1e-4)


def test_gradients_are_finite_and_alone_equals_together(model: SpanFinder) -> None:
    spans = torch.tensor([[3, 5], [0, 0], [2, 2]])
    model.nats(TOKENS, Ragged(LENGTHS), spans).backward()
    together = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    for tokens, length, span in zip(TOKENS.split(LENGTHS), LENGTHS, spans, strict=True):
        model.nats(tokens, Ragged([length]), span[None]).backward()
    assert together
    for name, parameter in model.named_parameters():
        if name in together:
            assert together[name].isfinite().all()
            torch.testing.assert_close(parameter.grad, together[name], atol=1e-5, rtol=1e-4)
    model.zero_grad()


@torch.no_grad()
@pytest.mark.parametrize("longest", [1, 2, 30])
def test_the_best_span_is_the_best_of_all(model: SpanFinder, longest: int) -> None:
    found = model.find(TOKENS, Ragged(LENGTHS), OFFSET, N_CONTEXT, longest)
    for i, logits in enumerate(logits_of(model)):
        begin, end = logits.double().unbind(1)
        inside = range(int(OFFSET[i]), int(OFFSET[i] + N_CONTEXT[i]))
        spans = {(a, b): float(begin[a] + end[b]) for a, b in itertools.product(inside, inside) if 0 <= b - a < longest}
        nothing = float(begin[0] + end[0])
        total = sum(math.exp(score) for score in [*spans.values(), nothing])
        assert float(found.none[i]) == pytest.approx(math.exp(nothing) / total, abs=1e-5)
        if not spans:
            assert found.odds[i] == -torch.inf and found.none[i] == 1 and found.probability[i] == 0
            continue
        best = max(spans, key=spans.__getitem__)
        assert (int(found.first[i]), int(found.last[i])) == best
        assert float(found.odds[i]) == pytest.approx(spans[best] - nothing, abs=1e-4)
        assert float(found.probability[i]) == pytest.approx(math.exp(spans[best]) / total, abs=1e-5)


def test_padding_is_never_read(model: SpanFinder) -> None:
    padded = torch.full((3, 9), 10)
    for row, tokens in zip(padded, TOKENS.split(LENGTHS), strict=True):
        row[: len(tokens)] = tokens
    layout = Rectangle(torch.tensor(LENGTHS), 9)
    spans = torch.tensor([[3, 5], [0, 0], [2, 2]])
    flat = model.nats(TOKENS, Ragged(LENGTHS), spans)
    torch.testing.assert_close(model.nats(padded, layout, spans), flat)
    pair = (model.find(TOKENS, Ragged(LENGTHS), OFFSET, N_CONTEXT, 4), model.find(padded, layout, OFFSET, N_CONTEXT, 4))
    for one, other in zip(*pair, strict=True):
        torch.testing.assert_close(one, other)
