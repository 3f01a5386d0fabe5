"""Running ahead of the question "who is done?" changes nothing but the time."""

import pytest
from table_model import END, START, TableModel

from regard.decoding import slots
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate

PROMPTS = [[5, 4, 3, 2], [3], [2, 2, 5], [4, 5, 4, 5, 4, 5, 4], [2]]
CONFIGS = [
    DecodingConfig(extra_length=9),
    DecodingConfig(beam=3, n_best=2, extra_length=9),
    DecodingConfig(sample=True, n_best=2, extra_length=9),
]


@pytest.mark.parametrize("ahead", [2, 5, 100])
@pytest.mark.parametrize("config", CONFIGS, ids=["greedy", "beam", "sampling"])
def test_the_same_hypotheses_come_out(config, ahead, monkeypatch):
    model = TableModel(end_bias=1.0)
    asked_every_step = generate(model, PROMPTS, config, START, END)
    monkeypatch.setitem(slots.AHEAD, "cpu", ahead)
    assert generate(model, PROMPTS, config, START, END) == asked_every_step
