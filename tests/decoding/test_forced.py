import pytest
from table_model import END, START, TableModel, log_prob

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.forced import score
from regard.errors import RegardError

PROMPTS = [[5, 4, 3, 2], [3], [2, 2, 5], []]


@pytest.mark.parametrize(
    "config", [DecodingConfig(), DecodingConfig(beam=4), DecodingConfig(sample=True, temperature=0.5)]
)
def test_forced_scores_are_what_the_search_reports(config: DecodingConfig) -> None:
    model = TableModel(seed=3, end_bias=-1.0)
    best = [hypotheses[0] for hypotheses in generate(model, PROMPTS, config, START, END)]
    assert len({len(h.tokens) for h in best}) > 1
    found = score(model, PROMPTS, [h.tokens for h in best], START, END)
    for h, scores in zip(best, found, strict=True):
        assert len(scores) == len(h.tokens) + 1
        assert sum(scores if h.finished else scores[:-1]) == pytest.approx(h.log_prob, abs=1e-4)


@pytest.mark.parametrize("budget", [1, 5, 2048])
def test_each_token_has_its_own_score_in_any_batch(budget: int) -> None:
    model = TableModel()
    targets = [[2, 3], [], [5, 5, 5, 2], [4]]
    told: list[int] = []
    found = score(model, PROMPTS, targets, START, END, budget, lambda done, total: told.append(done))
    assert told[-1] == 4
    for prompt, target, scores in zip(PROMPTS, targets, found, strict=True):
        said = [*target, END]
        sums = [log_prob(model, prompt, said[: n + 1]) for n in range(len(said))]
        expected = [after - before for after, before in zip(sums, [0.0, *sums], strict=False)]
        assert scores == pytest.approx(expected, abs=1e-5)


def test_nothing_to_score_and_unequal_counts() -> None:
    assert score(TableModel(), [], [], START, END) == []
    with pytest.raises(RegardError, match="4 prompts need as many targets, got 1"):
        score(TableModel(), PROMPTS, [[2]], START, END)
