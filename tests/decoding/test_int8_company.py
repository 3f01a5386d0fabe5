"""In 8 bits, too, a search that joins and leaves others gives the answer that it gives alone."""

import random
from dataclasses import replace

import pytest
import torch
from test_engine import ARCHITECTURES, draw_search, run_in_company

from regard.decoding.engine import Engine
from regard.nn import packed


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("name", ["transformer", "llama", "stack", "lstm"])
def test_an_answer_in_int8_is_the_same_alone_and_in_any_company(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SMALLEST", 1)  # or else weights of this size are not copied
    torch.manual_seed(0)
    model, chance = ARCHITECTURES[name]().eval(), random.Random(3)
    searches = [draw_search(chance, 10) for _ in range(16)]
    assert {(search.config.beam > 1, search.config.sample) for search in searches} == {
        (False, False),
        (True, False),
        (False, True),
    }
    in_int8 = [replace(search, config=replace(search.config, weights="int8")) for search in searches]
    engine, n_compared, n_near = Engine(model), 0, 0
    for ticket in run_in_company(engine, in_int8, chance):
        alone = Engine(model).answer([ticket.search])[0]
        for ours, theirs in zip(ticket.answer(), alone, strict=True):
            if ours.near_ties == theirs.near_ties == 0:
                assert ours.tokens == theirs.tokens
                n_compared += 1
            else:
                n_near += 1
            assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
    assert n_near <= 0.1 * n_compared
    exact = Engine(model).answer([searches[0]])[0][0].log_prob
    in_eight_bits = Engine(model).answer([in_int8[0]])[0][0].log_prob
    assert exact != pytest.approx(in_eight_bits, abs=1e-6)  # the weights really are in 8 bits
