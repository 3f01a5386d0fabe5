from typing import Any

import pytest
import torch
from table_model import END, START, TableModel

from regard.decoding.config import SAMPLERS, DecodingConfig
from regard.decoding.distribution import (
    CHUNK,
    Distribution,
    draw,
    min_p,
    reshape,
    surprise,
    temperature,
    top,
    top_k,
    top_p,
)
from regard.decoding.engine import generate
from regard.decoding.greedy import seed_of

PROBS = torch.tensor([[0.1, 0.4, 0.05, 0.3, 0.15]])
LOGITS = PROBS.log() + 3


def kept(logits: torch.Tensor) -> list[int]:
    return torch.isfinite(logits)[0].nonzero()[:, 0].tolist()


def test_what_each_sampler_keeps() -> None:
    assert kept(top_k(LOGITS, 2)) == [1, 3]
    assert kept(top_k(LOGITS, 9)) == [0, 1, 2, 3, 4]
    assert kept(top_p(LOGITS, 0.6)) == [1, 3]
    assert kept(top_p(LOGITS, 0.75)) == [1, 3, 4]
    assert kept(top_p(LOGITS, 0.01)) == [1]
    assert kept(min_p(LOGITS, 0.3)) == [1, 3, 4]
    assert kept(min_p(LOGITS, 1.0)) == [1]
    assert torch.allclose(temperature(LOGITS, 0.5).softmax(-1), PROBS**2 / (PROBS**2).sum())


def test_top_p_takes_no_more_than_it_needs_where_the_sum_is_exact() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()  # these and their sums are exact in binary
    assert kept(top_p(logits, 0.5)) == [0]
    assert kept(top_p(logits, 0.75)) == [0, 1]
    assert kept(top_p(logits, 0.75 + 2**-20)) == [0, 1, 2]


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_never_drop_the_best_nor_change_the_order(name: str) -> None:
    settings: dict[str, Any] = {"temperature": 0.7, "top_k": 3, "top_p": 0.5, "min_p": 0.2}
    logits = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    after = reshape(logits, DecodingConfig(sample=True, **{name: settings[name]}))
    assert not torch.equal(after, logits)
    assert torch.equal(after.argmax(-1), logits.argmax(-1))
    for before, row in zip(logits, after, strict=True):
        left = torch.isfinite(row)
        assert torch.equal(before[left].argsort(), row[left].argsort())


def test_default_settings_change_nothing() -> None:
    assert reshape(LOGITS, DecodingConfig(sample=True)) is LOGITS


def test_draws_follow_the_probabilities() -> None:
    uniforms = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    tokens, distances = draw(LOGITS.expand(10_000, -1), uniforms)
    counts = torch.bincount(tokens, minlength=5) / 10_000
    assert torch.allclose(counts, PROBS[0], atol=2e-4)
    assert torch.equal(tokens, tokens.sort().values)
    assert distances[999] < 1e-4 < distances[500]  # 0.1 is where token 0 ends


def test_a_dropped_token_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(3, -1)
    uniforms = torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert draw(logits, uniforms)[0].tolist() == [1, 3, 3]


def test_the_seed_decides_and_copies_differ() -> None:
    model = TableModel(vocab_size=50, end_bias=-3.0)

    def say(seed: int) -> list[list[int]]:
        config = DecodingConfig(sample=True, n_best=4, seed=seed)
        return [h.tokens for h in generate(model, [[2, 3, 4]], config, START, END)[0]]

    assert say(1) == say(1)
    assert say(1) != say(2)
    assert len({tuple(tokens) for tokens in say(1)}) == 4
    assert len({seed_of(seed, copy, [5]) for seed in range(10) for copy in range(10)}) == 100


def test_sampling_the_best_token_alone_is_greedy() -> None:
    model = TableModel(vocab_size=50)
    [[greedy]] = generate(model, [[2, 3]], DecodingConfig(), START, END)
    for settings in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-4}):
        config = DecodingConfig(sample=True, **settings)  # type: ignore[arg-type]
        [[sampled]] = generate(model, [[2, 3]], config, START, END)
        assert sampled.tokens == greedy.tokens
        assert sampled.log_prob == pytest.approx(greedy.log_prob, abs=1e-4)


@pytest.mark.parametrize("n", [3, CHUNK * 30, CHUNK * 30 + 1, CHUNK * 31 - 1])
@pytest.mark.parametrize("k", [1, 3])
def test_top_is_topk(n: int, k: int) -> None:
    x = torch.randn(9, n, generator=torch.Generator().manual_seed(n))
    x[:3, -1] = 9.0
    x[3:5, 0] = 9.0
    x[5] = -torch.inf
    x[5, 2] = 0.0
    values, ids = top(x, k)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(1, ids), values)
    assert all(len(set(row)) == k for row in ids.tolist())


def test_the_best_are_normalised_over_the_whole_vocabulary() -> None:
    logits = 4 * torch.randn(150, CHUNK * 20 + 5, generator=torch.Generator().manual_seed(0)) + 50
    values, ids = Distribution(logits).top(4)
    expected = logits.log_softmax(-1)
    assert torch.allclose(values, expected.gather(1, ids), atol=1e-5)
    assert torch.allclose(surprise(logits, ids[:, 3]), -expected.gather(1, ids[:, 3:])[:, 0], atol=1e-5)
