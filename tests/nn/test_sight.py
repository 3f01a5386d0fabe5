import itertools

import pytest
import torch

from regard.nn.layout import Ragged, Rectangle
from regard.nn.sight import Sight, causal, everywhere, global_tokens, order, prefix, visible, window

T = 6
RANKS = torch.tensor([[2, 0, 1, 4, 3, 5], [5, 4, 3, 2, 1, 0]])

# rule, and the same said by hand about (q, k, b)
RULES = {
    "everywhere": (everywhere, lambda q, k, b: True),
    "causal": (causal, lambda q, k, b: k <= q),
    "window": (window(2), lambda q, k, b: abs(q - k) <= 2),
    "global": (global_tokens(2), lambda q, k, b: q < 2 or k < 2),
    "prefix": (prefix(torch.tensor([3, 1])), lambda q, k, b: k < [3, 1][b]),
    "order": (order(RANKS), lambda q, k, b: RANKS[b, k] <= RANKS[b, q]),
    "strict order": (order(RANKS, itself=False), lambda q, k, b: RANKS[b, k] < RANKS[b, q]),
}


def table(rule: Sight, lengths=(T, T)) -> torch.Tensor:
    layout = Ragged(list(lengths))
    mask = visible(rule, layout, layout)
    full = torch.ones(2, T, T, dtype=torch.bool)
    return full if mask is None else mask & full


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_what_it_means(name):
    rule, by_hand = RULES[name]
    expected = [[[bool(by_hand(q, k, b)) for k in range(T)] for q in range(T)] for b in range(2)]
    assert table(rule).tolist() == expected


@pytest.mark.parametrize(("one", "other"), list(itertools.product(RULES, RULES)))
def test_and_or_are_and_or_of_the_tables(one, other):
    a, b = RULES[one][0], RULES[other][0]
    assert torch.equal(table(a & b), table(a) & table(b))
    assert torch.equal(table(a | b), table(a) | table(b))


@pytest.mark.parametrize(
    "rule", [everywhere, causal, window(2), causal & window(3), causal | window(1), window(1) | window(2)]
)
def test_a_band_is_the_rule(rule):
    band = rule.band()
    if band is None:  # causal | window crosses two bands
        assert rule.left is causal
        return
    expected = [[-band[0] <= k - q <= band[1] for k in range(T)] for q in range(T)]
    assert table(rule)[0].tolist() == expected


def test_nobody_looks_past_the_end_of_a_sequence():
    mask = table(everywhere, lengths=(T, 2))
    assert mask[1, :, 2:].any().item() is False and mask[0].all()


def test_in_cached_decoding_the_queries_are_the_last_of_the_keys():
    queries = Rectangle(torch.tensor([2, 2]), 2, is_full=True, starts=torch.tensor([3, 1]))
    keys = Rectangle(torch.tensor([5, 3]), 5)
    mask = visible(causal, queries, keys)
    assert mask[0].tolist() == [[True] * 4 + [False], [True] * 5]
    assert mask[1].tolist() == [[True, True, False, False, False], [True, True, True, False, False]]


def test_some_queries_have_their_own_turns():
    """Those of the places 4 and 1 of one sequence, and of place 0 of the other."""
    places = [[4, 1], [0]]
    of_queries = torch.tensor([[RANKS[0, 4], RANKS[0, 1]], [RANKS[1, 0], 0]])
    mask = visible(order(RANKS, of_queries=of_queries), Ragged([2, 1]), Ragged([T, T]))
    for b, rows in enumerate(places):
        for i, place in enumerate(rows):
            assert torch.equal(mask[b, i], table(order(RANKS))[b, place])
