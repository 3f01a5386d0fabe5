import copy

import pytest
import torch

from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS
from regard.nn.watch import switched_off, watch

SMALL = {"vocab_size": 11, "d_model": 16, "n_heads": 4, "n_layers": 2, "d_ff": 32, "dropout": 0.0, "max_length": 32}


def inputs():
    torch.manual_seed(0)
    source, target = Ragged([4, 1, 3]), Ragged([2, 5, 1])
    return torch.randint(0, 11, (8,)), source, torch.randint(0, 11, (8,)), target


@pytest.mark.parametrize("position", POSITIONS)
def test_the_weights_sum_to_one_and_make_the_fast_answer(position):
    model = Transformer(TransformerConfig(**SMALL, position=position)).eval()
    batch = inputs()
    with watch(model) as seen:
        model(*batch)
    assert [(s.kind, s.layer) for s in seen.sightings] == [
        ("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0), ("decoder", 1), ("cross", 1),
    ]  # fmt: skip
    for sighting in seen.sightings:
        layout = batch[1] if sighting.kind == "encoder" else batch[3]
        rows = layout.flatten(sighting.weights.transpose(1, 2))  # rows, heads, keys
        torch.testing.assert_close(rows.sum(-1), torch.ones(8, 4))
        assert sighting.error < 1e-5


def test_only_what_is_asked_for_is_kept():
    model = Transformer(TransformerConfig(**SMALL)).eval()
    with watch(model, layers=[1], heads=[0, 2], vectors=True) as seen:
        model(*inputs())
    cross = seen.of("cross", 1)
    assert {s.layer for s in seen.sightings} == {1} and cross.heads == (0, 2)
    assert cross.weights.shape == (3, 2, 5, 4) and cross.queries.shape == (3, 2, 5, 4)
    assert cross.keys.shape == cross.values.shape == (3, 2, 4, 4)
    torch.testing.assert_close(cross.head(2), cross.weights[:, 1])
    with pytest.raises(KeyError, match="no attention cross 0 was seen; seen: cross 1, decoder 1, encoder 1"):
        seen.of("cross", 0)


def test_watching_changes_nothing_and_ends():
    model = Transformer(TransformerConfig(**SMALL)).eval()
    batch = inputs()
    before = model(*batch)
    with watch(model) as seen:
        assert torch.equal(model(*batch), before)
    model(*batch)
    assert len(seen.sightings) == 6


@pytest.mark.slow  # a compilation
def test_a_compiled_model_is_watched_through_its_eager_twin():
    model = Transformer(TransformerConfig(**SMALL | {"n_layers": 1})).eval()
    batch = inputs()
    expected = model(*batch)
    ran = []

    def backend(graph, _inputs):
        return lambda *args: ran.append(1) or graph(*args)

    compiled = torch.compile(model, backend=backend)
    compiled(*batch)
    assert ran
    ran.clear()
    with watch(compiled) as seen:
        torch.testing.assert_close(compiled(*batch), expected)
    assert len(seen.sightings) == 3 and not ran


@pytest.mark.parametrize("place", [("encoder", 0, 1), ("decoder", 1, 3), ("cross", 1, 2)])
def test_a_head_switched_off_is_one_whose_output_has_no_weights(place):
    """As zeros in W_O would have it, read at once and written step by step; afterwards all is as before."""
    kind, layer, head = place
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(**SMALL)).eval()
    batch = inputs()
    before = model(*batch)
    without = copy.deepcopy(model)
    module = next(m for k, n, m in without.attentions() if (k, n) == (kind, layer))
    with torch.no_grad():
        module.to_output.weight[:, head * 4 : (head + 1) * 4] = 0
    expected = without(*batch)
    assert (expected - before).abs().max() > 1e-3
    sources, tokens = [[1, 2, 3], [4]], torch.tensor([[5], [6]])
    with switched_off(model, kind, layer, head):
        torch.testing.assert_close(model(*batch), expected)
        torch.testing.assert_close(step(model, sources, tokens), step(without, sources, tokens))
    assert torch.equal(model(*batch), before)


def step(model: Transformer, sources: list[list[int]], tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.step(tokens, model.start(sources, 0, room=4)[0])


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("encoder", 0, 4), "there is no head 4; the model has 4"),
        (("cross", 2, 0), "no attention 'cross', layer 2"),
        (("self", 0, 0), "no attention 'self', layer 0"),
    ],
)
def test_a_head_that_is_not_there_cannot_be_switched_off(place, message):
    model = Transformer(TransformerConfig(**SMALL)).eval()
    with pytest.raises(RegardError, match=message), switched_off(model, *place):
        pass
