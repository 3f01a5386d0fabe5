"""Two paths, one meaning: every fast path equals the equation, values and gradients, on every combination;
the fast tests have each value of each factor, and the slow ones, five seconds of them, the other combinations."""

import copy
import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from regard.choose import choose
from regard.errors import ConfigError
from regard.nn import paths
from regard.nn.attention import Attend, Heads, Memory, MultiHeadAttention, masked_softmax
from regard.nn.case import Case
from regard.nn.layout import Ragged, Rectangle
from regard.nn.positions import POSITIONS, Position, Space
from regard.nn.rolling import full
from regard.nn.scores import SCORES
from regard.nn.sight import causal, everywhere, global_tokens, order, prefix, visible, window
from tests.drawn import covering_fast

H, E, T = 2, 16, 7
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
IN_ATTENTION = [  # the positions that attention knows of; the others have done their work on the embeddings
    name for name, kind in POSITIONS.items() if kind is Position or kind.has_bias or kind.rotate is not Position.rotate
]
LENGTHS = {"ragged": [3, 1, T, 2], "ones": [1, 1, 1, 1], "full": [T] * 4}


def rules(device):
    ranks = torch.stack([torch.randperm(T, generator=torch.Generator().manual_seed(b)) for b in range(4)]).to(device)
    return {
        "everywhere": everywhere,
        "causal": causal,
        "window": window(2),
        "causal window": causal & window(1),
        "global": causal & window(1) | global_tokens(1),
        "prefix": causal | prefix(torch.tensor([2, 1, 4, 1], device=device)),
        "order": order(ranks),
        "blind": order(ranks, itself=False),  # the first in the order may look at nothing
    }


def same(one, other, tolerance, what=""):
    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance, msg=lambda text: f"{what}: {text}")


def in_float32(attend, handed, learnt, layout, rule, push):
    """The equation's answer and gradients from the same queries, keys and values, in full precision."""
    if handed[0].dtype == torch.float32:
        expected = attend.readable(handed[0], layout, Memory(handed[1], handed[2], layout), rule)
        return expected, torch.autograd.grad(expected, learnt, push, retain_graph=True)
    exact = [x.detach().float().requires_grad_() for x in handed]
    expected = copy.deepcopy(attend).float().readable(exact[0], layout, Memory(exact[1], exact[2], layout), rule)
    return expected, torch.autograd.grad(expected, exact, push)


@pytest.mark.sampled("the cases differ in shape alone")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("score", "position", "dtype"), covering_fast(SCORES, IN_ATTENTION, TOLERANCE))
def test_fast_paths_equal_the_equation_in_values_and_gradients(score, position, dtype, device):
    torch.manual_seed(0)
    where = POSITIONS[position](Space(H * E, H, T)).to(device)
    attend = Attend(SCORES[score](E, T).to(device, dtype), where)
    for (rule_name, rule), (shape, lengths) in itertools.product(rules(device).items(), LENGTHS.items()):
        layout = Ragged(lengths, device)
        size = (sum(lengths), H, E)
        scale = E**-0.25 if score == "dot" else 1.0  # keeps q . k of the plain dot near one
        inputs = [(torch.randn(size, device=device) * scale).to(dtype).requires_grad_() for _ in range(3)]
        queries, keys = (where.rotate(x, layout) for x in inputs[:2])
        queries, keys = attend.score.of_queries(queries), attend.score.of_keys(keys, layout.positions[:, None])
        handed = (queries, keys, inputs[2])
        learnt = list(handed)
        if dtype == torch.float32:  # in half precision the steps before a path round too, and alike for all
            learnt = [inputs[0], inputs[2], *([inputs[1]] if attend.score.reads_keys else [])]
            learnt += attend.score.parameters()
        push = torch.randn(size, device=device)
        expected, wanted = in_float32(attend, handed, learnt, layout, rule, push)
        case = Case(queries, layout, keys, inputs[2], layout, rule, attend.score.scale, where)
        taken = [name for name, (fits, _) in paths.FAST_PATHS.items() if fits(case)]
        if shape != "ones":  # of one key there is nothing to fuse; of more, products are
            assert bool(taken) == (attend.score.scale is not None), f"{rule_name}, {shape}: {taken}"
        for name in taken:
            out = paths.FAST_PATHS[name][1](case)
            what = f"{name}, {rule_name}, {shape}"
            same(out.float(), expected, TOLERANCE[dtype], what)
            gradients = torch.autograd.grad(out, learnt, push.to(dtype), retain_graph=True)
            for got, want in zip(gradients, wanted, strict=True):
                size_of = want.abs().max().clamp(min=1)  # half precision has no digits left for the smaller ones
                same(got.float() / size_of, want / size_of, TOLERANCE[dtype], f"gradient, {what}")
        if rule_name == "blind":
            mask = visible(rule, layout, layout)
            blind = layout.flatten(~mask.any(-1).expand(4, layout.longest))
            assert blind.any() and (expected[blind] == 0).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("rule", [everywhere, causal], ids=["everywhere", "causal"])
def test_cross_attention_of_two_ragged_sides(rule, dtype, device):
    torch.manual_seed(0)
    attend = Attend(SCORES["scaled_dot"](E, T), POSITIONS["none"](Space(H * E, H, T))).to(device)
    sides = Ragged([2, 1, 5], device), Ragged([4, 3, 1], device)
    queries = torch.randn(8, H, E, device=device, dtype=dtype)
    memory = Memory(*torch.randn(2, 8, H, E, device=device, dtype=dtype), sides[1])
    out = attend(queries, sides[0], memory, rule)
    same(out, attend.readable(queries, sides[0], memory, rule), TOLERANCE[dtype])
    case = Case(queries, sides[0], memory.keys, memory.values, sides[1], rule, attend.score.scale, attend.position)
    assert not (paths.fits_varlen(case) and rule is causal)  # it would lay the band from the end of the keys


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n_before", [0, 3, 40])
@pytest.mark.parametrize("rule", [causal, causal & window(5)], ids=["causal", "window"])
def test_rows_after_a_memory_equal_the_equation(rule, n_before, dtype, device):
    """Values and gradients of queries that are the last rows of the keys."""
    torch.manual_seed(0)
    n, length = 2, 20
    attend = Attend(SCORES["scaled_dot"](E, 64), POSITIONS["none"](Space(H * E, H, 64))).to(device)
    inputs = [
        torch.randn(n, rows, H, E, device=device).to(dtype).requires_grad_()
        for rows in (length, n_before + length, n_before + length)
    ]
    queries, keys = full(n, length, inputs[0], start=n_before), full(n, n_before + length, inputs[0])
    case = Case(inputs[0], queries, *inputs[1:], keys, rule, attend.score.scale, attend.position)
    name = next(name for name, (fits, _) in paths.FAST_PATHS.items() if fits(case))
    assert name == ("last" if device == "cuda" and dtype != torch.float32 else "padded")
    out = attend(inputs[0], queries, Memory(*inputs[1:], keys), rule)
    exact = [x.detach().float().requires_grad_() for x in inputs]
    expected = attend.readable(exact[0], queries, Memory(*exact[1:], keys), rule)
    push = torch.randn_like(expected)
    same(out.float(), expected, TOLERANCE[dtype])
    wanted = torch.autograd.grad(expected, exact, push)
    for got, want in zip(torch.autograd.grad(out, inputs, push.to(dtype)), wanted, strict=True):
        same(got.float(), want, TOLERANCE[dtype])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="flex attention runs on CUDA")
@pytest.mark.parametrize("position", ["none", "alibi"])
def test_flex_equals_the_equation_on_long_sequences(position):
    torch.manual_seed(0)
    lengths = [4500, 40, 1100]
    layout = Ragged(lengths, "cuda")
    where = POSITIONS[position](Space(H * E, H, 5000)).cuda()
    attend = Attend(SCORES["scaled_dot"](E, 5000), where).cuda()
    size = (sum(lengths), H, E)
    inputs = [torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    push = torch.randn_like(inputs[0])
    for rule in (causal & window(64) | global_tokens(2), causal | prefix(torch.tensor([70, 2, 9], device="cuda"))):
        expected = attend.readable(inputs[0], layout, Memory(inputs[1], inputs[2], layout), rule)
        case = Case(inputs[0], layout, inputs[1], inputs[2], layout, rule, attend.score.scale, where)
        assert paths.fits_flex(case)
        out = paths.run_flex(case)
        same(out, expected, TOLERANCE[torch.bfloat16])
        grads = [torch.autograd.grad(x, inputs, push, retain_graph=True) for x in (out, expected)]
        for got, want in zip(*grads, strict=True):
            same(got, want, TOLERANCE[torch.bfloat16])


def test_the_equation_matches_pytorch():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 5, 3, 8) for _ in range(3))
    layout = Rectangle(torch.tensor([5, 5]), 5, is_full=True)
    attend = Attend(SCORES["scaled_dot"](8, 5), POSITIONS["none"](Space(24, 3, 5)))
    ours = attend.readable(q, layout, Memory(k, v, layout), causal)
    theirs = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
    same(ours, theirs.transpose(1, 2), 1e-6)


def test_the_worked_example_of_the_documents():
    """Keys e1, e2, e1; y = [1, -1, 0]; d = 4 -> q = [-1, 1, 0, 1], scores [-1, 1, -1], z = [.4239, .5761]."""
    inputs = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]])
    to_values = torch.tensor([[1.0, 0, 0, 0], [0, 1, 1, 0]])
    to_queries = torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, -1]])
    query = to_queries @ torch.tensor([1.0, -1, 0])
    assert query.tolist() == [-1, 1, 0, 1]
    assert SCORES["dot"](4, 3)(query[None], inputs).tolist() == [[-1, 1, -1]]
    attend = Attend(SCORES["scaled_dot"](4, 3), POSITIONS["none"](Space(4, 1, 3)))
    one, three = Ragged([1]), Ragged([3])
    values = inputs @ to_values.T
    weights = attend.weights(query[None, None], one, Memory(inputs[:, None], values[:, None], three), everywhere)
    expected = torch.tensor([2 * math.exp(-0.5), math.exp(0.5)]) / (2 * math.exp(-0.5) + math.exp(0.5))
    same(weights[0, 0] @ values, expected[None], 1e-6)
    same(expected, torch.tensor([0.4239, 0.5761]), 1e-4)


def test_a_row_with_no_visible_key_is_zero_and_has_a_gradient():
    scores = torch.randn(1, 4, requires_grad=True)
    weights = masked_softmax(scores, torch.zeros(1, 4, dtype=torch.bool))
    weights.sum().backward()
    assert weights.tolist() == [[0, 0, 0, 0]] and scores.grad.isfinite().all()


def test_wrong_settings_say_what_is_right():
    with pytest.raises(
        ConfigError, match="unknown attention score 'dott'; choose one of: additive, cosine, dot, general"
    ):
        choose(SCORES, "dott", "attention score")
    with pytest.raises(ConfigError, match=r"d_model \(10\) must be a multiple of n_heads \(3\)"):
        MultiHeadAttention(Heads(10, 3), "dot", POSITIONS["none"](Space(10, 3, 5)))


@torch.no_grad()
@pytest.mark.parametrize("name", ["everywhere", "causal", "causal window", "global", "prefix"])
@pytest.mark.parametrize("is_full", [True, False])
def test_heads_that_share_keys_take_a_step_without_repeating_them(name, is_full, monkeypatch):
    torch.manual_seed(0)
    attend, rule = Attend(SCORES["scaled_dot"](E, T), Position(Space(6 * E, 6, T))), rules("cpu")[name]
    lengths = torch.tensor([T] * 4 if is_full else [3, 2, T, 2])
    queries = torch.randn(4, 1, 6, E)
    layout = Rectangle(torch.ones(4, dtype=torch.long), 1, is_full=True, starts=lengths - 1)
    memory = Memory(*torch.randn(2, 4, T, 2, E), Rectangle(lengths, T, is_full=is_full))
    expected = attend.readable(queries, layout, memory, rule)
    monkeypatch.setattr(Memory, "for_heads", lambda *_: pytest.fail("keys were repeated"))
    same(attend(queries, layout, memory, rule), expected, 1e-5)
