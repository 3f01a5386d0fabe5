"""Which texts are read together: all of them once, within the budget, the alike side by side."""

from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.forced import grouped


@given(costs=st.lists(st.integers(1, 9), max_size=20), budget=st.integers(1, 30))
def test_every_text_is_in_one_group_within_the_budget(costs: list[int], budget: int) -> None:
    groups = grouped(costs, budget)
    assert sorted(i for group in groups for i in group) == list(range(len(costs)))
    for group in groups:
        assert len(group) * max(costs[i] for i in group) <= budget or len(group) == 1
    order = [costs[i] for group in groups for i in group]
    assert order == sorted(order, reverse=True)
