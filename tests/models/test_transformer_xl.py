"""A stack with a memory: cuts change nothing that a row sees, gradients stop at the memory, and texts have no end."""

import pytest
import torch

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.errors import ConfigError, RegardError
from regard.models.heads import LanguageModel
from regard.models.transformer_xl import RELATIVE, TransformerXL, TransformerXLConfig
from regard.nn.layout import Ragged
from regard.nn.watch import watch

SMALL = {"vocab_size": 11, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 8}


def make(**settings):
    torch.manual_seed(0)
    return TransformerXL(TransformerXLConfig(**SMALL | {"memory": 6} | settings)).eval()


def texts(n, length):
    return torch.randint(0, 11, (n, length), generator=torch.Generator().manual_seed(1))


def read_in_segments(model, tokens, sizes):
    state, rows = None, []
    for part in tokens.split(sizes, 1):
        hidden, state = model.carry(part.flatten(), Ragged([part.shape[1]] * len(part)), state)
        rows.append(hidden.view(*part.shape, -1))
    return torch.cat(rows, 1), state


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("position", RELATIVE)
@pytest.mark.parametrize("pre_norm", [True, False])
def test_with_a_window_within_the_memory_cuts_change_nothing(position, pre_norm):
    """Also past max_length, and read token by token from the cache that drops its oldest rows."""
    model, tokens = make(attention_window=4, position=position, pre_norm=pre_norm), texts(2, 31)
    whole = model(tokens.flatten(), Ragged([31, 31])).view(2, 31, -1)
    for sizes in ([31], [5, 7, 1, 18], [10] * 3 + [1]):
        torch.testing.assert_close(read_in_segments(model, tokens, sizes)[0], whole, atol=1e-5, rtol=1e-5)
    for sizes in ([31], [9, 4] + [1] * 18):
        state = model.start(2, 31)
        with torch.no_grad():
            stepped = torch.cat([model.step(part, state) for part in tokens.split(sizes, 1)], 1)
        torch.testing.assert_close(stepped, whole, atol=1e-5, rtol=1e-5)
        assert state.content.shape[3] == 12 and state.lengths.tolist() == [31, 31]


def test_a_memory_of_all_is_full_attention():
    model, tokens = make(memory=40), texts(2, 31)
    whole = model(tokens.flatten(), Ragged([31, 31])).view(2, 31, -1)
    torch.testing.assert_close(read_in_segments(model, tokens, [9, 9, 13])[0], whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("position", RELATIVE)
def test_a_whole_text_is_read_as_it_is_written(position):
    """What looks, embeds and classifies reads a text at once: a row sees its memory and nothing before it."""
    model, tokens = make(position=position), texts(2, 31)
    with torch.no_grad(), watch(model) as seen:
        whole = model(tokens.flatten(), Ragged([31, 31])).view(2, 31, -1)
        state = model.start(2, 31)
        stepped = torch.cat([model.step(part, state) for part in tokens.split(1, 1)], 1)
    torch.testing.assert_close(whole, stepped, atol=1e-5, rtol=1e-5)
    weights = next(sighting for sighting in seen.sightings if sighting.weights.shape[2] == 31).weights
    behind = torch.arange(31)[:, None] - torch.arange(31)
    assert not weights[..., (behind > 6) | (behind < 0)].any() and (weights[..., behind == 6] > 0).all()


def test_a_cache_has_room_for_what_is_written_and_grows():
    model, tokens = make(memory=20), texts(1, 60)
    whole = model(tokens[0], Ragged([60]))
    state = model.start(1, 4)
    assert state.content.shape[3] == 4
    rows, rooms = [], []
    with torch.no_grad():
        for part in tokens.split(3, 1):
            rows.append(model.step(part, state)[0])
            rooms.append(state.content.shape[3])
    torch.testing.assert_close(torch.cat(rows), whole, atol=1e-5, rtol=1e-5)
    assert rooms == sorted(rooms) and rooms[-1] == 40 and len(set(rooms)) < 8
    short, long = model.start(1, 3), model.start(1, 30)
    with torch.no_grad():
        model.step(tokens[:, :3], short)
        model.step(tokens[:, :30], long)
        short.join(long)
        after = model.step(tokens[:, [3, 30]].T, short)[:, 0]
    torch.testing.assert_close(after, whole[[3, 30]], atol=1e-5, rtol=1e-5)


def test_a_row_sees_the_segment_before_and_gradients_stop_there():
    model, tokens = make(n_layers=1, memory=3), texts(1, 10)
    vectors = model.embedding(tokens[0], Ragged([10])).detach().requires_grad_()
    model.embedding.forward = lambda chosen, layout: vectors[None, :5] if n_read == 0 else vectors[None, 5:]
    n_read = 0
    _, state = model.carry(tokens[0, :5], Ragged([5]), None)
    assert not any(layer.requires_grad for layer in state.layers)
    n_read = 5
    changed = [layer.clone() for layer in state.layers]
    rows, after = model.carry(tokens[0, 5:], Ragged([5]), state)
    (gradient,) = torch.autograd.grad(rows.square().sum(), vectors)
    assert not gradient[:5].any() and gradient[5:].any(1).all()
    changed[0][:, 0, 0] += 1  # one number of the third row before the segment: a norm takes out what all of them share
    state.layers = changed
    assert ((model.carry(tokens[0, 5:], Ragged([5]), state)[0] - rows).abs().amax(1) > 1e-7).all()
    assert after.layers[0].shape == (1, 3, 8) and after.lengths.tolist() == [10]


@pytest.mark.slow  # long texts, token by token
def test_texts_of_several_lengths_are_written_past_the_longest_as_each_alone():
    model = LanguageModel(make(attention_window=4))
    prompts = [[1, 2, 3], [4] * 20, [5, 6]]
    config = DecodingConfig(beam=1, n_best=1, length_ratio=0.0, extra_length=40, min_length=40)
    together = [best.tokens for (best,) in generate(model, prompts, config, 1, 2)]
    alone = [generate(model, [prompt], config, 1, 2)[0][0].tokens for prompt in prompts]
    assert together == alone and all(len(tokens) == 40 for tokens in together)
    beams = generate(model, prompts, DecodingConfig(beam=3, n_best=2, extra_length=30, length_ratio=0.0), 1, 2)
    assert all(len(group) == 2 for group in beams)


def test_the_memory_is_seen_by_who_watches():
    model, tokens = make(), texts(1, 10)
    _, state = read_in_segments(model, tokens[:, :5], [5])
    with watch(model) as seen:
        model.carry(tokens[0, 5:], Ragged([5]), state)
    sighting = seen.of("self", 1)
    assert sighting.weights.shape == (1, 2, 5, 10) and sighting.error < 1e-6


def test_a_state_is_restored_from_its_tensors():
    model, tokens = make(), texts(2, 12)
    _, state = read_in_segments(model, tokens[:, :6], [6])
    again = model.state_of(state.tensors())
    rows = [model.carry(tokens[:, 6:].flatten(), Ragged([6, 6]), each)[0] for each in (state, again)]
    assert torch.equal(*rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"position": "learned"}, "a memory moves away as a text goes on"),
        ({"rotary_scaling": "dynamic"}, "a memory moves away as a text goes on"),
        ({"causal": False}, "needs causal = true"),
        ({"memory": 0}, "memory must be at least 1"),
    ],
)
def test_what_cannot_be_remembered_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_tokens_are_not_taken_back():
    model = make()
    state = model.start(1, 4)
    with torch.no_grad():
        model.step(texts(1, 4), state)
    with pytest.raises(RegardError, match="cannot take tokens back"):
        state.truncate(torch.tensor([2]))
    with pytest.raises(RegardError, match="sequences of one length"):
        model.carry(texts(1, 5)[0], Ragged([2, 3]), None)
