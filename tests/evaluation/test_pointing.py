"""Pointing, on weights made by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.images.boxes import Box
from regard.evaluation.pointing import Pointing, holds_center, patches_inside, points_inside


def test_a_patch_is_inside_if_its_center_is() -> None:
    inside = patches_inside(Box(top=1, left=3, bottom=7, right=10), (2, 3), patch=4)  # centers at 2, 6 and 2, 6, 10
    assert inside.tolist() == [False, True, False, False, True, False]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.data())
def test_a_patch_is_inside_wherever_it_is_counted(height: int, width: int, patch: int, data: st.DataObject) -> None:
    top, left = data.draw(st.integers(0, height * patch)), data.draw(st.integers(0, width * patch))
    box = Box(top, left, top + data.draw(st.integers(1, 20)), left + data.draw(st.integers(1, 20)))
    inside = patches_inside(box, (height, width), patch)
    for place, is_inside in enumerate(inside):
        y, x = (2 * (place // width) + 1) * patch, (2 * (place % width) + 1) * patch  # the center, in half pixels
        assert is_inside == (2 * box.top <= y < 2 * box.bottom and 2 * box.left <= x < 2 * box.right)


def test_the_largest_weight_counts_and_nothing_else() -> None:
    weights = np.array(
        [
            [[0.1, 0.5, 0.4], [0.4, 0.2, 0.4]],  # the second head points at the first of two equal rows
            [[0.3, 0.3, 0.4], [0.0, 1.0, 0.0]],
        ]
    )
    inside = np.array([[False, True, True], [True, False, True]])
    assert points_inside(weights, inside).tolist() == [[True, False], [True, False]]


def test_the_center_of_an_image() -> None:
    assert holds_center(Box(10, 10, 17, 17), 32, 32)
    assert not holds_center(Box(10, 10, 16, 17), 32, 32) and not holds_center(Box(17, 10, 20, 20), 32, 32)


def pointing() -> Pointing:
    hits = {(0, 0): np.array([True, False, False, True]), (0, 1): np.array([True, True, False, True])}
    names = ["red circle", "blue square", "red circle", "red square"]
    return Pointing(names, hits, np.array([0.1, 0.2, 0.1, 0.2]), np.array([False, False, True, False]))


def test_figures_of_a_head_with_those_who_know_nothing() -> None:
    assert pointing().best() == (0, 1)
    values = {metric.name: metric.value for metric in pointing().metrics((0, 1), known=["red circle", "blue square"])}
    assert values == {
        "all nouns": 75.0,
        "objects of the training data": pytest.approx(200 / 3),
        "other objects": 100.0,
        "pointing at the center": 25.0,
        "pointing anywhere": pytest.approx(15.0),
    }


def test_objects_are_not_divided_where_all_are_known() -> None:
    names = [metric.name for metric in pointing().metrics((0, 0), known=["red circle", "blue square", "red square"])]
    assert names == ["all nouns", "pointing at the center", "pointing anywhere"]
    interval = pointing().metrics((0, 0), known=())[0].interval
    assert interval == pytest.approx((15.004, 84.996), abs=1e-3)  # Wilson's, of 2 in 4
