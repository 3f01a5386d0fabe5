import pytest
import torch

from regard.nn.attention import Memory
from regard.nn.cache import Cache
from regard.nn.layout import Ragged


def filled(n_rows=3, n=4, seed=0):
    torch.manual_seed(seed)
    cache = Cache.empty(2, n_rows, 8, (2, 4), like=torch.zeros(1))
    new = torch.randn(2, 2, n_rows, n, 2, 4)  # kind layer row token head channel
    for layer in range(2):
        cache.extend(layer, Memory(new[0, layer], new[1, layer], cache.queries(n)))
    cache.advance(n)
    return cache, new


@pytest.mark.parametrize("is_pooled", [False, True])
def test_what_goes_in_comes_out_after_what_was_there(is_pooled):
    cache, new = filled()
    if is_pooled:
        pool = cache.pooled(3, (8,))
        pool.put(torch.arange(3), cache)
        cache = pool
    more = torch.randn(2, 3, 1, 2, 4)
    memory = cache.extend(1, Memory(more[0], more[1], cache.queries(1))).in_place()
    assert memory.layout.lengths.tolist() == [5, 5, 5]
    assert torch.equal(memory.keys[:, :5], torch.cat([new[0, 1], more[0]], dim=1))
    assert memory.keys.shape[1] == (8 if is_pooled else 5)  # a pool shows its whole room


def test_no_step_copies_the_past():
    cache, _ = filled()
    before = cache.content.data_ptr()
    cache.extend(0, Memory(*torch.randn(2, 3, 1, 2, 4), cache.queries(1)))
    assert cache.content.data_ptr() == before


@pytest.mark.parametrize("rows", [[2, 0, 0], [1], [0, 1, 2, 2, 1]])
def test_select_keeps_the_asked_rows(rows):
    cache, new = filled()
    cache.select(torch.tensor(rows))
    assert torch.equal(cache.memory(1).values, new[1, 1][rows])
    assert cache.lengths.tolist() == [4] * len(rows)


def test_truncate_and_join_make_unequal_rows():
    cache, new = filled()
    other, other_new = filled(2, 3, seed=1)
    cache.truncate(torch.tensor([4, 1, 2]))
    cache.join(other)
    assert cache.lengths.tolist() == [4, 1, 2, 3, 3] and not cache.lockstep
    memory = cache.extend(0, Memory(*torch.ones(2, 5, 1, 2, 4), cache.queries(1)))
    assert torch.equal(memory.keys[1, 0], new[0, 0, 1, 0]) and (memory.keys[1, 1] == 1).all()
    assert torch.equal(memory.keys[3, :3], other_new[0, 0, 0]) and (memory.keys[3, 3] == 1).all()


def test_holding_pads_once():
    layout = Ragged([2, 3])
    memory = Memory(torch.randn(5, 2, 4), torch.randn(5, 2, 4), layout)
    held = Cache.holding([memory]).memory(0)
    assert torch.equal(held.keys[0, :2], memory.keys[:2]) and torch.equal(held.keys[1], memory.keys[2:])
    assert held.layout.lengths.tolist() == [2, 3]


def test_rows_of_a_pool_come_leave_and_change_places_and_keep_what_they_hold():
    pool = filled()[0].pooled(6, (16,))
    twin = Cache.empty(2, 6, 16, (2, 4), like=torch.zeros(1))  # where rows are copied when they change places
    for rows, seed in (([4, 1], 1), ([0, 5], 2)):
        cache, _ = filled(n_rows=2, n=3, seed=seed)
        pool.put(torch.tensor(rows), cache)
        twin.content[:, :, rows, :3], twin.lengths[rows] = cache.content[:, :, :, :3], cache.lengths
    torch.manual_seed(3)
    for rows in ([1, 1, 2, 3, 4, 4], [0, 4, 2, 3, 1, 0], [5, 0, 2, 3, 4, 1]):
        for layer in range(2):
            new = torch.randn(2, 6, 1, 2, 4)
            seen = pool.extend(layer, Memory(*new, pool.queries(1))).in_place()
            places = torch.arange(6), twin.lengths
            twin.content[0, layer][places], twin.content[1, layer][places] = new[:, :, 0]
            for row in (0, 1, 4, 5):
                length = twin.lengths[row] + 1
                assert torch.equal(seen.keys[row, :length], twin.content[0, layer, row, :length])
                assert torch.equal(seen.values[row, :length], twin.content[1, layer, row, :length])
        pool.advance(1)
        twin.lengths += 1
        pool.reorder(torch.tensor(rows))
        twin.content, twin.lengths = twin.content[:, :, rows], twin.lengths[rows]
    taken = pool.taken(torch.tensor([5, 0]))
    assert torch.equal(taken.lengths, twin.lengths[[5, 0]])
    assert torch.equal(taken.content[:, :, :, :6], twin.content[:, :, [5, 0], :6])


def test_what_is_not_used_yet_is_finite_after_a_selection(monkeypatch):
    """A mask gives it the weight 0, and 0 times NaN is NaN."""
    monkeypatch.setattr(torch, "empty_like", lambda like: torch.full_like(like, torch.nan))
    cache = Cache.empty(1, 2, 4, (1, 3), like=torch.zeros(1))
    cache.select(torch.tensor([1, 0]))
    assert cache.content.isfinite().all()
