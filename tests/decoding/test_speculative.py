"""A draft changes how fast a model writes, never what."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from table_model import END, START, TableModel, log_prob
from test_engine import ARCHITECTURES, spell

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine, generate
from regard.decoding.search import plan
from regard.decoding.speculative import SpeculativeEngine
from regard.decoding.stopping import Stops
from regard.errors import RegardError
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn import packed

PROMPTS = [[2], [3, 4], [5, 2, 3], [4, 4, 4, 4], [3], [2, 5]]
MANNERS = {
    "plain": DecodingConfig(extra_length=12),
    "short": DecodingConfig(extra_length=2, length_ratio=0.5),
    "constrained": DecodingConfig(extra_length=12, repetition_penalty=1.6, block_ngrams=2, min_length=5),
    "counted": DecodingConfig(extra_length=9, block_ngrams=2, counted="prompt", never_first=(3,), never=(4,)),
    "begun": DecodingConfig(extra_length=9, first=(5, 3), min_length=4, repetition_penalty=1.3),
}


def near(model: TableModel, noise: float, seed: int = 7) -> TableModel:
    """A draft that often wants what the model wants."""
    draft = TableModel(vocab_size=model.table.shape[1])
    draft.table = model.table + noise * torch.randn(model.table.shape, generator=torch.Generator().manual_seed(seed))
    return draft


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("draft_tokens", [1, 3, 20])
def test_greedy_search_writes_the_same_tokens_with_any_draft(manner: str, draft_tokens: int) -> None:
    model, config = TableModel(vocab_size=7, end_bias=-1.0), replace(MANNERS[manner], draft_tokens=draft_tokens)
    alone = generate(model, PROMPTS, config, START, END)
    for draft in (model, near(model, 0.7), TableModel(vocab_size=7, seed=9)):
        engine = SpeculativeEngine(model, draft)
        found = engine.generate(PROMPTS, config, START, END)
        for ours, theirs in zip(itertools.chain(*found), itertools.chain(*alone), strict=True):
            assert ours == replace(theirs, log_prob=ours.log_prob, score=ours.score)
            assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
    assert 0 <= engine.acceptance < 0.9


def test_a_good_draft_saves_steps_and_a_draft_that_is_the_model_is_always_accepted() -> None:
    model, config = TableModel(vocab_size=7, end_bias=-9.0), DecodingConfig(extra_length=40, draft_tokens=4)
    own = SpeculativeEngine(model, model)
    own.generate(PROMPTS, config, START, END)
    assert own.acceptance == 1
    model.rows_stepped.clear()
    n_written = len(SpeculativeEngine(model, near(model, 0.2)).generate([[2]], config, START, END)[0][0].tokens)
    assert len(model.rows_stepped) < n_written / 2


@pytest.mark.parametrize("stopped", [False, True])
def test_a_stream_gives_the_greedy_answer(stopped: bool) -> None:
    model, config = TableModel(vocab_size=7, end_bias=-1.0), DecodingConfig(extra_length=25)
    stops = Stops(["ec", "b"], spell) if stopped else None
    alone = generate(model, [[3, 4]], config, START, END, stops=stops)[0][0]
    engine = SpeculativeEngine(model, near(model, 0.7))
    assert list(engine.stream([3, 4], config, START, END, stops)) == alone.tokens
    assert engine.n_proposed > 0


def exact(model: TableModel, prompt: list[int], n: int, temperature: float) -> dict[tuple[int, ...], float]:
    """P of every text of n tokens, or of fewer and an end."""
    scaled = TableModel(vocab_size=model.table.shape[1])
    scaled.table = model.table / temperature
    texts: dict[tuple[int, ...], float] = {}
    for tokens in itertools.product(range(model.table.shape[1]), repeat=n):
        text = tokens[: tokens.index(END) + 1] if END in tokens else tokens
        texts[text] = math.exp(log_prob(scaled, prompt, list(text)))
    return texts


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("draft_tokens", [1, 3])
def test_samples_have_the_distribution_of_the_model(draft_tokens: int) -> None:
    """χ² of all texts of three tokens, against the table; the draft's own distribution fails by far."""
    model, n_samples = TableModel(vocab_size=4, seed=2, scale=1.0), 3000
    draft = TableModel(vocab_size=4, seed=3, scale=1.0)
    config = DecodingConfig(
        sample=True, n_best=1000, temperature=0.8, length_ratio=0.0, extra_length=3, draft_tokens=draft_tokens
    )
    engine = SpeculativeEngine(model, draft)
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(n_samples // config.n_best):
        for best in engine.generate([[2, 3]], replace(config, seed=seed), START, END)[0]:
            text = (*best.tokens, END) if best.finished else tuple(best.tokens)
            counts[text] = counts.get(text, 0) + 1
    expected = {text: n_samples * p for text, p in exact(model, [2, 3], 3, 0.8).items()}
    assert sum(expected.values()) == pytest.approx(n_samples, rel=1e-6)
    assert chi_square(counts, expected) < 80  # 40 texts: about 39 ± 9
    of_draft = {text: n_samples * p for text, p in exact(draft, [2, 3], 3, 0.8).items()}
    assert chi_square(counts, of_draft) > 300
    assert 0.3 < engine.acceptance < 0.9


def chi_square(counts: dict[tuple[int, ...], int], expected: dict[tuple[int, ...], float]) -> float:
    return sum((counts.get(text, 0) - n) ** 2 / n for text, n in expected.items())


def test_samples_do_not_depend_on_how_many_are_proposed_or_on_company() -> None:
    model = TableModel(vocab_size=7, end_bias=-1.0)
    config = DecodingConfig(sample=True, n_best=2, top_k=5, top_p=0.9, extra_length=12, repetition_penalty=1.2)
    engine = SpeculativeEngine(model, near(model, 0.7))
    together = engine.generate(PROMPTS, config, START, END)
    for prompt, expected in zip(PROMPTS, together, strict=True):
        for n in (1, 3):
            alone = engine.generate([prompt], replace(config, draft_tokens=n, length_ratio=0.0), START, END)[0]
            limit = min(12, *(len(best.tokens) for best in expected))
            assert {tuple(b.tokens[:limit]) for b in alone} == {tuple(b.tokens[:limit]) for b in expected}


DRAFTS = {
    "stack": lambda: LanguageModel(
        Stack(StackConfig(vocab_size=30, d_model=8, n_heads=1, n_layers=1, d_ff=16, max_length=64))
    ),
    "transformer": lambda: Transformer(
        TransformerConfig(vocab_size=30, d_model=8, n_heads=1, n_layers=1, d_ff=16, max_length=40)
    ),
}


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize(("name", "weights"), [("stack", "float32"), ("transformer", "float32"), ("stack", "int8")])
def test_models_write_the_same_with_a_draft(name: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "SMALLEST", 1)
    torch.manual_seed(0)
    model, draft = ARCHITECTURES[name]().eval(), DRAFTS[name]().eval()
    prompts = [[2 + (i * j) % 20 for j in range(1, 2 + i % 5)] for i in range(6)]
    for config in (
        DecodingConfig(length_ratio=0.0, extra_length=20, weights=weights, draft_tokens=3),
        DecodingConfig(length_ratio=1.0, extra_length=5, weights=weights, repetition_penalty=1.4),
    ):
        alone = Engine(model).generate(prompts, config, START, END)
        for other in (model, draft):
            for (ours,), (theirs,) in zip(
                SpeculativeEngine(model, other).generate(prompts, config, START, END), alone, strict=True
            ):
                if ours.near_ties == theirs.near_ties == 0:
                    assert ours.tokens == theirs.tokens
                assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-3)


def test_a_beam_is_refused() -> None:
    model = TableModel()
    with pytest.raises(RegardError, match="set beam = 1, got 4"):
        SpeculativeEngine(model, model).generate([[2]], DecodingConfig(beam=4), START, END)


def test_batches_are_of_one_manner_and_within_bounds() -> None:
    model = TableModel()
    config = DecodingConfig(length_ratio=0.0, extra_length=10, batch_tokens=30)
    searches = plan(PROMPTS, config, START, END) + plan(PROMPTS[:2], replace(config, beam=1, never=(3,)), START, END)
    batches = list(SpeculativeEngine(model, model).batches(searches))
    assert sorted(map(len, batches)) == [2, 3, 3]
    assert all(len({search.manner for search in batch}) == 1 for batch in batches)
