import pytest
import torch
from table_model import END, START, TableModel

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.ensemble import Ensemble
from regard.decoding.pool import can_capture
from regard.errors import RunError

PROMPTS = [[5, 4, 3, 2], [3], [2, 2, 5]]


@pytest.mark.parametrize("beam", [1, 3])
def test_an_ensemble_of_one_or_of_equals_is_that_model(beam: int) -> None:
    model = TableModel(seed=1)
    config = DecodingConfig(beam=beam, n_best=beam, extra_length=10)
    alone = generate(model, PROMPTS, config, START, END)
    for n in (1, 3):
        together = generate(Ensemble([model] * n), PROMPTS, config, START, END)
        for one, other in zip(alone, together, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    models = [TableModel(seed=seed) for seed in range(3)]
    ensemble = Ensemble(models)
    tokens = torch.tensor([[2, 3]] * 3)
    state, first = ensemble.start(PROMPTS, START)
    logits = torch.cat([first[:, None], ensemble.step(tokens, state)], 1)
    begun = [(model, *model.start(PROMPTS, START)) for model in models]
    each = [torch.cat([first[:, None], model.step(tokens, state)], 1) for model, state, first in begun]
    assert torch.allclose(logits.softmax(-1), sum(one.softmax(-1) for one in each) / 3, atol=1e-6)


def test_an_ensemble_state_moves_all_its_parts() -> None:
    ensemble = Ensemble([TableModel(seed=seed) for seed in range(2)])
    state, _ = ensemble.start(PROMPTS, START)
    ensemble.step(torch.tensor([[2], [3], [4]]), state)
    expected = ensemble.step(torch.tensor([[2], [3], [4]]), state)
    state.truncate(torch.tensor([2, 2, 2]))
    state.select(torch.tensor([2, 0]))
    other, _ = ensemble.start([PROMPTS[1]], START)
    state.join(other)
    assert state.n_rows == 3
    assert state.lengths.tolist() == [2, 2, 1]
    assert other.n_rows == 1
    assert torch.equal(ensemble.step(torch.tensor([[4], [2], [3]]), state)[:2], expected[[2, 0]])


def test_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RunError, match="share a vocabulary; these have 6 and 7 tokens"):
        generate(Ensemble([TableModel(6), TableModel(7)]), PROMPTS, DecodingConfig(), START, END)
    with pytest.raises(RunError, match="at least one"):
        Ensemble([])


def test_the_steps_of_an_ensemble_are_not_captured() -> None:
    assert not can_capture(Ensemble([TableModel(), TableModel(seed=1)]))
