import itertools
from collections import Counter
from math import isinf, log

import numpy as np
import pytest
import torch
from small_markov import MODELS, V, batch, corpus, flat, make

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.errors import ConfigError, RegardError
from regard.models.markov import KINDS, Markov, MarkovConfig
from regard.nn.layout import Ragged
from regard.runs.weights import pack_tensors, read_tensors, set_weights, weights_of

# Distributions.


def windows(model, longest=3):
    """Every context up to some words: also those never seen, and beginnings."""
    width = model.predictor.window or longest
    for n in range(1, longest + 1):
        for words in itertools.product(range(V), repeat=n):
            yield ([V] * width + list(words))[-width:]


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_every_context_has_a_distribution(settings):
    model = make(**settings)
    every = torch.tensor(list(windows(model)))
    rows = model.predictor.rows(every)
    torch.testing.assert_close(rows.sum(1), torch.ones(len(every)), atol=1e-5, rtol=0)
    assert (rows >= -1e-7).all() and (settings["smoothing"] == "none" or (rows > 0).all())
    for word in range(V):
        torch.testing.assert_close(model.predictor.probabilities(every, torch.full((len(every),), word)), rows[:, word])


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_scores_are_entries_of_the_rows(settings):
    model = make(**settings)
    tokens, labels, layout = batch()
    rows = model(tokens, layout)
    torch.testing.assert_close(model.log_probs(tokens, labels, layout), rows.gather(1, labels[:, None])[:, 0])


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_the_future_and_the_neighbours_do_not_matter(settings):
    model = make(**settings)
    tokens, labels, layout = batch()
    whole = model.log_probs(tokens, labels, layout)
    lengths = layout.lengths.tolist()
    for t, w, expected in zip(tokens.split(lengths), labels.split(lengths), whole.split(lengths), strict=True):
        for n in range(1, len(t) + 1):
            torch.testing.assert_close(model.log_probs(t[:n], w[:n], Ragged([n])), expected[:n])


def ask(n, seed):
    """As in document 004: of much that is said, one word decides what follows "ran", at any distance."""
    random = np.random.default_rng(seed)
    sentences = []
    for length, place in zip(random.integers(3, 9, n), random.random(n), strict=True):
        words = random.integers(5, 30, length).tolist()
        knows = int(random.integers(0, 2))
        words[int(place * length)] = knows  # 0: program, 1: battery
        sentences.append([*words, 2, 3 + knows])  # ran, then please or down
    return sentences


def test_the_mask_beats_all_votes_and_these_beat_the_chain():
    held_out = ask(50, seed=1)
    texts = torch.tensor([t for s in held_out for t in s[:-1]])
    labels = torch.tensor([t for s in held_out for t in s[1:]])
    layout = Ragged([len(s) - 1 for s in held_out])
    loss = {}
    for name, changes in {"chain": {}, "skips": {"kind": "skips"}, "masked": {"kind": "masked"}}.items():
        model = Markov(MarkovConfig(vocab_size=30, **changes))
        model.count([flat(ask(300, seed=0))])
        loss[name] = -float(model.log_probs(texts, labels, layout)[layout.offsets[1:].long() - 1].mean())
    assert loss["masked"] < 0.5 * log(2) and loss["masked"] < loss["skips"] < loss["chain"]


# Saving.


@pytest.mark.parametrize("kind", KINDS)
def test_counts_survive_a_file(kind, tmp_path):
    model = make(kind=kind)
    tokens, labels, layout = batch()
    path = tmp_path / "model.safetensors"
    path.write_bytes(pack_tensors(weights_of(model)))
    fresh = Markov(model.config)
    set_weights(fresh, read_tensors(path), str(path))
    torch.testing.assert_close(fresh.log_probs(tokens, labels, layout), model.log_probs(tokens, labels, layout))
    assert not list(model.parameters())


# Decoding.


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_steps_give_what_reading_gives(settings):
    model = make(**settings)
    prompts = [[1], [1, 3], [1, 2, 6, 4]]
    later = torch.tensor([[2, 6, 4], [5, 5, 0], [2, 2, 3]])
    texts = [[*p, *later[i].tolist()] for i, p in enumerate(prompts)]
    for sizes in ([1, 1, 1], [2, 1], [3]):
        state, first = model.start(prompts, 1, room=4)
        steps = torch.cat([first[:, None], *(model.step(part, state) for part in later.split(sizes, 1))], 1)
        for i, text in enumerate(texts):
            whole = model(torch.tensor(text), Ragged([len(text)]))
            torch.testing.assert_close(steps[i], whole[len(prompts[i]) - 1 :])
        assert state.lengths.tolist() == [3, 3, 3]


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_an_empty_text_begins_with_the_token_that_is_given(settings):
    model = make(**settings)
    _, first = model.start([[], [1]], 1)
    torch.testing.assert_close(first.exp().sum(1), torch.ones(2))
    torch.testing.assert_close(first[0], first[1])


def test_states_select_truncate_and_join():
    model = make(order=3)
    state, _ = model.start([[1, 2, 6], [1]], 1, copies=2, room=5)
    model.step(torch.tensor([[3], [4], [5], [6]]), state)
    state.reorder(torch.tensor([1, 0, 3, 2]))
    state.truncate(torch.tensor([0, 1, 1, 1]))
    state.select(torch.tensor([2, 3, 0, 1]))
    other, _ = model.start([[1, 4, 4, 4, 4]], 1, room=9)
    state.join(other)
    assert state.n_rows == 5 and state.lengths.tolist() == [1, 1, 0, 1, 0]
    logits = model.step(torch.full((5, 1), 2), state)[:, 0]
    for row, text in zip(
        logits, ([1, 6, 2], [1, 5, 2], [1, 2, 6, 2], [1, 2, 6, 3, 2], [1, 4, 4, 4, 4, 2]), strict=True
    ):
        torch.testing.assert_close(row, model(torch.tensor(text), Ragged([len(text)]))[-1])


@pytest.mark.parametrize("settings", [{"order": 3}, {"kind": "skips"}, {"kind": "masked"}], ids=str)
def test_every_search_writes_with_it(settings):
    model = make(**settings)
    prompts = [[1, 2, 6], [1], [1, 3]]
    base = {"max_length": 6, "length_penalty": 0.0}
    greedy = generate(model, prompts, DecodingConfig(**base), 1, 0)
    beam = generate(model, prompts, DecodingConfig(beam=4, **base), 1, 0)
    for prompt, (one,), (best,) in zip(prompts, greedy, beam, strict=True):
        for found in (one, best):
            text = [*prompt, *found.tokens, *([0] if found.finished else [])]
            scores = model(torch.tensor(text[:-1]), Ragged([len(text) - 1]))[len(prompt) - 1 :]
            own = scores.gather(1, torch.tensor(text[len(prompt) :])[:, None]).sum()
            assert found.log_prob == pytest.approx(own.item(), abs=1e-4)
        assert best.finished >= one.finished and (best.finished > one.finished or best.log_prob >= one.log_prob - 1e-5)
    drawn = generate(model, [[1, 2, 6]], DecodingConfig(sample=True, n_best=200, max_length=1), 1, 0)[0]
    first = Counter((*hypothesis.tokens, 0)[0] for hypothesis in drawn)
    p = model(torch.tensor([1, 2, 6]), Ragged([3]))[-1].exp()
    assert max(abs(first[w] / 200 - p[w].item()) for w in range(V)) < 0.12


# What a skip model looks at.


@pytest.mark.parametrize("reach", [2, 0])
def test_weights_are_a_causal_attention_picture(reach):
    model = make(kind="masked", reach=reach)
    tokens = torch.tensor([1, 2, 6, 4, 1, 0, 3])
    weights = model.weights(tokens)
    torch.testing.assert_close(weights.sum(1), torch.ones(7))
    places = torch.arange(7)
    back = places[:, None] - places
    assert not weights[(back < 0) | ((back > reach) & (reach > 0))].any()
    for t in range(7):
        seen = tokens[: t + 1]
        torch.testing.assert_close(
            weights[t, : t + 1] @ model.votes(seen), model(seen, Ragged([t + 1]))[-1].exp(), atol=1e-6, rtol=1e-5
        )


def test_a_chain_has_no_votes():
    with pytest.raises(RegardError, match="a chain has no votes"):
        make().votes(torch.tensor([1, 2]))


# Bad input.


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"vocab_size": 0}, "vocab_size must be at least 1"),
        ({"order": 0}, "order must be at least 1, got 0"),
        ({"reach": -1}, "reach must not be negative"),
        ({"kind": "skip"}, "unknown kind of Markov model 'skip'; choose one of: chain, masked, skips"),
        ({"smoothing": "laplace"}, "unknown smoothing 'laplace'; choose one of: kneser_ney, none"),
        ({"kind": "skips", "order": 3}, "order must be 2, got 3"),
        ({"kind": "skips", "vocab_size": 3_000_000}, "at most 2,097,152 words"),
    ],
)
def test_settings_that_cannot_be(settings, says):
    with pytest.raises(ConfigError, match=says):
        MarkovConfig(**({"vocab_size": V} | settings))


def test_a_model_that_has_counted_nothing_says_so():
    model = Markov(MarkovConfig(vocab_size=V))
    with pytest.raises(RegardError, match="counted nothing"):
        model.start([[1]], 1)
    with pytest.raises(RegardError, match="counted nothing"):
        model.log_probs(torch.tensor([1]), torch.tensor([2]), Ragged([1]))


def test_a_prompt_outside_of_the_vocabulary_is_refused():
    with pytest.raises(RegardError, match="outside of the vocabulary"):
        make().start([[1, V]], 1)


@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_one_word_is_certain(settings):
    model = Markov(MarkovConfig(vocab_size=1, **settings))
    model.count([flat([[0] * 9, [0], []])])
    tokens = torch.zeros(4, dtype=torch.long)
    torch.testing.assert_close(model.log_probs(tokens, tokens, Ragged([3, 0, 1])), torch.zeros(4), atol=1e-6, rtol=0)


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture", cases=3)
@pytest.mark.parametrize("settings", MODELS, ids=str)
def test_short_sequences_change_nothing(settings):
    model = Markov(MarkovConfig(vocab_size=V, **settings))
    model.count([flat([[], *corpus(), [3], []]), flat([]), flat([[2]])])
    tokens, labels, layout = batch()
    torch.testing.assert_close(
        model.log_probs(tokens, labels, layout), make(**settings).log_probs(tokens, labels, layout)
    )
    assert model.log_probs(tokens[:0], labels[:0], Ragged([])).shape == (0,)


def test_what_was_never_seen_is_impossible_only_without_smoothing():
    tokens, labels = torch.tensor([1, 0]), torch.tensor([1, 1])
    assert isinf(make(order=1, smoothing="none").log_probs(tokens, labels, Ragged([2]))[0])
    assert make(order=1).log_probs(tokens, labels, Ragged([2])).isfinite().all()
