import dataclasses

import pytest
import torch
from table_model import END, N_CONTEXTS, START, TableModel, log_prob

from regard.decoding.config import DecodingConfig
from regard.decoding.constraints import block_ends, block_ngrams, repetition_penalty
from regard.decoding.engine import generate
from regard.decoding.outputs import Hypothesis
from regard.errors import ConfigError, RegardError

PROMPTS = [[5, 4, 3, 2], [3], [2, 2, 5]]
WAYS = {
    "greedy": DecodingConfig(extra_length=12),
    "beam": DecodingConfig(beam=3, n_best=3, extra_length=12),
    "sampling": DecodingConfig(sample=True, n_best=3, extra_length=12),
}


def with_(way: str, **changes: float) -> DecodingConfig:
    return dataclasses.replace(WAYS[way], **changes)  # type: ignore[arg-type]


def all_of(model: TableModel, config: DecodingConfig, prefixes: list[list[int]] | None = None) -> list[Hypothesis]:
    return [h for hypotheses in generate(model, PROMPTS, config, START, END, prefixes) for h in hypotheses]


def repeats(tokens: list[int], n: int) -> bool:
    ngrams = list(zip(*(tokens[i:] for i in range(n)), strict=False))
    return len(ngrams) != len(set(ngrams))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_comes_twice(way: str, n: int) -> None:
    model = TableModel(vocab_size=4, seed=2, end_bias=-1.0)
    assert any(repeats(h.tokens, n) for h in all_of(model, WAYS[way]))
    assert not any(repeats(h.tokens, n) for h in all_of(model, with_(way, block_ngrams=n)))


@pytest.mark.parametrize("way", WAYS)
def test_no_end_before_the_least_length(way: str) -> None:
    model = TableModel(end_bias=2.0)
    assert min(len(h.tokens) for h in all_of(model, WAYS[way])) < 5
    longer = all_of(model, with_(way, min_length=5))
    assert min(len(h.tokens) for h in longer) == 5
    assert any(h.finished for h in longer)


@pytest.mark.parametrize("way", WAYS)
def test_some_tokens_are_never_written(way: str) -> None:
    model = TableModel(seed=3, end_bias=-1.0)
    written = {token for h in all_of(model, WAYS[way]) for token in h.tokens}
    never = tuple(sorted(written)[1:3])
    without = generate(model, PROMPTS, dataclasses.replace(WAYS[way], never=never), START, END)
    for prompt, hypotheses in zip(PROMPTS, without, strict=True):
        for h in hypotheses:
            assert not set(never) & set(h.tokens)
            said = [*h.tokens, END] if h.finished else h.tokens  # the others keep the probability that they had
            assert h.log_prob == pytest.approx(log_prob(model, prompt, said), abs=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_where_everything_is_blocked_the_sentence_ends(way: str) -> None:
    for h in all_of(TableModel(vocab_size=3), with_(way, block_ngrams=1, min_length=10)):
        assert sorted(h.tokens) == [1, 2]
        assert h.finished


@pytest.mark.parametrize("way", WAYS)
def test_a_forced_prefix_of_any_length_begins_the_output(way: str) -> None:
    model = TableModel(seed=5, end_bias=1.0)
    prefixes: list[list[int]] = [[2, 5, 5, 2], [], [3]]
    config = with_(way, min_length=6, block_ngrams=1)  # the prefix wins over these
    found = generate(model, PROMPTS, config, START, END, prefixes)
    for prompt, prefix, hypotheses in zip(PROMPTS, prefixes, found, strict=True):
        for h in hypotheses:
            assert h.tokens[: len(prefix)] == prefix
            said = [*h.tokens, END] if h.finished else h.tokens
            assert h.log_prob == pytest.approx(log_prob(model, prompt, said), abs=1e-4)
    free = generate(model, PROMPTS, config, START, END)
    assert [h.tokens for h in free[1]] == [h.tokens for h in found[1]]
    assert any(a[0].tokens != b[0].tokens for a, b in zip(free, found, strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_a_prefix_longer_than_the_limit_is_written_and_ended(way: str) -> None:
    prefix = [2, 5, 5, 2]
    config = with_(way, extra_length=1, length_ratio=0.0)
    for h in generate(TableModel(seed=5, end_bias=50.0), [[3]], config, START, END, [prefix])[0][:1]:
        assert h.tokens == prefix and h.finished


@pytest.mark.parametrize("way", WAYS)
def test_a_prefix_outlasts_prompts_that_are_done_before_it_ends(way: str) -> None:
    model = TableModel(seed=5, end_bias=9.0)
    prompts = [[5] * 6, [4] * 5, [3]]
    prefix = [2, 5, 5, 2, 3, 4, 5]
    found = generate(model, prompts, WAYS[way], START, END, [[], [], prefix])
    assert max(len(found[0][0].tokens), len(found[1][0].tokens)) < 3
    assert all(h.tokens[: len(prefix)] == prefix for h in found[2])


@pytest.mark.parametrize("way", ["greedy", "beam"])
def test_the_best_output_as_prefix_gives_itself(way: str) -> None:
    model = TableModel(seed=7, end_bias=0.5)
    free = generate(model, PROMPTS, WAYS[way], START, END)
    prefixes = [hypotheses[0].tokens[:2] for hypotheses in free]
    forced = generate(model, PROMPTS, with_(way, length_penalty=0.0), START, END, prefixes)
    assert all(h[0].tokens[: len(p)] == p for h, p in zip(forced, prefixes, strict=True))
    if way == "greedy":
        assert [h[0].tokens for h in forced] == [h[0].tokens for h in free]


@pytest.mark.parametrize("way", ["greedy", "beam"])
def test_a_repetition_penalty_makes_repetition_rarer(way: str) -> None:
    model = TableModel(vocab_size=8, seed=4, end_bias=-5.0)

    def distinct(config: DecodingConfig) -> float:
        return sum(len(set(h.tokens)) / len(h.tokens) for h in all_of(model, config))

    assert distinct(with_(way, repetition_penalty=5.0)) > distinct(WAYS[way])
    assert all_of(model, with_(way, repetition_penalty=1.0)) == all_of(model, WAYS[way])


def test_the_repetition_penalty_is_that_of_the_paper() -> None:
    logits = torch.tensor([[2.0, -1.0, 0.5, 3.0]])
    history = torch.tensor([[0, 1, 0]])
    assert repetition_penalty(logits, history, 2.0).tolist() == [[1.0, -2.0, 0.5, 3.0]]


def test_ngrams_are_found_at_their_places() -> None:
    history = torch.tensor([[1, 2, 3, 1, 2], [1, 2, 1, 3, 1]])
    log_probs = torch.zeros(2, 5)
    inf = torch.inf
    assert block_ngrams(log_probs, history, 3).tolist() == [[0, 0, 0, -inf, 0], [0, 0, 0, 0, 0]]
    assert block_ngrams(log_probs, history, 2).tolist() == [[0, 0, 0, -inf, 0], [0, 0, -inf, -inf, 0]]
    assert torch.equal(block_ngrams(log_probs, history, 6), log_probs)


def test_the_end_is_blocked_only_where_something_else_is_left() -> None:
    log_probs = torch.tensor([[-1.0, -2.0], [-1.0, -torch.inf]])
    assert block_ends(log_probs, torch.tensor([0])).tolist() == [[-torch.inf, -2.0], [-1.0, -torch.inf]]


def test_prefixes_are_checked() -> None:
    with pytest.raises(RegardError, match="3 prompts need as many prefixes, got 1"):
        generate(TableModel(), PROMPTS, DecodingConfig(), START, END, [[2]])
    with pytest.raises(RegardError, match="holds the end token"):
        generate(TableModel(), PROMPTS, DecodingConfig(), START, END, [[2], [END], []])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, got 0"),
        ({"n_best": 3}, "n_best = 3 needs a beam of at least 3, got 1"),
        ({"sample": True, "beam": 2}, "exclude each other"),
        ({"temperature": 0.0}, "above 0"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1, got 1.5"),
        ({"length_penalty": -1.0}, "length_penalty must not be negative"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DecodingConfig(**settings)  # type: ignore[arg-type]


def test_a_token_that_the_model_has_not_cannot_be_forbidden() -> None:
    with pytest.raises(ConfigError, match="never lists the token 99; the model has"):
        generate(TableModel(), PROMPTS, DecodingConfig(never=(99,)), START, END)


def written(hypotheses: list[Hypothesis]) -> list[list[int]]:
    return [h.tokens for h in hypotheses]


@pytest.mark.parametrize("way", WAYS)
def test_a_text_ends_at_any_of_several_tokens(way: str) -> None:
    model, other = TableModel(seed=3, end_bias=-1.0), 3
    assert any(other in h.tokens for h in all_of(model, WAYS[way]))
    ended = all_of(model, with_(way, ends=(other,)))
    assert not any({END, other} & set(h.tokens) for h in ended)
    assert any(h.finished for h in ended)
    assert min(len(h.tokens) for h in all_of(model, with_(way, ends=(other,), min_length=4))) >= 4


def test_greedy_search_ends_where_the_first_of_the_end_tokens_would_stand() -> None:
    model = TableModel(seed=3, end_bias=-9.0)
    for free, ended in zip(all_of(model, WAYS["greedy"]), all_of(model, with_("greedy", ends=(3, 4))), strict=True):
        places = [i for i, token in enumerate(free.tokens) if token in (3, 4)]
        assert ended.tokens == free.tokens[: places[0] if places else None]


def test_a_beam_with_several_ends_finds_what_an_exhaustive_search_finds() -> None:
    """Of every hypothesis several continuations end, and none of the beam's places is lost to them."""
    model, limit, ends = TableModel(vocab_size=5, seed=4), 4, (END, 3, 4)
    texts = [[]] + [[a] for a in (1, 2)] + [[a, b] for a in (1, 2) for b in (1, 2)]
    texts += [[a, b, c] for a in (1, 2) for b in (1, 2) for c in (1, 2)]
    config = DecodingConfig(beam=20, length_penalty=0.0, length_ratio=0.0, extra_length=limit, ends=ends[1:])
    for prompt, (best, *_) in zip(PROMPTS, generate(model, PROMPTS, config, START, END), strict=True):
        scores = {tuple(text): max(log_prob(model, prompt, [*text, end]) for end in ends) for text in texts}
        assert best.log_prob == pytest.approx(max(scores.values()), abs=1e-4)
        assert scores[tuple(best.tokens)] == pytest.approx(best.log_prob, abs=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_no_sequence_that_is_forbidden(way: str) -> None:
    model = TableModel(seed=3, end_bias=-1.0)
    pairs = {pair for h in all_of(model, WAYS[way]) for pair in zip(h.tokens, h.tokens[1:], strict=False)}
    never = tuple(sorted(pairs)[:3])
    without = all_of(model, with_(way, never_in_a_row=never))
    assert not any(set(never) & set(zip(h.tokens, h.tokens[1:], strict=False)) for h in without)
    assert {token for pair in never for token in pair} & {token for h in without for token in h.tokens}


@pytest.mark.sampled("every architecture or strategy takes its own searches; one shows that the way holds")
@pytest.mark.parametrize("way", WAYS)
def test_what_a_text_begins_with_and_what_not(way: str) -> None:
    model = TableModel(seed=3, end_bias=-1.0)
    assert all(h.tokens[:1] == [5] for h in all_of(model, with_(way, first=(5,))))
    begun = all_of(model, with_(way, first=(5,)), [[4, 2]] * len(PROMPTS))
    assert all(h.tokens[:3] == [5, 4, 2] for h in begun)
    usual = {h.tokens[0] for h in all_of(model, WAYS[way]) if h.tokens}
    few = tuple(sorted(usual)[:2])
    others = all_of(model, with_(way, never_first=few))
    assert not {h.tokens[0] for h in others if h.tokens} & set(few)
    assert {token for h in others for token in h.tokens[1:]} & set(few)
    assert all(h.tokens[1] not in few for h in all_of(model, with_(way, never_first=few, first=(5,))) if h.tokens[1:])


def test_a_penalty_counts_the_prompt_where_asked() -> None:
    """Alone or beside longer prompts; what is not there (a shorter prompt's padding) counts as nothing."""
    model = TableModel(seed=5, end_bias=-1.0)
    huge = DecodingConfig(extra_length=1, repetition_penalty=1e6, counted="prompt")
    for prompt, (best,) in zip(PROMPTS, generate(model, PROMPTS, huge, START, END), strict=True):
        logits = repetition_penalty(model.table[context_of(prompt)][None], torch.tensor([prompt]), 1e6)
        assert [*best.tokens, END][0] == int(logits.argmax())
    first = [best.tokens for (best,) in generate(model, PROMPTS, with_("greedy", block_ngrams=1), START, END)]
    none_read = with_("greedy", block_ngrams=1, counted="prompt")
    assert any(set(prompt) & set(tokens) for prompt, tokens in zip(PROMPTS, first, strict=True))
    for prompt, (best,) in zip(PROMPTS, generate(model, PROMPTS, none_read, START, END), strict=True):
        assert not set(prompt) & set(best.tokens)
        assert [best] == generate(model, [prompt], none_read, START, END)[0]


def test_the_start_token_counts_where_asked() -> None:
    model = TableModel(seed=6, end_bias=-2.0)
    without_start = with_("greedy", block_ngrams=1, counted="start")
    assert any(START in tokens for tokens in written(all_of(model, with_("greedy", block_ngrams=1))))
    assert not any(START in tokens for tokens in written(all_of(model, without_start)))
    with pytest.raises(ConfigError, match="counted must be one of"):
        DecodingConfig(counted="source")


def context_of(prompt: list[int]) -> int:
    return (hash(tuple(prompt)) % N_CONTEXTS * 31 + START + 7) % N_CONTEXTS
