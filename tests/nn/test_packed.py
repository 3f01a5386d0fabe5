"""Many short sequences as one: the blocks visited are those that hold something to see, and the answer is the same."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from regard.nn import packed
from regard.nn.attention import Attend
from regard.nn.layout import Ragged
from regard.nn.positions import Position, Space
from regard.nn.scores import ScaledDot
from regard.nn.sight import causal, everywhere, prefix, window

LENGTHS = [3, 1, 7, 16, 2, 2, 9, 1, 12, 40]
RULES = {"everywhere": everywhere, "causal": causal, "window": window(2), "prefix": prefix(torch.tensor(LENGTHS) // 2)}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")  # slowly, and the same
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("others", [LENGTHS, list(reversed(LENGTHS)), [5] * len(LENGTHS)])
def test_packed_sequences_give_what_the_equation_gives(rule, others, monkeypatch):
    monkeypatch.setattr(packed, "BLOCK", 16)
    torch.manual_seed(0)
    layout, key_layout = Ragged(LENGTHS), Ragged(others)
    queries = torch.randn(layout.n_rows, 2, 8)
    keys, values = torch.randn(2, key_layout.n_rows, 2, 8)
    attend = Attend(ScaledDot(8, 64), Position(Space(16, 2, 64)))
    memory = attend.remember(keys, values, key_layout)
    expected = attend.readable(queries, layout, memory, RULES[rule])
    out = packed.attend_packed(queries, layout, keys, values, key_layout, RULES[rule], 8**-0.5)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("others", [LENGTHS, list(reversed(LENGTHS)), [5] * len(LENGTHS)])
def test_every_block_with_something_to_see_is_visited_and_few_others(others, monkeypatch):
    monkeypatch.setattr(packed, "BLOCK", 16)
    layout, key_layout = Ragged(LENGTHS), Ragged(others)
    mask = packed.block_mask(layout, key_layout, everywhere)
    exact = create_block_mask(mask.mask_mod, 1, 1, layout.n_rows, key_layout.n_rows, device="cpu", BLOCK_SIZE=16)
    assert mask.to_dense().tolist() == exact.to_dense().tolist()
