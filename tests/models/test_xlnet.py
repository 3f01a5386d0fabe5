"""XLNet: equal to transformers' own, and the query stream never sees its own token."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.errors import ConfigError
from regard.models.xlnet import PermutationModel, XLNet, XLNetConfig
from regard.nn import paths
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.scores import SCORES
from regard.nn.sight import everywhere
from regard.nn.watch import watch

transformers = pytest.importorskip("transformers")

VOCABULARY = 11


def small(n_segments: int = 0, vocab_size: int = VOCABULARY, score: str = "scaled_dot") -> XLNet:
    torch.manual_seed(1)
    config = XLNetConfig(
        vocab_size=vocab_size, d_model=12, n_heads=3, n_layers=3, d_ff=20, dropout=0.0, max_length=64,
        n_segments=n_segments, score=score,
    )  # fmt: skip
    model = XLNet(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()


def theirs(model: XLNet) -> Any:
    """The same net as transformers has it, with the weights copied by hand."""
    c = model.config
    config = transformers.XLNetConfig(
        vocab_size=c.vocab_size, d_model=c.d_model, n_layer=c.n_layers, n_head=c.n_heads, d_inner=c.d_ff,
        dropout=0.0, mem_len=None, use_mems_eval=False, layer_norm_eps=c.norm_eps,
    )  # fmt: skip
    other = transformers.XLNetModel(config).eval()

    def heads(weight: Tensor) -> Tensor:
        return weight.T.unflatten(1, (c.n_heads, -1))

    with torch.no_grad():
        other.word_embedding.weight.copy_(model.embedding.weight)
        other.mask_emb.copy_(model.unknown)
        for ours, layer in zip(model.blocks, other.layer, strict=True):
            a, b = ours.attention, layer.rel_attn
            for name, linear in {"q": a.to_queries, "k": a.to_keys, "v": a.to_values, "r": a.to_distances}.items():
                getattr(b, name).copy_(heads(linear.weight))
            b.o.copy_(a.to_output.weight.unflatten(1, (c.n_heads, -1)))
            b.r_w_bias.copy_(a.content_bias)
            b.r_r_bias.copy_(a.distance_bias)
            if c.n_segments:
                b.r_s_bias.copy_(a.segment_bias)
                b.seg_embed.copy_(a.segment_keys)
            b.layer_norm.load_state_dict(ours.attention_residual.norm.state_dict())
            layer.ff.layer_norm.load_state_dict(ours.feed_forward_residual.norm.state_dict())
            layer.ff.layer_1.load_state_dict(ours.feed_forward.expand.state_dict())
            layer.ff.layer_2.load_state_dict(ours.feed_forward.contract.state_dict())
    return other


def padded(tokens: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
    layout = Ragged(lengths)
    return layout.pad(tokens), layout.pad(torch.ones(len(tokens)))


@pytest.mark.slow  # a model of transformers'; its two streams are compared beside it
@pytest.mark.parametrize("n_segments", [0, 3])
def test_a_plain_reading_equals_transformers(n_segments: int) -> None:
    model = small(n_segments)
    lengths = [7, 1, 10]
    tokens = torch.randint(0, VOCABULARY, (sum(lengths),))
    tokens[[2, 5, 9, 12]] = 2  # separators
    layout = Ragged(lengths)
    ids, mask = padded(tokens, lengths)
    segments = layout.pad(model.segments(tokens, layout)) if n_segments else None
    with torch.no_grad():
        expected = theirs(model)(ids, attention_mask=mask, token_type_ids=segments).last_hidden_state
        assert torch.allclose(model(tokens, layout), layout.flatten(expected), atol=1e-5)


@pytest.mark.parametrize("n_segments", [0, 3])
def test_two_streams_equal_transformers(n_segments: int) -> None:
    """All but the first in each order, which sees nothing: there transformers looks at all keys alike."""
    model = small(n_segments)
    lengths = [6, 6]
    layout = Ragged(lengths)
    tokens = torch.randint(0, VOCABULARY, (12,))
    tokens[3] = 2
    ranks = torch.tensor([[3, 0, 5, 1, 2, 4], [0, 0, 2, 0, 1, 0]])
    may_not = (ranks[:, None, :] >= ranks[:, :, None]) & ~((ranks == 0)[:, None, :] & (ranks == 0)[:, :, None])
    segments = layout.pad(model.segments(tokens, layout)) if n_segments else None
    with torch.no_grad():
        expected = theirs(model)(
            layout.pad(tokens), perm_mask=may_not.float(), target_mapping=torch.eye(6).expand(2, 6, 6),
            token_type_ids=segments,
        ).last_hidden_state  # fmt: skip
        found = layout.pad(foretold(model, tokens, layout, ranks))
    is_target = ranks > 0
    assert torch.allclose(found[is_target], expected[is_target], atol=1e-5)


def foretold(model: XLNet, tokens: Tensor, layout: Ragged, ranks: Tensor) -> Tensor:
    """Of every place."""
    return model.predict_targets(tokens, layout, ranks, torch.arange(len(tokens)), layout)


RANKS = torch.tensor([[4, 2, 0, 1, 3], [0, 1, 2, 3, 4], [0, 0, 2, 1, 0]])


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("score", SCORES)
def test_no_query_sees_its_own_token_or_a_later_one(score: str) -> None:
    """By substitution: another token at place j changes the queries of later turns, all of them, and no others."""
    model, layout = small(score=score), Ragged([5, 5, 5])
    tokens = torch.randint(0, VOCABULARY - 1, (15,))
    before = foretold(model, tokens, layout, RANKS).unflatten(0, (3, 5))
    for j in range(5):
        other = tokens.clone().unflatten(0, (3, 5))
        other[:, j] += 1
        changed = (foretold(model, other.flatten(), layout, RANKS).unflatten(0, (3, 5)) - before).abs().amax(-1) > 1e-7
        assert torch.equal(changed, RANKS[:, j, None] < RANKS)


def test_no_gradient_reaches_a_query_from_its_own_token() -> None:
    model, layout = small(), Ragged([5])
    seen: list[Tensor] = []

    def keep(module: Any, inputs: Any, rows: Tensor) -> None:
        rows.retain_grad()
        seen.append(rows)

    model.embedding.register_forward_hook(keep)
    for ranks in RANKS[:, None]:
        for i in range(5):
            foretold(model, torch.arange(5), layout, ranks)[i].square().sum().backward()
            gradient = seen.pop().grad
            reached = torch.zeros(5, dtype=torch.bool) if gradient is None else gradient.abs().sum(-1) > 0
            assert torch.equal(reached, ranks[0] < ranks[0, i])


def test_every_order_is_a_distribution_over_texts() -> None:
    """The chain rule holds in each order: the probabilities of all texts of three tokens sum to one."""
    model = PermutationModel(small(vocab_size=4)).eval()
    texts = torch.tensor(list(itertools.product(range(4), repeat=3)))
    layout = Ragged([3] * len(texts))
    sums, firsts = [], []
    with torch.no_grad():
        for turns in itertools.permutations(range(3)):
            ranks = torch.tensor(turns).expand(len(texts), 3)
            rows = model(texts.flatten(), layout, ranks, torch.arange(texts.numel()), layout)
            rows = logits(rows, model.output_table, model.output_bias).log_softmax(-1)
            of_text = rows.gather(-1, texts.flatten()[:, None]).unflatten(0, texts.shape)[..., 0].sum(1)
            sums.append(of_text.exp().sum())
            firsts.append(of_text[5])
    assert torch.allclose(torch.stack(sums), torch.ones(6), atol=1e-5)
    assert max(firsts) - min(firsts) > 1e-3  # but the orders disagree about a text


def test_a_text_alone_equals_itself_in_a_batch() -> None:
    model = small(n_segments=2)
    tokens, lengths = torch.randint(0, VOCABULARY, (12,)), [5, 3, 4]
    together = model(tokens, Ragged(lengths)).split(lengths)
    for text, rows in zip(tokens.split(lengths), together, strict=True):
        assert torch.allclose(model(text, Ragged([len(text)])), rows, atol=1e-5)


def test_only_distances_count() -> None:
    """Scores are the same wherever a text begins: the last rows of a longer text see the same weights shifted."""
    model, n = small(), 6
    places = model.places(torch.arange(20), torch.zeros(20, dtype=torch.long))
    attention, x = model.blocks[0].attention, torch.randn(n, 12)
    found = []
    for start in (0, 9):
        here = places[start : start + n]
        keys = attention.remember(x, Ragged([n]), here).keys
        found.append(torch.einsum("qhe,khe->hqk", attention.queries(x, here), keys))
    assert torch.allclose(found[0], found[1], atol=1e-4)
    assert not torch.allclose(found[0], torch.einsum("qhe,khe->hqk", attention.queries(x, places[9:15]), keys.flip(0)))


@pytest.mark.parametrize("score", SCORES)
def test_a_score_of_contents_and_one_of_places_are_added(score: str) -> None:
    """The equation, place by place; and the fast path gives what it gives."""
    model, n = small(n_segments=2, score=score), 5
    attention, layout, x = model.blocks[0].attention, Ragged([n]), torch.randn(5, 12)
    places = model.places(torch.arange(n), torch.tensor([0, 0, 0, 1, 1]))
    memory, queries = attention.remember(x, layout, places), attention.queries(x, places)
    weights = attention.attend.weights(queries, layout, memory, everywhere)[0]
    contents = SCORES[score](4, 64)
    contents.load_state_dict(attention.score.contents.state_dict())
    q, k = (attention.split_heads(part(x)).transpose(0, 1) for part in (attention.to_queries, attention.to_keys))
    expected = contents((q + attention.content_bias[:, None])[None], k[None])[0]
    r = attention.to_distances.weight.unflatten(0, (3, 4))
    for i, j in itertools.product(range(n), range(n)):
        angles = (i - j) * 10000.0 ** -(torch.arange(0, 12, 2) / 12)
        distance = r @ torch.cat([angles.sin(), angles.cos()])
        segment = attention.segment_keys[int((i < 3) != (j < 3))]
        of_place = (q[:, i] + attention.distance_bias) * distance + (q[:, i] + attention.segment_bias) * segment
        expected[:, i, j] += of_place.sum(-1) / 2
    torch.testing.assert_close(weights, expected.softmax(-1), atol=1e-5, rtol=1e-4)
    fast = attention.attend(queries, layout, memory, everywhere)
    torch.testing.assert_close(
        fast, attention.attend.readable(queries, layout, memory, everywhere), atol=1e-5, rtol=1e-4
    )


def test_it_can_be_watched() -> None:
    model = small()
    with torch.no_grad(), watch(model) as seen:
        model(torch.arange(5), Ragged([5]))
    assert len(seen.sightings) == 3 and all(s.error < 1e-5 for s in seen.sightings)
    assert torch.allclose(seen.of("self", 2).weights.sum(-1), torch.ones(1, 3, 5))


def test_it_costs_what_pytorch_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "FAST_PATHS", {})  # not every fused kernel is counted
    reader, n = small().requires_grad_(False), 6
    tokens, layout = torch.arange(n), Ragged([n])
    with FlopCounterMode(display=False) as plain, torch.no_grad():
        reader(tokens, layout)
    assert reader.cost(n).forward == plain.get_total_flops() / n


def test_a_query_is_the_same_whoever_else_asks() -> None:
    model, lengths = small(), [5, 4, 6]
    layout, n = Ragged(lengths), sum(lengths)
    tokens = torch.randint(0, VOCABULARY, (n,))
    ranks = layout.pad(torch.rand(n).argsort())
    targets, asked = torch.tensor([1, 4, 6, 9, 12, 13, 14]), Ragged([2, 1, 4])
    expected = foretold(model, tokens, layout, ranks).index_select(0, targets)
    assert torch.allclose(model.predict_targets(tokens, layout, ranks, targets, asked), expected, atol=1e-5)
    nobody = Ragged([2, 0, 4])  # of the second text nothing is asked
    rest = targets[targets != 6]
    found = model.predict_targets(tokens, layout, ranks, rest, nobody)
    assert torch.allclose(found, expected[targets != 6], atol=1e-5)


def test_odd_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match="even"):
        XLNetConfig(vocab_size=9, d_model=9, n_heads=3)
