import pytest
import torch

from regard.errors import ConfigError
from regard.nn.layout import Ragged, Rectangle
from regard.nn.pooling import POOLINGS, summary

LENGTHS = [3, 1, 0, 4]
BY_HAND = {
    "last": lambda rows: rows[-1],
    "mean": lambda rows: rows.mean(0),
    "max": lambda rows: rows.amax(0),
    "first": lambda rows: rows[0],
}


@pytest.mark.parametrize("how", POOLINGS)
def test_summaries_are_those_of_each_sequence_alone(how):
    rows = -torch.rand(8, 4)  # below zero, where padding would win a maximum
    found = summary(rows, Ragged(LENGTHS), how)
    for got, own in zip(found, rows.split(LENGTHS), strict=True):
        torch.testing.assert_close(got, BY_HAND[how](own) if len(own) else torch.zeros(4))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("how", POOLINGS)
def test_padding_of_a_rectangle_is_not_seen(how, bidirectional):
    rows, layout = torch.randn(8, 4), Ragged(LENGTHS)
    padded = layout.pad(rows)
    padded[layout.pad(torch.ones(8)) == 0] = 100.0
    rectangle = Rectangle(layout.lengths, layout.longest)
    got = summary(padded, rectangle, how, bidirectional)
    torch.testing.assert_close(got, summary(rows, layout, how, bidirectional))


def test_each_direction_ends_at_its_own_end():
    rows = torch.arange(12.0).view(6, 2)  # the first column read from left to right, the second from right to left
    assert summary(rows, Ragged([4, 2]), "last", bidirectional=True).tolist() == [[6, 1], [10, 9]]
    for how in ("mean", "max"):  # which do not ask for the order
        torch.testing.assert_close(
            summary(rows, Ragged([4, 2]), how, bidirectional=True), summary(rows, Ragged([4, 2]), how)
        )


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("how", POOLINGS)
def test_gradients_reach_the_rows(how, bidirectional):
    rows = torch.randn(8, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: summary(x, Ragged(LENGTHS), how, bidirectional), rows)


@pytest.mark.parametrize("how", POOLINGS)
def test_no_tokens_at_all_are_zeros(how):
    assert summary(torch.zeros(0, 4), Ragged([0, 0]), how).tolist() == [[0] * 4] * 2


def test_an_unknown_summary_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown summary 'median'; choose one of: first, last, max, mean"):
        summary(torch.zeros(1, 4), Ragged([1]), "median")
