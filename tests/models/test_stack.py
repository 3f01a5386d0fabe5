"""A stack of Transformer blocks: who sees whom, steps against the whole, and PyTorch's encoder as oracle."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.errors import ConfigError, RegardError
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.nn.attention import BIASES
from regard.nn.blocks import FEED_FORWARDS
from regard.nn.layout import Ragged, Rectangle
from regard.nn.positions import POSITIONS
from regard.nn.scores import SCORES
from regard.nn.sight import Once
from regard.tasks import embedding
from regard.tasks.embedding import embed_texts
from regard.text import Tokenizer, TokenizerConfig
from regard.viewer.looking import Focus, look_at_long_text

LENGTHS = [4, 1, 6]
KINDS = [{"score": score} for score in SCORES] + [{"position": position} for position in POSITIONS]
KINDS += [{"feed_forward": name} for name in FEED_FORWARDS] + [{"bias": bias} for bias in BIASES]
KINDS += [
    {"n_heads": 4, "n_key_heads": 2, "position": "rotary"},  # grouped
    {"n_heads": 3, "n_key_heads": 1, "d_head": 6, "norm_heads": True, "position": "rotary"},
    {"scale_embedding": False, "embedding_norm": True, "pre_norm": False, "d_embedding": 6},
    {"attention_window": 5, "global_rows": 1},
    {"reversible": True, "position": "rotary"},
    {"hash_rounds": 2, "hash_chunk": 16, "position": "rotary"},
]


def make(**settings):
    torch.manual_seed(0)
    small = {"vocab_size": 11, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 16}
    return Stack(StackConfig(**small | settings)).eval()


def tokens_of(lengths):
    return torch.randint(0, 11, (sum(lengths),), generator=torch.Generator().manual_seed(1)), Ragged(lengths)


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_token_sees_its_past_and_not_causal_its_future(kind, causal):
    model = make(causal=causal, **kind)
    tokens, layout = tokens_of(LENGTHS)
    changed = tokens.clone()
    changed[8] = (changed[8] + 1) % 11  # fourth of the last sequence
    moved = (model(tokens, layout) - model(changed, layout)).abs().amax(1) > 1e-7
    past = [not causal] * 3  # of the same sequence
    assert moved.tolist() == [False] * 5 + past + [True] * 3


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_sequence_alone_is_as_in_the_batch(kind, causal):
    model = make(causal=causal, **kind)
    tokens, layout = tokens_of(LENGTHS)
    whole = model(tokens, layout)
    assert whole.shape == (11, model.d_out) and model.d_out == 8
    close(torch.cat([model(part, Ragged([len(part)])) for part in tokens.split(LENGTHS)]), whole)
    padded = model(layout.pad(tokens), Rectangle(layout.lengths, layout.longest))
    close(layout.flatten(padded), whole)


ENDLESS = [
    {"attention_window": 5},
    {"attention_window": 5, "global_rows": 2},
    {"attention_window": 20, "global_rows": 2, "position": "buckets"},
    {"attention_window": 5, "position": "alibi"},
    {"attention_window": 5, "reversible": True},
]


@pytest.mark.parametrize("kind", ENDLESS, ids=str)
def test_windows_go_on_past_max_length_with_a_cache_that_does_not_grow(kind):
    model = make(**{"position": "rotary", **kind})
    tokens, layout = tokens_of([90, 90])
    with torch.no_grad():
        expected = layout.pad(model(tokens, layout))
        for sizes in ([90], [31, 40] + [1] * 19):
            state = model.start(2, 500)
            parts = layout.pad(tokens).split(sizes, 1)
            close(torch.cat([model.step(part, state) for part in parts], 1), expected)
            assert state.content.shape[3] == model.config.most_kept <= 42 and state.lengths.tolist() == [90, 90]


def test_hashing_goes_on_past_max_length_with_a_cache_that_does_not_grow():
    """A row finds those of its bucket among the last max_length; before, nothing is dropped."""
    model, whole = (make(position="rotary", hash_rounds=2, hash_chunk=4, n_layers=1) for _ in range(2))
    whole.config = replace(whole.config, attention_window=16)
    tokens, _ = tokens_of([70])
    states, rows = (model.start(1, 500), model.start(1, 500)), []
    with torch.no_grad():
        for state, sizes in zip(states, ([1] * 70, [13, 50, 7]), strict=True):
            rows.append(torch.cat([model.step(part, state) for part in tokens[None].split(sizes, 1)], 1))
            assert state.content.shape[3] == 32
        close(rows[0], rows[1])
        everything = whole.start(1, 500)
        everything.content, everything.n_kept = everything.content.new_zeros(2, 1, 1, 80, 2, 4), 80
        kept = torch.cat([whole.read_on(token[None, None], everything) for token in tokens], 1)
    close(rows[0], kept)  # what a cache with room for all gives, under the same rule


def test_what_counts_places_ends_at_max_length():
    for kind in ({"position": "learned"}, {"position": "alibi", "global_rows": 1}, {"n_segments": 2}):
        model = make(**{"attention_window": 5, "position": "rotary", **kind})
        with pytest.raises(RegardError, match="17 tokens do not fit the model's 16"):
            model.start(1, 17)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_steps_give_the_rows_of_the_whole(kind):
    model = make(**kind)
    tokens, layout = tokens_of([6, 6])
    with torch.no_grad():
        expected = layout.pad(model(tokens, layout))
        for sizes in ([1] * 6, [2, 4], [6]):
            state = model.start(2, room=6)
            steps = [model.step(part, state) for part in layout.pad(tokens).split(sizes, dim=1)]
            close(torch.cat(steps, dim=1), expected)
            assert state.n_rows == 2 and state.lengths.tolist() == [6, 6]


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_select_truncate_and_join_keep_every_row_its_own(kind):
    model = make(**kind)
    with torch.no_grad():
        state, other = model.start(2, room=8), model.start(1, room=4)
        model.step(torch.tensor([[1, 2, 3], [4, 5, 6]]), state)
        model.step(torch.tensor([[7, 8]]), other)
        state.join(other)
        state.select(torch.tensor([2, 0, 0]))
        state.reorder(torch.tensor([1, 0, 2]))
        if not model.can_forget:  # of a text that goes on and on the oldest rows are gone
            with pytest.raises(RegardError, match="cannot take tokens back"):
                state.truncate(torch.tensor([3, 2, 1]))
            return
        state.truncate(torch.tensor([3, 2, 1]))
        assert state.lengths.tolist() == [3, 2, 1]
        got = model.step(torch.tensor([[9, 1], [9, 2], [9, 3]]), state)
        for row, past in zip(got, ([1, 2, 3, 9, 1], [7, 8, 9, 2], [1, 9, 3]), strict=True):
            close(row, model(torch.tensor(past), Ragged([len(past)]))[-2:])


def test_what_sees_the_future_cannot_write():
    both = make(causal=False)
    with pytest.raises(RegardError, match="looks at the future, so it cannot write"):
        both.start(1, room=4)
    with pytest.raises(ConfigError, match="must not see the future"):
        LanguageModel(both)
    with pytest.raises(RegardError, match="17 tokens do not fit the model's 16"):
        make().start(1, room=17)


@pytest.mark.parametrize("causal", [True, False])
def test_with_the_same_weights_it_is_pytorchs_encoder(causal):
    """Pre-norm and GELU: outputs, and the gradients of every weight of the blocks."""
    model = make(causal=causal, n_layers=3)
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True)
    oracle = nn.TransformerEncoder(layer, 3, nn.LayerNorm(8), enable_nested_tensor=False)
    pairs = list(copied(model, oracle))
    tokens, layout = tokens_of([5, 5])
    x = model.embed(tokens, layout).detach()
    mask = nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    expected = oracle(x.view(2, 5, 8), mask=mask)
    found = model(tokens, layout).view(2, 5, 8)
    close(found, expected)
    torch.manual_seed(3)
    wanted = torch.randn(2, 5, 8)
    for rows in (found, expected):
        ((rows - wanted) ** 2).sum().backward()
    for ours, theirs, part in pairs:
        assert ours.grad is not None and ours.grad.shape == theirs.grad[part].shape
        torch.testing.assert_close(ours.grad, theirs.grad[part], atol=1e-4, rtol=1e-4)
    assert sum(ours.grad.abs().max() > 1e-3 for ours, _, _ in pairs) > 40  # keys have no use for their bias


def copied(model, oracle):
    """Give the oracle our weights -> (our weight, its weight, which part of it)."""
    for block, theirs in zip(model.blocks, oracle.layers, strict=True):
        attention, inner = block.attention, theirs.self_attn
        maps = [attention.to_queries, attention.to_keys, attention.to_values]
        linears = [m for m in block.feed_forward.modules() if isinstance(m, nn.Linear)]
        norms = [m for m in block.modules() if isinstance(m, nn.LayerNorm)]
        rows = [
            *((ours, inner.in_proj_weight, inner.in_proj_bias, slice(8 * k, 8 * k + 8)) for k, ours in enumerate(maps)),
            (attention.to_output, inner.out_proj.weight, inner.out_proj.bias, slice(None)),
            (linears[0], theirs.linear1.weight, theirs.linear1.bias, slice(None)),
            (linears[1], theirs.linear2.weight, theirs.linear2.bias, slice(None)),
            (norms[0], theirs.norm1.weight, theirs.norm1.bias, slice(None)),
            (norms[1], theirs.norm2.weight, theirs.norm2.bias, slice(None)),
        ]
        for ours, weight, bias, part in rows:
            with torch.no_grad():
                nn.init.normal_(ours.bias, std=0.5)
                weight[part], bias[part] = ours.weight, ours.bias
            yield from ((ours.weight, weight, part), (ours.bias, bias, part))


def test_heads_that_share_keys_are_heads_with_equal_keys():
    grouped, whole = make(n_heads=4, n_key_heads=2), make(n_heads=4)
    state = grouped.state_dict()
    for name in state:
        if "to_keys" in name or "to_values" in name:  # of 2 heads of 2 channels, each twice
            state[name] = state[name].unflatten(0, (2, 2)).repeat_interleave(2, 0).flatten(0, 1)
    whole.load_state_dict(state)
    close(grouped(*tokens_of(LENGTHS)), whole(*tokens_of(LENGTHS)))
    assert grouped.start(1, 5).content.shape == (2, 2, 1, 5, 2, 2)


def test_a_segment_ends_with_its_separator():
    model = make(causal=False, n_segments=2, separator=3)
    tokens = torch.tensor([5, 3, 6, 3, 7, 3, 3, 5, 5])
    assert model.segments(tokens, Ragged([6, 3])).tolist() == [0, 0, 1, 1, 1, 1, 0, 1, 1]
    plain = model(tokens, Ragged([6, 3]))
    with torch.no_grad():
        model.segment.weight[1] += torch.arange(8)
    assert not torch.allclose(model(tokens, Ragged([6, 3]))[:2], plain[:2])  # which look at the second segment


def test_what_begins_small_adds_less_the_deeper_the_stack():
    blocks = make(scale_embedding=False, d_model=64, d_ff=256, n_layers=8).blocks
    inner, outer = blocks[0].feed_forward.expand.weight, blocks[0].feed_forward.contract.weight
    assert inner.std().item() == pytest.approx(0.02, rel=0.1)
    assert outer.std().item() == pytest.approx(0.02 / 4, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_heads": 4, "n_key_heads": 3}, "n_heads .4. must be a multiple of n_key_heads .3."),
        ({"bias": "some"}, "bias must be one of all, inputs, outputs, none, got 'some'"),
        ({"d_head": -1}, "d_head must not be negative, got -1"),
        ({"d_head": 3, "position": "rotary"}, "rotary positions turn pairs"),
        ({"norm_eps": 0.0}, "norm_eps must be above 0"),
        ({"n_buckets": 2}, "n_buckets must be at least 4"),
        ({"n_segments": -1}, "n_segments must not be negative"),
    ],
)
def test_settings_that_cannot_be_say_so(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_rows_see_their_window_and_global_rows_see_all():
    """In one layer; layers on top of each other see further."""
    model = make(causal=False, n_layers=1, attention_window=1, global_rows=1)
    tokens, layout = tokens_of([8])
    reached = []
    for i in range(8):
        changed = tokens.clone()
        changed[i] = (changed[i] + 1) % 11
        reached.append(((model(tokens, layout) - model(changed, layout)).abs().amax(1) > 1e-7).tolist())
    assert reached == [[abs(i - j) <= 1 or 0 in (i, j) for j in range(8)] for i in range(8)]


def test_global_rows_without_a_window_are_refused():
    with pytest.raises(ConfigError, match="without attention_window all rows are global"):
        make(global_rows=1)


def test_texts_without_end_are_still_read_in_pieces(monkeypatch):
    """What looks at a text, or makes a vector of it, takes memory that grows with the square of what it reads."""
    model = make(attention_window=4, position="rotary", max_length=20)
    assert model.max_length > 10**5
    lengths, embed = [], embedding.embed
    monkeypatch.setattr(
        embedding, "embed", lambda m, texts, *rest: lengths.extend(map(len, texts)) or embed(m, texts, *rest)
    )
    embed_texts(model, ["a" * 50], lambda text: [5] * len(text), "mean", None)
    assert lengths == [20, 20, 10]
    digits = Tokenizer.train(["0123456789"], TokenizerConfig(kind="characters"))
    model = Stack(replace(model.config, vocab_size=digits.vocab_size))
    seen = look_at_long_text(model, digits, digits.encode, "0123456789" * 5, Focus(part=2))
    assert seen.n_parts == 3 and len(seen.maps[0].queries) == 20


def test_a_position_that_adds_to_scores_has_one_mask_for_all_layers():
    shape = dict(vocab_size=11, d_model=8, n_heads=2, n_layers=1, d_ff=8)
    kept = {name: isinstance(Stack(StackConfig(**shape, position=name)).sight, Once) for name in ("alibi", "rotary")}
    assert kept == {"alibi": True, "rotary": False}
