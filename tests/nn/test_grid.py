"""Images as rows of patches: there and back, places on the grid, and positions that depend on row and column."""

import math

import pytest
import torch

from regard.nn.grid import Grid, GridForm
from regard.nn.positions import Space, make_position

SHAPES = [(2, 3), (2, 3), (4, 4), (1, 2)]


def form(class_row: bool) -> GridForm:
    return GridForm(patch=2, channels=3, side=5, class_row=class_row)


@pytest.mark.parametrize("class_row", [True, False])
def test_images_become_patches_and_come_back(class_row: bool) -> None:
    grid = Grid(SHAPES, form(class_row))
    blocks = [torch.rand(n, 3, 2 * height, 2 * width) for n, (height, width) in grid.runs]
    rows = grid.patches(blocks)
    assert rows.shape == (grid.n_rows, 12)
    for block, back in zip(blocks, grid.images(rows), strict=True):
        assert torch.equal(block, back)
    # A patch is the pixels of one square, channel by channel, as a convolution's kernel has them.
    first = rows[int(class_row) + 1]
    assert torch.equal(first, blocks[0][0, :, 0:2, 2:4].flatten())


def test_a_class_row_is_empty_and_stands_first() -> None:
    grid = Grid(SHAPES, form(True))
    rows = grid.patches([torch.ones(n, 3, 2 * height, 2 * width) for n, (height, width) in grid.runs])
    starts = grid.offsets[:-1].long()
    assert (rows.sum(1) == 0).nonzero().flatten().tolist() == starts.tolist()
    assert (grid.positions == 0).nonzero().flatten().tolist() == starts.tolist()


def test_a_place_is_the_same_in_images_of_all_sizes() -> None:
    grid = Grid(SHAPES, form(False))
    places = grid.positions.split(grid.lengths.tolist())
    assert places[0].tolist() == [1, 2, 3, 6, 7, 8]
    assert places[2].tolist()[:4] == [1, 2, 3, 4] and places[2].tolist()[4] == 6


def test_one_size_is_a_rectangle_and_several_are_not() -> None:
    assert Grid([(2, 2)] * 3, form(True)).to("cpu").is_full
    assert not Grid(SHAPES, form(True)).is_full


def space(side: int = 6) -> Space:
    return Space(d_model=16, n_heads=2, max_length=1 + side**2, side=side)


def test_sinusoids_of_a_grid_are_those_of_the_row_beside_those_of_the_column() -> None:
    table = make_position("sinusoidal", space()).embed(torch.zeros(37, 16), torch.arange(37))
    assert torch.equal(table[0], torch.zeros(16))
    patch = table[1 + 6 * 4 + 2]  # row 4, column 2
    for half, place in ((patch[:8], 4), (patch[8:], 2)):
        for i in range(4):
            angle = place / 10000 ** (2 * i / 8)
            assert half[2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert half[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_rotary_scores_depend_on_distances_down_and_across() -> None:
    position = make_position("rotary", space())
    query, key = torch.rand(1, 2, 8), torch.rand(1, 2, 8)

    def score(at: tuple[int, int], other: tuple[int, int]) -> torch.Tensor:
        turned = []
        for heads, (row, column) in ((query, at), (key, other)):
            grid = Grid([(6, 6)], GridForm(2, 1, 6, False))
            chosen = grid.positions == 1 + 6 * row + column
            grid.positions = grid.positions[chosen]
            turned.append(position.rotate(heads, grid))
        return (turned[0] * turned[1]).sum(-1)

    assert torch.allclose(score((1, 2), (3, 3)), score((2, 4), (4, 5)), atol=1e-5)
    assert not torch.allclose(score((1, 2), (3, 3)), score((1, 2), (3, 4)), atol=1e-3)
    assert not torch.allclose(score((1, 2), (3, 3)), score((1, 2), (4, 3)), atol=1e-3)


def test_the_class_row_is_not_turned() -> None:
    grid = Grid([(1, 1)], form(True))
    heads = torch.rand(2, 2, 8)
    position = make_position("rotary", space(5))
    assert torch.equal(position.rotate(heads, grid)[0], heads[0])
