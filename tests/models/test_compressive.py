"""Memory that is compressed: places and sizes by hand, the loss of the compression, and texts without end."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.errors import ConfigError, RegardError
from regard.models.compressive import CompressiveConfig, CompressiveTransformer
from regard.models.heads import LanguageModel
from regard.models.reach import gradient_reach
from regard.models.transformer_xl import TransformerXL, TransformerXLConfig
from regard.nn.compressing import COMPRESSIONS, reconstruction_loss
from regard.nn.layout import Ragged
from regard.nn.watch import watch

SMALL = {"vocab_size": 11, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 5}
ROOM = {"memory": 4, "compressed_memory": 3, "compression_rate": 2}


def make(**settings):
    torch.manual_seed(0)
    model = CompressiveTransformer(CompressiveConfig(**SMALL | ROOM | settings)).eval()
    for parameter in model.compressions.parameters():  # a mean, at first
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def texts(n, length):
    return torch.randint(0, 11, (n, length), generator=torch.Generator().manual_seed(1))


def read_in_segments(model, tokens, sizes, state=None):
    rows = []
    for part in tokens.split(sizes, 1):
        hidden, state = model.carry(part.flatten(), Ragged([part.shape[1]] * len(part)), state)
        rows.append(hidden.view(*part.shape, -1))
    return torch.cat(rows, 1), state


def step_through(model, tokens, sizes):
    state = model.start(len(tokens), tokens.shape[1])
    with torch.no_grad():
        return torch.cat([model.step(part, state) for part in tokens.split(sizes, 1)], 1), state


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_four_rows_become_two_of_each_pair(compression):
    rows = torch.tensor([[[1.0, 8.0], [3.0, 4.0], [5.0, 0.0], [9.0, 2.0]]])
    wanted = {"max": [[3.0, 8.0], [9.0, 2.0]]}.get(
        compression, [[2.0, 6.0], [7.0, 1.0]]
    )  # a convolution begins as mean
    torch.testing.assert_close(COMPRESSIONS[compression](2, 2)(rows), torch.tensor([wanted]))


def test_sizes_by_hand():
    """Segments of 5 with a memory of 4, pairs, and 3 compressed rows."""
    model, tokens = make(), texts(2, 15)
    _, state = read_in_segments(model, tokens[:, :5], [5])
    assert [state.layers[0].shape[1], state.compressed[0].shape[1]] == [5, 0]  # one row waits for a second
    _, state = read_in_segments(model, tokens[:, 5:10], [5], state)
    assert [state.layers[0].shape[1], state.compressed[0].shape[1]] == [4, 3]
    _, after = read_in_segments(model, tokens[:, 10:], [5], state)
    assert [after.layers[0].shape[1], after.compressed[0].shape[1]] == [5, 3]
    expected = torch.cat([state.compressed[1], model.compressions[1](state.layers[1])], 1)[:, -3:]  # 4 rows, 2 more
    torch.testing.assert_close(after.compressed[1], expected)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("position", ["rotary", "alibi", "buckets", "none"])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_rows_before_a_segment_are_seen_as_rows_of_one_text(position, pre_norm):
    """Equal to a Transformer-XL whose memory holds the compressed rows and the others, in values and gradients."""
    model = make(position=position, pre_norm=pre_norm)
    plain = TransformerXL(TransformerXLConfig(**SMALL, memory=99, position=position, pre_norm=pre_norm)).eval()
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if "compressions" not in name})
    tokens = texts(2, 15)
    _, state = read_in_segments(model, tokens[:, :10], [5, 5])
    _, same = read_in_segments(plain, tokens[:, :10], [10])
    same.layers = state.before
    ours, theirs = (
        each.carry(tokens[:, 10:].flatten(), Ragged([5, 5]), before)[0]
        for each, before in ((model, state), (plain, same))
    )
    torch.testing.assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in plain.named_parameters()}
    for name, parameter in model.named_parameters():
        if "compressions" in name:
            assert parameter.grad is None  # the text's loss does not reach back past a segment
        else:
            torch.testing.assert_close(parameter.grad, gradients[name])


@pytest.mark.parametrize("heads", [{}, {"n_key_heads": 1}])
def test_the_loss_is_the_equation_and_moves_the_compression_alone(heads):
    model, rows = make(**heads), torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(2))
    block, x = model.blocks[0], torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3))
    compressed = model.compressions[0](rows)

    def look(memory):
        norm, a = block.attention_residual.norm, block.attention
        queries = a.to_queries(norm(x)).view(2, 5, 2, 4)
        keys, values = (to(norm(memory)).view(2, memory.shape[1], -1, 4) for to in (a.to_keys, a.to_values))
        keys, values = (part.repeat_interleave(2 // part.shape[2], 2) for part in (keys, values))
        weights = (torch.einsum("bqhe,bkhe->bhqk", queries, keys) / 2).softmax(-1)
        return torch.einsum("bhqk,bkhe->bhqe", weights, values)

    loss = reconstruction_loss(block, x, rows, compressed)
    expected = F.mse_loss(look(compressed), look(rows))
    torch.testing.assert_close(loss, expected)
    weights = list(model.compressions[0].parameters())
    for ours, theirs in zip(
        torch.autograd.grad(loss, weights, retain_graph=True),
        torch.autograd.grad(expected, weights, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    loss.backward()
    assert [name for name, p in model.named_parameters() if p.grad is not None] == [
        "compressions.0.product.weight",
        "compressions.0.product.bias",
    ]


@pytest.mark.slow  # a whole training
def test_training_adds_the_loss_to_that_of_the_text_and_lowers_it():
    model, tokens = LanguageModel(make().train()), texts(2, 15)
    layout = Ragged([5, 5])
    _, state = read_in_segments(model.reader, tokens[:, :10], [5, 5])
    batch = tokens[:, 10:].flatten(), tokens[:, 10:].flatten(), layout, state
    added = []
    optimizer = torch.optim.Adam(model.reader.compressions.parameters(), 0.01)
    for _ in range(60):
        difference = model.carried_loss(*batch, 0.0)[0] - model.carried_nats(*batch)[0]
        added.append(difference.item())
        optimizer.zero_grad()
        difference.backward()
        optimizer.step()
    assert 0 < added[-1] < 0.5 * added[0]
    model.reader.config = replace(model.reader.config, reconstruction=0.0)
    assert torch.equal(model.carried_loss(*batch, 0.0)[0], model.carried_nats(*batch)[0])


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("position", ["rotary", "alibi", "buckets", "none"])
def test_steps_are_segments_of_the_longest_length(position):
    """Far past max_length, from a cache that does not grow."""
    model, tokens = make(position=position), texts(2, 31)
    whole, _ = read_in_segments(model, tokens, 5)
    for sizes in ([31], [1] * 31, [7, 3, 11, 10]):
        stepped, state = step_through(model, tokens, sizes)
        torch.testing.assert_close(stepped, whole, atol=1e-5, rtol=1e-5)
        assert state.content.shape[3] == 3 + 4 + 1 + 5 and state.lengths.tolist() == [31, 31]


@pytest.mark.slow  # long texts, token by token
def test_texts_of_several_lengths_are_written_as_each_alone():
    model = LanguageModel(make())
    prompts = [[1, 2, 3], [4] * 23, [5, 6], [7] * 12]
    config = DecodingConfig(beam=1, n_best=1, length_ratio=0.0, extra_length=40, min_length=40)
    together = [best.tokens for (best,) in generate(model, prompts, config, 1, 2)]
    alone = [generate(model, [prompt], config, 1, 2)[0][0].tokens for prompt in prompts]
    assert together == alone and all(len(tokens) == 40 for tokens in together)
    beams = generate(model, prompts, DecodingConfig(beam=3, n_best=2, extra_length=30, length_ratio=0.0), 1, 2)
    assert all(len(group) == 2 for group in beams)


def test_texts_that_are_read_whole_are_read_as_they_are_written():
    model, tokens = make(), texts(1, 31)[0]
    lengths = [3, 23, 5]
    whole = model(tokens, Ragged(lengths)).split(lengths)
    for text, rows in zip(tokens.split(lengths), whole, strict=True):
        torch.testing.assert_close(rows, step_through(model, text[None], len(text))[0][0], atol=1e-5, rtol=1e-5)


def test_a_glance_says_of_which_tokens_rows_are():
    """Of 18 tokens in segments of 5: 3 of the last one look at 3 compressed rows, 4 or 5 of the memory, themselves."""
    model, tokens = make(), texts(1, 18)
    glance = model.glance(tokens[0])
    with watch(model) as seen:
        rows, *_ = glance.read()
    torch.testing.assert_close(rows, step_through(model, tokens, 18)[0][0, 15:], atol=1e-5, rtol=1e-5)
    assert glance.begin == 15 and seen.of("self", 0).weights.shape[2:] == (3, len(glance.made_of))
    assert [end - begin for begin, end in glance.made_of[:3]] == [2, 2, 2]
    spans = glance.made_of
    assert all(left[1] == right[0] for left, right in pairwise(spans)) and spans[-1] == (17, 18)
    short = model.glance(tokens[0, :4])
    assert short.begin == 0 and short.made_of == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_gradients_reach_back_one_segment_and_further_is_refused():
    """Rows of earlier segments are kept without gradients; longer texts once ended with a shape that did not fit."""
    model, tokens = make(), texts(1, 6)[0]

    def loss(last):
        return last.square().sum(-1)

    assert (gradient_reach(model, tokens[:5], Ragged([5]), loss) > 0).all()
    with pytest.raises(RegardError, match="at most 5 tokens, those of one segment, and 6 were asked for"):
        gradient_reach(model, tokens, Ragged([6]), loss)


def test_room_is_counted_as_it_is_taken():
    """A cache of compressed rows is taken whole, one of a window as texts need it."""
    compressive = CompressiveConfig(**SMALL | {"memory": 10**6, "vocab_size": 11})
    endless = TransformerXLConfig(**SMALL | {"memory": 10**6, "vocab_size": 11})
    assert compressive.allocated_at_once and not endless.allocated_at_once
    with pytest.raises(RegardError, match="a search of 10,000 rows of up to 5 tokens"):
        LanguageModel(CompressiveTransformer(compressive)).check_room(10_000, 5)
    LanguageModel(TransformerXL(endless)).check_room(10_000, 5)


def test_what_is_compressed_is_seen_by_who_watches():
    model, tokens = make(), texts(1, 15)
    _, state = read_in_segments(model, tokens[:, :10], [5, 5])
    with watch(model) as seen:
        model.carry(tokens[0, 10:], Ragged([5]), state)
    sighting = seen.of("self", 1)
    assert sighting.weights.shape == (1, 2, 5, 3 + 4 + 5) and sighting.error < 1e-6


def test_a_state_is_restored_from_its_tensors():
    model, tokens = make(), texts(2, 15)
    _, state = read_in_segments(model, tokens[:, :10], [5, 5])
    again = model.state_of(state.tensors())
    rows = [model.carry(tokens[:, 10:].flatten(), Ragged([5, 5]), each)[0] for each in (state, again)]
    assert torch.equal(*rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention_window": 4}, "further away than any window reaches"),
        ({"score": "additive"}, "compared by score"),
        ({"compression": "median"}, "compression"),
        ({"compressed_memory": 0}, "compressed_memory must be at least 1"),
        ({"reconstruction": -1.0}, "must not be negative"),
    ],
)
def test_what_cannot_be_compressed_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)
