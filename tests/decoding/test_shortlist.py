"""A shortlist narrows what may be written, and changes nothing where it holds everything."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_engine import ARCHITECTURES, WORDS, run_in_company

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.decoding.search import plan
from regard.decoding.shortlist import N_COMPANIONS, AllowedWords, count_words
from regard.errors import RegardError

START, END = 1, 2
PROMPTS = [[3, 4, 5], [6, 7], [8, 9, 10, 11], [3], [12, 13, 14, 15]]
MANNERS = [
    DecodingConfig(extra_length=8),
    DecodingConfig(beam=3, n_best=2, extra_length=8),
    DecodingConfig(sample=True, n_best=2, extra_length=8, temperature=1.5),
]


def engine_of(name: str, companions: list[list[int]], n_frequent: int = WORDS) -> Engine:
    torch.manual_seed(0)
    engine = Engine(ARCHITECTURES[name]().eval())
    table = torch.full((WORDS, 4), -1)
    for row, words in enumerate(companions):
        table[row, : len(words)] = torch.tensor(words)
    frequent = torch.tensor([END, START, *(w for w in range(WORDS) if w not in (START, END))][:n_frequent])
    engine.word_lists = lambda: AllowedWords(frequent, table)
    return engine


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_a_shortlist_of_everything_changes_nothing(name: str) -> None:
    engine = engine_of(name, [])
    for config in MANNERS:
        whole = engine.generate(PROMPTS, config, START, END)
        listed = engine.generate(PROMPTS, replace(config, shortlist=WORDS), START, END)
        assert [[h.tokens for h in best] for best in listed] == [[h.tokens for h in best] for best in whole]
        assert listed[0][0].log_prob == pytest.approx(whole[0][0].log_prob, abs=1e-4)


def test_only_listed_words_are_written_in_any_company() -> None:
    companions = [[(3 * word) % WORDS, (word + 11) % WORDS] for word in range(WORDS)]
    engine = engine_of("transformer", companions)
    searches = [plan([p], replace(config, shortlist=5), START, END)[0] for p in PROMPTS for config in MANNERS]
    differs = False
    for ticket in run_in_company(engine, searches, random.Random(1)):
        prompt = [*ticket.search.prompt]
        allowed = {END, START, 0, 3, 4, *prompt, *(word for token in prompt for word in companions[token])}
        alone = engine.answer([ticket.search])[0]
        whole = engine.answer([replace(ticket.search, config=replace(ticket.search.config, shortlist=0))])[0]
        for ours, theirs in zip(ticket.answer(), alone, strict=True):
            assert set(ours.tokens) <= allowed
            assert ours.near_ties + theirs.near_ties or ours.tokens == theirs.tokens
        differs |= any(not set(other.tokens) <= allowed for other in whole)
    assert differs  # without the list other words are written


def test_companions_are_the_words_that_translate() -> None:
    """Each word 10 + i is translated by 20 + i, among others in any order, and 19 stands in every target."""
    chance = np.random.default_rng(0)
    sources = [chance.choice(6, 4, replace=False) + 10 for _ in range(200)]
    pairs = [(source, np.array([19, *chance.permutation(source + 10)])) for source in sources]
    lists = count_words(pairs, WORDS, [END])
    assert lists.companions.shape == (WORDS, N_COMPANIONS)
    assert [int(lists.companions[word, 0]) for word in range(10, 16)] == list(range(20, 26))
    assert lists.frequent[:2].tolist() == [END, 19] and (lists.companions[9] == -1).all()


def test_what_a_shortlist_cannot_do_is_said() -> None:
    engine = engine_of("transformer", [])
    with pytest.raises(RegardError, match="a prefix may hold words that are not in the shortlist"):
        engine.generate([[3]], DecodingConfig(shortlist=5), START, END, [[4]])
    engine = Engine(engine.given)
    with pytest.raises(RegardError, match="shortlists are for runs that translate"):
        engine.generate([[3]], DecodingConfig(shortlist=5), START, END)
