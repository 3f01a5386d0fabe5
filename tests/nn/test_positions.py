import copy
import math

import pytest
import torch

from regard.nn.layout import Rectangle
from regard.nn.positions import POSITIONS, Rotary, Space, sinusoids
from regard.nn.turning import Turning


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
    rotary = POSITIONS["rotary"](Space(32, 2, 100))
    q, k = torch.randn(2, 1, 2, 16)

    def at(place):
        return Rectangle(torch.ones(1, dtype=torch.long), 1, starts=torch.tensor([place]))

    def score(at_query, at_key):
        turned = rotary.rotate(q, at(at_query)), rotary.rotate(k, at(at_key))
        return (turned[0] * turned[1]).sum(-1)

    torch.testing.assert_close(score(3, 1), score(73, 71), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(score(3, 1), score(3, 2), atol=1e-3)


def test_halved_rotary_turns_by_the_same_angles_however_far():
    exact = Rotary(Space(16, 2, 64, endless=True))
    halved = copy.deepcopy(exact).bfloat16()
    places = torch.tensor([511, 1000, 100_000])
    assert torch.equal(halved.far(places), exact.far(places))
    assert halved.rates.dtype == torch.float32 and halved.table.dtype == torch.bfloat16
    assert exact.to("meta").rates.is_meta


def test_alibi_falls_with_distance_at_one_slope_per_head():
    bias = POSITIONS["alibi"](Space(32, 4, 10)).bias(torch.arange(3)[None], torch.arange(3))
    assert bias.shape == (1, 4, 3, 3)
    assert bias[0, :, 2, 0].tolist() == pytest.approx([-2 * 2.0**-e for e in (2, 4, 6, 8)])


def test_binary_codes_of_the_documents():
    table = POSITIONS["binary"](Space(3, 1, 8)).table
    assert [row.int().tolist()[::-1] for row in table] == [[int(bit) for bit in f"{n:03b}"] for n in range(8)]


@pytest.mark.parametrize("name", POSITIONS)
def test_every_position_keeps_the_shape_and_only_none_and_scores_leave_embeddings_alone(name):
    position = POSITIONS[name](Space(8, 2, 16))
    x = torch.randn(5, 8)
    embedded = position.embed(x, torch.arange(5))
    assert embedded.shape == x.shape
    assert torch.equal(embedded, x) == (name in ("none", "rotary", "alibi", "buckets"))


@pytest.mark.parametrize("one_sided", [False, True])
def test_buckets_are_those_of_t5(one_sided):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    ahead = torch.arange(-300, 300)[None]
    for n_buckets, furthest in ((32, 128), (20, 50)):
        buckets = POSITIONS["buckets"](Space(8, 2, 16, n_buckets=n_buckets, furthest=furthest, one_sided=one_sided))
        theirs = t5.T5Attention._relative_position_bucket(ahead, not one_sided, n_buckets, furthest)
        assert torch.equal(buckets.bucket(ahead), theirs)


def test_a_bucket_adds_its_own_number_to_every_head():
    position = POSITIONS["buckets"](Space(8, 2, 16))
    bias = position.bias(torch.tensor([[0, 5], [3, 4]]), torch.arange(6))  # B H Q K
    assert bias.shape == (2, 2, 2, 6)
    assert torch.equal(bias[0, 1, 1, 5], position.table[0, 1])  # no distance
    assert torch.equal(bias[1, 0, 0, 1], position.table[2, 0])  # two behind
    assert torch.equal(bias[1, 0, 0, 4], position.table[17, 0])  # one ahead


def test_halves_are_marians():
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    theirs = marian.MarianSinusoidalPositionalEmbedding(20, 8)
    ours = POSITIONS["sinusoidal_halves"](Space(8, 2, 20)).embed(torch.zeros(20, 8), torch.arange(20))
    torch.testing.assert_close(ours, theirs.create_weight(), atol=1e-6, rtol=0)


def test_a_larger_base_turns_slower():
    slow, usual = (POSITIONS["rotary"](Space(8, 2, 20, turning=Turning(base=base))).table for base in (1e6, 1e4))
    assert torch.equal(slow[:, :2], usual[:, :2]) and (slow[1, 2] < usual[1, 2]).item()


@pytest.mark.parametrize("scaling", ["none", "dynamic"])
def test_a_step_of_decoding_turns_as_training_does(scaling):
    torch.manual_seed(0)
    turning = Turning(scaling=scaling, factor=2.0, length=8)
    position = POSITIONS["rotary"](Space(d_model=32, n_heads=4, max_length=64, turning=turning))
    layouts = [
        Rectangle(torch.ones(3, dtype=torch.long), 1, starts=torch.tensor(starts)) for starts in ([0, 5, 40],) * 2
    ]
    queries, keys = torch.randn(3, 1, 48).split([32, 16], -1)  # of one product, as in a step
    for heads in (queries.unflatten(-1, (4, 8)), keys.unflatten(-1, (2, 8))):
        expected = position.rotate(heads, layouts[0])
        with torch.no_grad():
            for _ in range(2):  # the turns are kept with the layout
                torch.testing.assert_close(position.rotate(heads, layouts[1]), expected)
    other = Rectangle(torch.ones(3, dtype=torch.long), 1, starts=torch.tensor([1, 2, 3]))
    with torch.no_grad():
        turned = position.rotate(heads, other)
    torch.testing.assert_close(turned, position.rotate(heads, other))
    assert not torch.allclose(turned, expected)
