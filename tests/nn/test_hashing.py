"""Hashing: chunks give the equation restricted to shared buckets, in values and gradients; steps give what the whole
gives."""

import itertools

import pytest
import torch

from regard.errors import ConfigError
from regard.models.stack import Stack, StackConfig
from regard.nn.attention import Memory
from regard.nn.hashing import HashedAttend, Hashing
from regard.nn.layout import Ragged
from regard.nn.positions import POSITIONS, Space
from regard.nn.scores import SCORES, unit
from regard.nn.sight import causal, everywhere, window
from regard.nn.watch import watch

H, E, T = 2, 8, 29


def make(n_rounds, chunk=4, n_buckets=6):
    position = POSITIONS["none"](Space(H * E, H, T))
    return HashedAttend(SCORES["scaled_dot"](E, T), position, Hashing(n_rounds, n_buckets, chunk), E)


@pytest.mark.parametrize(("n_rounds", "rule"), list(itertools.product([1, 3], [causal, everywhere, window(9)])))
@pytest.mark.parametrize("lengths", [[T], [8, 8], [3, T, 1, 16]], ids=str)
def test_chunks_equal_the_equation_restricted_to_buckets(n_rounds, rule, lengths):
    torch.manual_seed(0)
    attend, layout = make(n_rounds), Ragged(lengths)
    queries, values = (torch.randn(layout.n_rows, H, E, requires_grad=True) for _ in range(2))
    memory = Memory(unit(queries), values, layout)
    out, expected = attend(queries, layout, memory, rule), attend.readable(queries, layout, memory, rule)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    push = torch.randn_like(out)
    gradients = [torch.autograd.grad(x, (queries, values), push, retain_graph=True) for x in (out, expected)]
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_later_rows_change_who_meets_and_nothing_else():
    """Where chunks end depends on all rows. A row that meets the same ones has the same output, whatever comes later;
    in steps, which compare whole buckets, every row has."""
    torch.manual_seed(0)
    attend, layout = make(n_rounds=1), Ragged([T])
    queries = torch.randn(T, H, E)
    changed = queries.clone()
    changed[20:] = torch.randn(T - 20, H, E)
    outputs, meetings = [], []
    for rows in (queries, changed):
        keys = unit(rows)
        outputs.append(attend(rows, layout, Memory(keys, queries, layout), causal)[:20])
        padded = layout.pad(rows).transpose(1, 2)
        found = attend.found(padded, layout, layout.pad(keys).transpose(1, 2), layout)
        meetings.append(found[0, :, :20].tril().transpose(0, 1))  # of each row, in each head
    is_same = (meetings[0] == meetings[1]).all(-1)
    assert is_same.any() and not is_same.all()
    torch.testing.assert_close(outputs[0][is_same], outputs[1][is_same], atol=1e-5, rtol=1e-5)
    assert (outputs[0] - outputs[1]).abs().amax(-1)[~is_same].max() > 0.01


def test_a_chunk_larger_than_the_texts_is_one_chunk_of_them():
    torch.manual_seed(0)
    layout = Ragged([T, 8])
    queries, values = (torch.randn(layout.n_rows, H, E) for _ in range(2))
    memory = Memory(unit(queries), values, layout)
    fitting = make(2, chunk=T)(queries, layout, memory, causal)
    assert torch.equal(make(2, chunk=10**9)(queries, layout, memory, causal), fitting)  # and takes no memory for it


def test_in_half_precision_it_is_near():
    torch.manual_seed(0)
    attend, layout = make(n_rounds=2), Ragged([T])
    queries, values = (torch.randn(T, H, E).bfloat16() for _ in range(2))
    out = attend(queries, layout, Memory(unit(queries), values, layout), causal)
    same = attend(queries.float(), layout, Memory(unit(queries).float(), values.float(), layout), causal)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), same, atol=0.05, rtol=0.05)


def test_a_row_attends_to_rows_that_point_its_way_and_to_no_others():
    torch.manual_seed(0)
    layout, ways = Ragged([T]), torch.randn(3, E)
    which = torch.arange(T) % 3
    queries = (ways[which] + 0.001 * torch.randn(T, E))[:, None].expand(T, H, E)
    attend = make(n_rounds=1, chunk=T, n_buckets=64)
    assert len(attend.buckets(ways[None, None]).unique()) == 3
    weights = attend.weights(queries, layout, Memory(unit(queries), queries, layout), everywhere)
    alike = which[:, None] == which
    assert (weights[0, 0][~alike] == 0).all()
    assert (weights[0, 0][alike & ~torch.eye(T, dtype=torch.bool)] > 0).all()
    assert weights.diagonal(dim1=2, dim2=3).max() < 1e-6  # itself only where there is nobody else


def test_steps_and_pictures_of_a_hashed_stack_are_those_of_the_whole():
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "max_length": 16}
    model = Stack(StackConfig(**sizes, hash_rounds=2, hash_chunk=16, position="rotary")).eval()
    tokens = torch.randint(0, 11, (2, 12))
    with torch.no_grad(), watch(model) as seen:
        whole = model(tokens.flatten(), Ragged([12, 12])).view(2, 12, -1)
        state = model.start(2, 12)
        stepped = torch.cat([model.step(part, state) for part in tokens.split([5, 1, 6], 1)], 1)
    torch.testing.assert_close(stepped, whole, atol=1e-5, rtol=1e-5)
    assert all(sighting.error < 1e-5 for sighting in seen.sightings)


@pytest.mark.parametrize("setting", [{"position": "alibi"}, {"n_key_heads": 1}, {"norm_heads": True}])
def test_what_cannot_be_hashed_is_refused(setting):
    with pytest.raises(ConfigError, match=r"it needs score = \"scaled_dot\", no n_key_heads or norm_heads"):
        StackConfig(vocab_size=11, hash_rounds=1, **setting)
