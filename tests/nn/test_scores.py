"""Every score of the table: its equation, and what must hold whatever the score is."""

import math

import pytest
import torch

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.errors import RegardError
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.attention import Attend, Heads, Memory, MultiHeadAttention
from regard.nn.layout import Ragged, Rectangle
from regard.nn.positions import Position, Space
from regard.nn.scores import SCORES
from regard.nn.sight import causal, everywhere, global_tokens, order, prefix, visible, window
from regard.nn.watch import watch

B, H, Q, K, E = 2, 3, 4, 6, 8
SMALL = {"vocab_size": 11, "d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "dropout": 0.0, "max_length": 12}
SOURCES, TARGETS = [3, 1, 6], [4, 2, 1]
BEGIN = 1  # every target begins with it


def close(one, other, tolerance=1e-5):
    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance)


def shaken(score):
    """Parameters away from where they begin, so that none of them can be left out unnoticed."""
    torch.manual_seed(3)
    for parameter in score.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return score


def make(score):
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SMALL, score=score)).eval()


def batch():
    torch.manual_seed(1)
    tokens = torch.randint(0, 11, (sum(SOURCES),)), torch.randint(0, 11, (sum(TARGETS),))
    layout = Ragged(TARGETS)
    tokens[1][layout.offsets[:-1].long()] = BEGIN
    return tokens[0], Ragged(SOURCES), tokens[1], layout


# Each equation for one query, one key and the key's place, in plain sums.


def dot(q, k):
    return sum(a * b for a, b in zip(q, k, strict=True))


def times(matrix, vector):
    return [dot(row, vector) for row in matrix.tolist()]


def additive(score, q, k, place):
    sums = [
        a + b for a, b in zip(times(score.query_to_hidden.weight, q), times(score.key_to_hidden.weight, k), strict=True)
    ]
    return dot(score.hidden_to_score.tolist(), [math.tanh(x) for x in sums])


EQUATIONS = {
    "cosine": lambda s, q, k, place: math.exp(s.log_sharpness.item()) * dot(q, k) / math.sqrt(dot(q, q) * dot(k, k)),
    "additive": additive,
    "location": lambda s, q, k, place: times(s.rows, q)[place],
    "general": lambda s, q, k, place: dot(q, times(s.weight, k)),
    "dot": lambda s, q, k, place: dot(q, k),
    "scaled_dot": lambda s, q, k, place: dot(q, k) / math.sqrt(E),
}


@pytest.mark.parametrize("name", SCORES)
def test_the_score_is_its_equation(name):
    score = shaken(SCORES[name](E, K)).double()
    queries, keys = torch.randn(B, H, Q, E).double(), torch.randn(B, H, K, E).double()
    expected = [
        [EQUATIONS[name](score, q, k, j) for j, k in enumerate(head_keys)]
        for head_queries, head_keys in zip(queries.flatten(0, 1).tolist(), keys.flatten(0, 1).tolist(), strict=True)
        for q in head_queries
    ]
    close(score(queries, keys), torch.tensor(expected).double().view(B, H, Q, K), 1e-6)


def test_where_the_scores_begin():
    torch.manual_seed(0)
    queries, keys = torch.randn(B, H, Q, E), torch.randn(B, H, K, E)
    scaled = SCORES["scaled_dot"](E, K)(queries, keys)
    close(SCORES["general"](E, K)(queries, keys), scaled)
    sized = [x / x.norm(dim=-1, keepdim=True) * math.sqrt(E) for x in (queries, keys)]  # numbers of size one
    close(SCORES["cosine"](E, K)(*sized), SCORES["scaled_dot"](E, K)(*sized))


def test_what_a_score_does_not_read():
    torch.manual_seed(0)
    queries, keys = torch.randn(B, H, Q, E), torch.randn(B, H, K, E)
    location, cosine = SCORES["location"](E, K), SCORES["cosine"](E, K)
    close(location(queries, keys), location(queries, torch.randn(B, H, K, E)))
    close(cosine(queries * 3, keys * torch.rand(K, 1).add(0.1)), cosine(queries, keys))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", SCORES)
def test_vectors_of_zeros_have_a_score_and_a_gradient(name, dtype):
    score = SCORES[name](E, K).to(dtype)
    inputs = [torch.zeros(B, H, n, E, dtype=dtype, requires_grad=True) for n in (Q, K)]
    out = score(*inputs)
    out.sum().backward()
    assert (out == 0).all()
    assert all(x.grad is None or x.grad.isfinite().all() for x in (*inputs, *score.parameters()))


def rules():
    ranks = torch.stack([torch.randperm(max(SOURCES)) for _ in SOURCES])
    return [
        everywhere, causal, window(2), causal & window(1) | global_tokens(1),
        causal | prefix(torch.tensor([2, 1, 4])), order(ranks), order(ranks, itself=False),
    ]  # fmt: skip


@pytest.mark.parametrize("name", SCORES)
def test_weights_sum_to_one_over_what_the_rule_shows(name):
    torch.manual_seed(0)
    attend = Attend(SCORES[name](E, max(SOURCES)), Position(Space(H * E, H, max(SOURCES))))
    layout = Ragged(SOURCES)
    queries, keys, values = torch.randn(3, sum(SOURCES), H, E)
    keys = attend.score.of_keys(keys, layout.positions[:, None])
    for rule in rules():
        weights = attend.weights(attend.score.of_queries(queries), layout, Memory(keys, values, layout), rule)
        mask = visible(rule, layout, layout).expand(len(SOURCES), layout.longest, -1)[:, None]
        assert (weights[~mask.expand_as(weights)] == 0).all() and (weights >= 0).all()
        close(weights.sum(-1), mask.any(-1).float().expand(-1, H, -1))


@pytest.mark.parametrize("name", SCORES)
def test_ragged_rows_give_what_a_padded_rectangle_gives(name):
    torch.manual_seed(0)
    attention = MultiHeadAttention(Heads(H * E, H), name, Position(Space(H * E, H, max(SOURCES))))
    ragged, rectangle = Ragged(SOURCES), Rectangle(torch.tensor(SOURCES), max(SOURCES))
    x = torch.randn(sum(SOURCES), H * E)
    out = attention(x, ragged, attention.remember(x, ragged), causal)
    padded = ragged.pad(x) + 7.0 * (ragged.pad(torch.ones(len(x), 1)) == 0)  # what padding holds does not matter
    close(ragged.flatten(attention(padded, rectangle, attention.remember(padded, rectangle), causal)), out)


@pytest.mark.parametrize("name", SCORES)
def test_watching_shows_the_weights_that_made_the_output(name):
    model = make(name)
    inputs = batch()
    with watch(model) as seen:
        model(*inputs)
    assert {s.kind for s in seen.sightings} == {"encoder", "decoder", "cross"}
    for sighting in seen.sightings:
        layout = inputs[1] if sighting.kind == "encoder" else inputs[3]
        rows = layout.flatten(sighting.weights.transpose(1, 2))
        close(rows.sum(-1), torch.ones(rows.shape[:2]))
        assert sighting.error < 1e-5
        if sighting.kind == "decoder":
            assert (sighting.weights.triu(1) == 0).all()


@pytest.mark.parametrize("name", SCORES)
def test_gradients_reach_every_parameter_of_every_attention(name):
    model = make(name)
    hidden = model(*batch())
    hidden.backward(torch.randn_like(hidden))
    assert all(parameter.grad is not None for parameter in model.parameters())  # no weights that do nothing
    for _, _, attention in model.attentions():
        assert all(parameter.grad.abs().max() > 0 for parameter in attention.attend.score.parameters())


@pytest.mark.parametrize("name", SCORES)
def test_a_score_adds_exactly_its_own_parameters(name):
    d_head, n_attentions = 8, 3 * SMALL["n_layers"]
    own = {"cosine": 1, "additive": 2 * d_head**2 + d_head, "general": d_head**2}
    own["location"] = SMALL["max_length"] * d_head - 16 * 17  # its rows, and no projection to keys

    def count(score):
        return sum(parameter.numel() for parameter in make(score).parameters())

    assert count(name) - count("dot") == n_attentions * own.get(name, 0)


@pytest.mark.parametrize("name", SCORES)
def test_half_precision_by_autocast_learns_about_the_same(name):
    model = make(name)
    inputs = batch()
    exact = model(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(*inputs)
    assert (rough - exact).abs().max() < 0.1
    rough.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.slow  # a compilation
@pytest.mark.parametrize("name", ["additive", "location"])  # the two that say something to the compiler
def test_compiled_attention_gives_the_same(name):
    torch.manual_seed(0)
    attention = MultiHeadAttention(Heads(H * E, H), name, Position(Space(H * E, H, max(SOURCES))))
    layout = Ragged(SOURCES)

    def look(x):
        return attention(x, layout, attention.remember(x, layout), causal)

    with torch.no_grad():
        x = torch.randn(sum(SOURCES), H * E)
        close(torch.compile(look, backend="eager")(x), look(x))


@pytest.mark.sampled("the cases differ in shape alone")
@pytest.mark.parametrize("name", SCORES)
def test_beam_search_finds_the_same_alone_and_in_a_batch(name):
    model = make(name)
    with torch.no_grad():
        model.embedding.weight *= 4  # clear choices
    prompts = [part.tolist() for part in batch()[0].split(SOURCES)]
    config = DecodingConfig(beam=3, n_best=2, max_length=8)
    together = generate(model, prompts, config, 1, 2)
    for prompt, found in zip(prompts, together, strict=True):
        (alone,) = generate(model, [prompt], config, 1, 2)
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        best = found[0]
        ids = torch.tensor([1, *best.tokens])
        with torch.no_grad():
            logits = model.logits(model(torch.tensor(prompt), Ragged([len(prompt)]), ids, Ragged([len(ids)])))
        said = torch.tensor([*best.tokens, 2][: len(best.tokens) + best.finished])
        total = logits.log_softmax(-1)[torch.arange(len(said)), said].sum()
        assert best.log_prob == pytest.approx(float(total), abs=1e-4)  # by a model that has no cache


@pytest.mark.parametrize("name", SCORES)
def test_a_cache_with_more_room_than_the_model_reads(name):
    """As for CUDA graphs: the room is rounded up, also past `max_length`, and its empty part is hidden."""
    model = make(name)
    source, source_layout, target, target_layout = batch()
    with torch.no_grad():
        expected = model.logits(model(source, source_layout, target, target_layout))
        started, first = model.start([s.tolist() for s in source.split(SOURCES)], BEGIN, room=32)
        state = started.pooled(started.n_rows, (32, 32))
        state.put(torch.arange(started.n_rows), started)
        steps = [model.step(token, state) for token in target_layout.pad(target)[:, 1:].split(1, dim=1)]
    close(target_layout.flatten(torch.cat([first[:, None], *steps], dim=1)), expected)


def test_more_keys_than_rows_are_an_error_that_says_what_to_do():
    message = "one row per key, 12; got 13 keys: shorten the input, or train with a larger model.max_length"
    with pytest.raises(RegardError, match=message):
        SCORES["location"](E, 12)(torch.randn(B, H, Q, E), torch.randn(B, H, 13, E))
    model = Transformer(TransformerConfig(**SMALL | {"score": "location", "position": "alibi"})).eval()
    with pytest.raises(RegardError, match=message):
        model.encode(torch.zeros(16, dtype=torch.long), Ragged([3, 13]))
    model.encode(torch.zeros(15, dtype=torch.long), Ragged([3, 12]))
    with torch.no_grad():
        state, _ = model.start([[1, 2]], 0, room=20)
        model.step(torch.zeros(1, 11, dtype=torch.long), state)
        with pytest.raises(RegardError, match=message):
            model.step(torch.zeros(1, 1, dtype=torch.long), state)
