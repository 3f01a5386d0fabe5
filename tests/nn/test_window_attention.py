"""Windows as blocks: equal to the equation, in values and gradients, and made once for all layers."""

import itertools

import pytest
import torch

from regard.nn import paths
from regard.nn.attention import Attend, Memory
from regard.nn.case import Case
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.scores import SCORES
from regard.nn.sight import Local, Once, causal, everywhere, global_tokens, order, visible, window
from regard.nn.windows import Blocks

H, E, T = 2, 8, 27
INFINITE = float("inf")
RULES = {
    "window": window(4),
    "narrow": window(1),
    "causal": causal & window(3),
    "global": window(2) | global_tokens(3),
    "causal and global": causal & (window(4) | global_tokens(2)),
    "more global than there are": window(2) | global_tokens(40),
    "causal and all global": causal & (window(2) | global_tokens(28)),
}
LENGTHS = {"one": [T], "full": [16, 16], "ragged": [3, T, 1, 16, 17]}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(paths, "SMALLEST_BLOCK", 4)


@pytest.mark.sampled("the cases differ in shape alone", cases=3)
@pytest.mark.parametrize("position", ["none", "rotary", "alibi", "buckets"])
@pytest.mark.parametrize(("rule", "shape"), list(itertools.product(RULES, LENGTHS)))
def test_blocks_equal_the_equation_in_values_and_gradients(rule, shape, position):
    torch.manual_seed(0)
    layout = Ragged(LENGTHS[shape])
    where = POSITIONS[position](Space(H * E, H, T, n_buckets=8, furthest=16, n_global=RULES[rule].local().n_global))
    attend = Attend(SCORES["scaled_dot"](E, T), where)
    inputs = [torch.randn(layout.n_rows, H, E, requires_grad=True) for _ in range(3)]
    queries, keys = (where.rotate(x, layout) for x in inputs[:2])
    case = Case(queries, layout, keys, inputs[2], layout, RULES[rule], attend.score.scale, where)
    assert paths.fits_blocks(case)
    learned = [*inputs, *where.parameters()]
    push = torch.randn_like(inputs[0])
    expected = attend.readable(queries, layout, Memory(keys, inputs[2], layout), RULES[rule])
    for out in (paths.run_blocks(case), attend(queries, layout, Memory(keys, inputs[2], layout), RULES[rule])):
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        gradients = [torch.autograd.grad(x, learned, push, retain_graph=True) for x in (out, expected)]
        for got, want in zip(*gradients, strict=True):
            torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
@pytest.mark.parametrize("position", ["none", "alibi", "buckets"])
@pytest.mark.parametrize("lengths", [[T, 3, 20], [T, T]], ids=["ragged", "full"])
def test_blocks_in_half_precision(lengths, position, device):
    torch.manual_seed(0)
    layout, rule = Ragged(lengths, device), causal & (window(4) | global_tokens(2))
    where = POSITIONS[position](Space(H * E, H, T, n_buckets=8, furthest=16, n_global=2)).to(device)
    attend = Attend(SCORES["scaled_dot"](E, T), where)
    inputs = [torch.randn(layout.n_rows, H, E, requires_grad=True, device=device) for _ in range(3)]
    with torch.autocast(device, torch.bfloat16):
        case = Case(inputs[0], layout, *inputs[1:], layout, rule, attend.score.scale, where)
        out = paths.run_blocks(case)
    assert out.dtype is torch.bfloat16
    expected = attend.readable(inputs[0], layout, Memory(inputs[1], inputs[2], layout), rule)
    torch.testing.assert_close(out.float(), expected, atol=3e-2, rtol=3e-2)
    push = torch.randn_like(inputs[0])
    learned = [*inputs, *where.parameters()]
    gradients = torch.autograd.grad(out.float(), learned, push), torch.autograd.grad(expected, learned, push)
    for got, want in zip(*gradients, strict=True):
        assert (got - want).norm() <= 0.03 * want.norm()


@pytest.mark.parametrize("rule", ["window", "causal", "global", "causal and global"])
def test_masks_do_not_grow_with_the_length(rule):
    """But for that of global rows, who look at all rows unless they may not look ahead."""

    def n_numbers(length):
        layout, blocks = Ragged([length]), Blocks(RULES[rule].local(), 4, length)
        masks = blocks.masks(RULES[rule], layout, torch.float32)
        assert masks.of_global.numel() == blocks.n_global * (length if rule == "global" else blocks.n_global)
        return sum(mask.numel() for _, mask in masks.sections)

    assert n_numbers(40) == n_numbers(4000)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="where FlexAttention would write its mask out")
@pytest.mark.parametrize("position", ["none", "alibi", "buckets"])
def test_global_rows_hold_little_on_a_gpu(position, monkeypatch):
    monkeypatch.setattr(paths, "SMALLEST_BLOCK", 64)
    n = 32_768
    layout, rule = Ragged([n], "cuda"), causal & (window(256) | global_tokens(64))
    where = POSITIONS[position](Space(H * 64, H, n, n_global=64)).cuda()
    attend = Attend(SCORES["scaled_dot"](64, n), where).cuda()
    rows = [torch.randn(n, H, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    torch.cuda.reset_peak_memory_stats()
    begin = torch.cuda.memory_allocated()
    attend(rows[0], layout, Memory(rows[1], rows[2], layout), rule).sum().backward()
    held = torch.cuda.max_memory_allocated() - begin
    assert held < 900e6  # seen: at most 725 million; the square of the length alone has 1,074 million numbers


def test_rows_and_global_rows_have_no_distance_but_a_number_for_each_way():
    """Among themselves, both have distances (Ainslie et al. 2020, section 3.2)."""
    position = POSITIONS["buckets"](Space(H * E, H, T, n_buckets=8, furthest=16, n_global=2))
    plain = POSITIONS["buckets"](Space(H * E, H, T, n_buckets=8, furthest=16))
    with torch.no_grad():
        plain.table.copy_(position.table[:8])
    places = torch.arange(T)
    bias, distances = (each.bias(places[None], places)[0] for each in (position, plain))
    torch.testing.assert_close(bias[:, :2, :2], distances[:, :2, :2])
    torch.testing.assert_close(bias[:, 2:, 2:], distances[:, 2:, 2:])
    assert bias[:, :2, 2:].eq(position.table[8][:, None, None]).all()
    assert bias[:, 2:, :2].eq(position.table[9][:, None, None]).all()


@pytest.mark.parametrize("width", [T - 2, T - 1, 10 * T])
def test_a_window_that_reaches_past_all_sequences_needs_no_mask(width):
    for rule, lengths in (
        (causal & window(width), [T, 3]),
        (window(width), [T, T]),
        (Once(causal & window(width)), [T]),
    ):
        layout, rows = Ragged(lengths), torch.randn(sum(lengths), H, E)
        case = Case(rows, layout, rows, rows, layout, rule, 1.0, POSITIONS["none"](Space(H * E, H, T)))
        assert paths.is_plain(case) is (width >= T - 1)
        memory, attend = Memory(rows, rows, layout), Attend(SCORES["scaled_dot"](E, T), case.position)
        case.scale = attend.score.scale
        torch.testing.assert_close(paths.run_padded(case), attend.readable(rows, layout, memory, rule))


@pytest.mark.parametrize("rule", [causal, everywhere, causal | window(2), order(torch.arange(T)[None])])
def test_what_is_no_window_has_no_blocks(rule):
    layout, rows = Ragged([T]), torch.randn(T, H, E)
    case = Case(rows, layout, rows, rows, layout, rule, 1.0, POSITIONS["none"](Space(H * E, H, T)))
    assert not paths.fits_blocks(case)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_local_rule_is_what_it_says(rule):
    local = rule.local()

    def within(band, q, k):
        return -band[0] <= k - q <= band[1]

    def sees(q, k):
        is_global = min(q, k) < local.n_global
        return within(local.near, q, k) or (is_global and within(local.far, q, k))

    layout = Ragged([T])
    assert visible(rule, layout, layout)[0].tolist() == [[sees(q, k) for k in range(T)] for q in range(T)]


def test_rules_that_are_not_local_say_so():
    assert (window(1) | window(2)).local() == Local((2, 2), (2, 2), 0)
    assert (causal & window(1) | global_tokens(1)).local() == Local((1, 0), (INFINITE, INFINITE), 1)
    for rule in (causal | window(1), global_tokens(1) | global_tokens(2), order(torch.arange(T)[None]) & window(1)):
        assert rule.local() is None


def test_a_limited_view_of_global_rows_has_a_mask_for_each_block():
    rule, layout = causal & (window(3) | (global_tokens(2) & window(11))), Ragged([T, T])
    rows = torch.randn(2 * T, H, E)
    attend = Attend(SCORES["scaled_dot"](E, T), POSITIONS["none"](Space(H * E, H, T)))
    case = Case(rows, layout, rows, rows, layout, rule, attend.score.scale, attend.position)
    assert paths.fits_blocks(case) and len(paths.blocks_of(case).sections(is_full=True)) == 1
    torch.testing.assert_close(
        paths.run_blocks(case), attend.readable(rows, layout, Memory(rows, rows, layout), rule), atol=1e-5, rtol=1e-5
    )


def test_masks_are_made_once_for_all_layers(monkeypatch):
    made = []
    plain = Blocks.masks
    monkeypatch.setattr(Blocks, "masks", lambda self, *args: (made.append(1), plain(self, *args))[1])
    rule, rows = Once(causal & window(3)), torch.randn(2 * T, H, E)
    attend = Attend(SCORES["scaled_dot"](E, T), POSITIONS["none"](Space(H * E, H, T)))
    layouts = Ragged([T, T]), Ragged([T - 1, T + 1])
    for layout, n in zip(layouts, (1, 2), strict=True):
        for _ in range(3):
            out = attend(rows, layout, Memory(rows, rows, layout), rule)
            torch.testing.assert_close(out, attend.readable(rows, layout, Memory(rows, rows, layout), rule))
        assert len(made) == n  # another layout has other masks
