import pytest
import torch

from regard.nn.layout import Ragged, Rectangle

LENGTHS = [[3, 1, 4], [1], [2, 2], [5, 1, 1, 1]]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_flatten_undoes_pad(lengths):
    layout = Ragged(lengths)
    rows = torch.randn(sum(lengths), 2, 3)
    padded = layout.pad(rows)
    assert padded.shape == (len(lengths), max(lengths), 2, 3)
    torch.testing.assert_close(layout.flatten(padded), rows)


def test_padding_is_zero_and_rows_are_in_their_sequence():
    layout = Ragged([2, 1, 3])
    padded = layout.pad(torch.arange(1.0, 7.0))
    assert padded.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]
    assert layout.positions.tolist() == [0, 1, 0, 0, 1, 2]
    assert layout.offsets.tolist() == [0, 2, 3, 6]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_flow_through_pad_and_flatten(lengths):
    layout = Ragged(lengths)
    rows = torch.randn(sum(lengths), 2, dtype=torch.double, requires_grad=True)
    weight = torch.randn(sum(lengths), 2, dtype=torch.double)
    assert torch.autograd.gradcheck(lambda x: layout.flatten(layout.pad(x) * 2) * weight, rows)


def test_a_rectangle_keeps_its_rows_and_counts_positions_from_its_starts():
    layout = Rectangle(torch.tensor([2, 2]), 2, is_full=True, starts=torch.tensor([5, 0]))
    rows = torch.randn(2, 2, 4)
    assert layout.pad(rows) is rows and layout.flatten(rows) is rows
    assert layout.positions.tolist() == [[5, 6], [0, 1]]
