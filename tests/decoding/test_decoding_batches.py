"""Which prompts are decoded together: all of them once, within the budget, the alike side by side."""

from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.interface import grouped

SIZES = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=20)


@given(sizes=SIZES, budget=st.integers(1, 30))
def test_every_prompt_is_in_one_group_within_the_budget(sizes: list[tuple[int, int]], budget: int) -> None:
    costs, lengths = [cost for cost, _ in sizes], [length for _, length in sizes]
    groups = grouped(costs, budget, lengths)
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
    for group in groups:
        assert len(group) * max(costs[i] for i in group) <= budget or len(group) == 1
    order = [(costs[i], lengths[i]) for group in groups for i in group]
    assert order == sorted(order, reverse=True)
