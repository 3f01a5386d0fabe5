import math

import pytest
import torch

from regard.nn.positions import POSITIONS, sinusoids


def test_the_table_of_the_documents():
    """60 positions by 32 channels: even channels are sines, odd ones cosines of the same angle."""
    table = sinusoids(60, 32)
    assert table.shape == (60, 32)
    for position in (0, 1, 17, 59):
        for i in range(16):
            angle = position / 10000 ** (2 * i / 32)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_a_shift_is_the_same_turn_everywhere():
    """PE(pos + k) is one linear function of PE(pos), whatever pos (section 3.5 of the paper)."""
    table, shift = sinusoids(50, 16).double(), 3
    angles = shift / 10000 ** (torch.arange(0, 16, 2).double() / 16)
    turns = [torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angles]
    turn = torch.block_diag(*turns)
    torch.testing.assert_close(table[:-shift] @ turn, table[shift:], atol=1e-5, rtol=1e-5)


def test_rotary_scores_depend_on_the_distance_only():
    torch.manual_seed(0)
    rotary = POSITIONS["rotary"](32, 2, 100)
    q, k = torch.randn(2, 1, 2, 16)

    def score(at_query, at_key):
        turned = rotary.rotate(q, torch.tensor([at_query])), rotary.rotate(k, torch.tensor([at_key]))
        return (turned[0] * turned[1]).sum(-1)

    torch.testing.assert_close(score(3, 1), score(73, 71), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(score(3, 1), score(3, 2), atol=1e-3)


def test_alibi_falls_with_distance_at_one_slope_per_head():
    bias = POSITIONS["alibi"](32, 4, 10).bias(torch.arange(3)[None], torch.arange(3))
    assert bias.shape == (1, 4, 3, 3)
    assert bias[0, :, 2, 0].tolist() == pytest.approx([-2 * 2.0**-e for e in (2, 4, 6, 8)])


def test_binary_codes_of_the_documents():
    table = POSITIONS["binary"](3, 1, 8).table
    assert [row.int().tolist()[::-1] for row in table] == [[int(bit) for bit in f"{n:03b}"] for n in range(8)]


@pytest.mark.parametrize("name", POSITIONS)
def test_every_position_keeps_the_shape_and_only_none_and_scores_leave_embeddings_alone(name):
    position = POSITIONS[name](8, 2, 16)
    x = torch.randn(5, 8)
    embedded = position.embed(x, torch.arange(5))
    assert embedded.shape == x.shape
    assert torch.equal(embedded, x) == (name in ("none", "rotary", "alibi"))
