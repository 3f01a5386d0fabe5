import pytest
import torch

from regard.decoding.alignment import NO_WORD, align
from regard.errors import RegardError
from regard.tasks.translation.verbs import pharaoh


def test_a_target_word_is_aligned_to_the_source_word_it_looks_at_most() -> None:
    weights = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
    assert pharaoh(align(weights, [0, 1, 2], [0, 1, 2])) == "0-0 1-2 2-1"


def test_tokens_of_a_word_count_together() -> None:
    weights = torch.tensor(
        [
            [0.4, 0.2, 0.2, 0.2],  # word 0: the three tokens of b together beat a
            [0.9, 0.0, 0.1, 0.0],  # word 1 has two tokens: 0.9 and 0.0 for a, on average 0.45 …
            [0.0, 0.4, 0.4, 0.2],  # … against 0.1 and 1.0 for b
        ]
    )
    assert align(weights, [0, 1, 1], [0, 1, 1, 1]) == [(1, 0), (1, 1)]


def test_tokens_of_no_word_are_left_out() -> None:
    weights = torch.tensor([[0.1, 0.9, 0.0], [0.2, 0.3, 0.5]])
    assert align(weights, [0, NO_WORD], [0, NO_WORD, 1]) == [(0, 0)]
    assert align(weights, [NO_WORD, NO_WORD], [0, 1, 2]) == []
    assert align(torch.zeros(0, 3), [], [0, 1, 2]) == []
    assert align(torch.zeros(2, 0), [0, 1], []) == []
    assert pharaoh([]) == ""


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(RegardError, match=r"got \(2, 3\) for 1 target and 3 source tokens"):
        align(torch.zeros(2, 3), [0], [0, 1, 2])
