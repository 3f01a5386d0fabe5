import itertools
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from table_model import END, START, TableModel, log_prob

from regard.decoding import slots
from regard.decoding.beam import Beam
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.decoding.outputs import Hypothesis

PROMPTS = [[5, 4, 3, 2], [3], [2, 2, 5], [4, 5, 4, 5, 4, 5, 4], [2]]


def run(model: TableModel, prompts: list[list[int]], config: DecodingConfig) -> list[list[Hypothesis]]:
    return generate(model, prompts, config, START, END)


def by(strategy: type[Beam], model: TableModel, config: DecodingConfig) -> list[list[Hypothesis]]:
    """Also with a beam of one."""
    with mock.patch.object(slots, "strategy_for", strategy):
        return run(model, PROMPTS, config)


def same(one: Hypothesis, other: Hypothesis) -> bool:
    return (one.tokens, one.finished) == (other.tokens, other.finished) and abs(one.log_prob - other.log_prob) < 1e-5


def exhaustive(model: TableModel, prompt: list[int], limit: int, alpha: float) -> list[tuple[float, list[int]]]:
    """Every finished sequence with its score, best first, straight from the definition."""
    others = [token for token in range(model.table.shape[1]) if token != END]
    found = []
    for length in range(limit):
        for tokens in itertools.product(others, repeat=length):
            score = log_prob(model, prompt, [*tokens, END]) / ((5 + length + 1) / 6) ** alpha
            found.append((score, list(tokens)))
    return sorted(found, key=lambda pair: -pair[0])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_is_exhaustive_search(seed: int, alpha: float) -> None:
    model = TableModel(vocab_size=4, seed=seed)
    config = DecodingConfig(beam=3**4, n_best=10, length_penalty=alpha, length_ratio=0.5, extra_length=3)
    for prompt, hypotheses in zip(PROMPTS, run(model, PROMPTS, config), strict=True):
        if config.limit(prompt) > 5:
            continue
        expected = exhaustive(model, prompt, config.limit(prompt), alpha)[:10]
        assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-5)
        assert all(h.finished for h in hypotheses)


def plain_beam(model: TableModel, prompt: list[int], config: DecodingConfig) -> list[tuple[float, list[int]]]:
    """The algorithm in lists, without stopping early: the finished hypotheses with their scores, best first."""
    live, finished = [(0.0, [])], []
    for _ in range(config.limit(prompt)):
        longer = [[*tokens, token] for _, tokens in live for token in range(model.table.shape[1])]
        ranked = sorted(((log_prob(model, prompt, tokens), tokens) for tokens in longer), reverse=True)
        for total, tokens in ranked[: config.beam]:
            if tokens[-1] == END:
                finished.append((total / ((5 + len(tokens)) / 6) ** config.length_penalty, tokens[:-1]))
        live = [pair for pair in ranked if pair[1][-1] != END][: config.beam]
    return sorted(finished, reverse=True)[: config.n_best]


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("beam", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_narrow_beam_is_the_algorithm_in_lists(seed: int, beam: int) -> None:
    model = TableModel(vocab_size=5, seed=seed, end_bias=1.0)
    config = DecodingConfig(beam=beam, n_best=beam, extra_length=5)
    found = by(Beam, model, config)
    for prompt, hypotheses in zip(PROMPTS, found, strict=True):
        expected = plain_beam(model, prompt, config)
        finished = [h for h in hypotheses if h.finished]
        assert [h.tokens for h in finished] == [tokens for _, tokens in expected]
        assert [h.score for h in finished] == pytest.approx([score for score, _ in expected], abs=1e-5)
    assert any(h.finished for hypotheses in found for h in hypotheses)


@given(seed=st.integers(0, 10**6), end_bias=st.floats(-2, 3))
@settings(max_examples=25, deadline=None)
def test_a_beam_of_one_without_penalty_is_greedy(seed: int, end_bias: float) -> None:
    model = TableModel(seed=seed, end_bias=end_bias)
    config = DecodingConfig(length_penalty=0.0, extra_length=8)
    by_beam = by(Beam, model, config)
    for [one], [other] in zip(by_beam, run(model, PROMPTS, config), strict=True):
        assert same(one, other)


class Patient(Beam):
    """Never stops before the limit."""

    def choose(self, distribution, t):  # type: ignore[no-untyped-def]
        tokens, parents, done = super().choose(distribution, t)
        return tokens, parents, torch.zeros_like(done)


@pytest.mark.slow  # thousands of searches
@given(seed=st.integers(0, 10**6), end_bias=st.floats(-2, 3), alpha=st.floats(0, 1.5), beam=st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_stopping_early_changes_nothing(seed: int, end_bias: float, alpha: float, beam: int) -> None:
    model = TableModel(seed=seed, end_bias=end_bias)
    config = DecodingConfig(beam=beam, n_best=2, length_penalty=alpha, extra_length=12)
    stops = by(Beam, model, config)
    n_steps = len(model.rows_stepped)
    goes_on = by(Patient, model, config)
    for early, late in zip(stops, goes_on, strict=True):
        assert len(early) == len(late) == 2
        assert all(same(one, other) for one, other in zip(early, late, strict=True))
    assert n_steps <= len(model.rows_stepped) - n_steps


def test_stopping_early_saves_steps_and_done_prompts_are_dropped() -> None:
    model = TableModel(seed=1, end_bias=1.0)
    run(model, PROMPTS, DecodingConfig(beam=4, extra_length=100))
    assert len(model.rows_stepped) < 60
    assert model.rows_stepped == sorted(model.rows_stepped, reverse=True)
    assert model.rows_stepped[-1] < model.rows_stepped[0]


@pytest.mark.slow  # thousands of searches
@given(
    order=st.permutations(range(len(PROMPTS))),
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 4),
    budget=st.sampled_from([1, 30, 8192]),
    sample=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_a_prompt_alone_is_as_in_any_batch(order: list[int], seed: int, beam: int, budget: int, sample: bool) -> None:
    model = TableModel(seed=seed)
    config = DecodingConfig(
        beam=1 if sample else beam, n_best=beam, sample=sample, extra_length=10, batch_tokens=budget, seed=seed
    )
    together = run(model, [PROMPTS[i] for i in order], config)
    for place, i in enumerate(order):
        [alone] = run(model, [PROMPTS[i]], config)
        assert len(alone) == len(together[place])
        assert all(same(one, other) for one, other in zip(alone, together[place], strict=True))


@pytest.mark.slow  # hundreds of searches
@given(
    seed=st.integers(0, 10**6),
    end_bias=st.floats(-2, 3),
    vocab_size=st.sampled_from([2, 3, 6, 300]),
    block=st.sampled_from([0, 1]),
    extra=st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_n_best_is_sorted_distinct_and_scored_as_defined(
    seed: int, end_bias: float, vocab_size: int, block: int, extra: int
) -> None:
    model = TableModel(vocab_size=vocab_size, seed=seed, end_bias=end_bias)
    config = DecodingConfig(
        beam=4, n_best=4, length_penalty=0.8, extra_length=extra, length_ratio=0.5, block_ngrams=block
    )
    for prompt, hypotheses in zip(PROMPTS, run(model, PROMPTS, config), strict=True):
        assert 1 <= len(hypotheses) <= 4
        for finished in (True, False):
            scores = [h.score for h in hypotheses if h.finished == finished]
            assert scores == sorted(scores, reverse=True)
        assert [h.finished for h in hypotheses] == sorted((h.finished for h in hypotheses), reverse=True)
        assert len({(h.finished, *h.tokens) for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            said = [*h.tokens, END] if h.finished else h.tokens
            assert END not in h.tokens
            assert h.log_prob == pytest.approx(log_prob(model, prompt, said), abs=1e-4)
            assert h.score == pytest.approx(h.log_prob / ((5 + len(said)) / 6) ** 0.8, abs=1e-5)
            assert len(said) <= config.limit(prompt)
            assert h.finished or len(said) == config.limit(prompt)


@pytest.mark.parametrize("sample", [False, True])
def test_greedy_and_samples_are_scored_as_defined(sample: bool) -> None:
    model = TableModel(seed=4, end_bias=0.5)
    config = DecodingConfig(sample=sample, n_best=3 if sample else 1, length_penalty=0.8, extra_length=6)
    for prompt, hypotheses in zip(PROMPTS, run(model, PROMPTS, config), strict=True):
        for h in hypotheses:
            written = [*h.tokens, END] if h.finished else h.tokens
            assert h.score == pytest.approx(
                log_prob(model, prompt, written) / ((5 + len(written)) / 6) ** 0.8, abs=1e-4
            )


@pytest.mark.parametrize("beam", [1, 3])
def test_what_hits_the_limit_is_marked_unfinished(beam: int) -> None:
    model = TableModel(end_bias=-50.0)
    config = DecodingConfig(beam=beam, n_best=beam, extra_length=5)
    for prompt, hypotheses in zip(PROMPTS, run(model, PROMPTS, config), strict=True):
        assert len(hypotheses) == beam
        assert all(not h.finished and len(h.tokens) == len(prompt) + 5 for h in hypotheses)


def test_a_longer_penalty_favours_longer_outputs() -> None:
    model = TableModel(seed=3, end_bias=0.5)
    lengths = []
    for alpha in (0.0, 3.0):
        found = run(model, PROMPTS, DecodingConfig(beam=8, length_penalty=alpha, extra_length=10))
        lengths.append(sum(len(hypotheses[0].tokens) for hypotheses in found))
    assert lengths[0] < lengths[1]


def test_no_prompts_give_no_hypotheses() -> None:
    for config in (DecodingConfig(), DecodingConfig(beam=4), DecodingConfig(sample=True)):
        assert run(TableModel(), [], config) == []


def test_an_empty_prompt_is_a_prompt() -> None:
    [[one]] = run(TableModel(end_bias=2.0), [[]], DecodingConfig(beam=4))
    assert one.finished


def test_near_ties_are_counted() -> None:
    model = TableModel(end_bias=-50.0)
    model.table[:, 2] = model.table[:, 3]
    for config in (
        DecodingConfig(extra_length=6, length_ratio=0),
        DecodingConfig(beam=2, extra_length=6, length_ratio=0),
    ):
        [[tied]] = run(model, [[2, 3]], config)
        model_without = TableModel(end_bias=-50.0)
        [[clear]] = run(model_without, [[2, 3]], config)
        assert clear.near_ties == 0
        assert 0 < tied.near_ties <= 6


def test_progress_is_told_after_every_batch() -> None:
    told: list[tuple[int, int]] = []
    config = DecodingConfig(extra_length=3, batch_tokens=10)
    generate(TableModel(), PROMPTS, config, START, END, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (5, 5)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert len(told) > 1
