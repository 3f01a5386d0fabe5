"""BPE-dropout: other pieces, the same text; the same key, the same pieces."""

import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.text import Tokenizer, TokenizerConfig
from regard.text import dropout as module

LINES = ["the animal didn't cross the street because it was too tired", "the street was too wide for the animals"] * 9
TOKENIZER = Tokenizer.train(LINES, TokenizerConfig(vocab_size=400))


@given(st.text(), st.integers(), st.sampled_from([0.0, 0.1, 0.5, 0.999]))
@settings(max_examples=300, deadline=None)
def test_the_text_stays(text: str, key: int, rate: float) -> None:
    ids = TOKENIZER.sample(text, key, rate)
    assert TOKENIZER.decode(ids) == text
    assert ids == TOKENIZER.sample(text, key, rate)


@given(st.lists(st.sampled_from(LINES[0].split()), max_size=20).map(" ".join), st.integers())
@settings(max_examples=100, deadline=None)
def test_without_dropout_it_is_encode(text: str, key: int) -> None:
    assert TOKENIZER.sample(text, key, 0.0) == TOKENIZER.encode(text)


def test_keys_and_rates_vary_the_pieces() -> None:
    texts = {rate: [tuple(TOKENIZER.sample(LINES[0], key, rate)) for key in range(200)] for rate in (0.1, 0.5, 0.9)}
    assert len(set(texts[0.5])) > 190
    lengths = [sum(map(len, texts[rate])) for rate in (0.1, 0.5, 0.9)]
    assert len(TOKENIZER.encode(LINES[0])) * 200 < lengths[0] < lengths[1] < lengths[2] < len(LINES[0]) * 200


def test_neighbouring_keys_and_places_draw_evenly() -> None:
    drawn = Counter(tuple(TOKENIZER.sample("animal", key, 0.7)) for key in range(3200))
    assert max(drawn.values()) < 3200 * 0.6
    in_one_line = TOKENIZER.sample(" animal" * 3200, 1, 0.7)
    assert len(in_one_line) / 3200 == pytest.approx(
        sum(len(TOKENIZER.sample(" animal", key, 0.7)) for key in range(3200)) / 3200, rel=0.05
    )


def test_the_rate_is_the_share_of_merges_left_out() -> None:
    """A word of one merge stays whole with chance 1 - rate."""
    pair = Tokenizer.train(["ab"], TokenizerConfig(vocab_size=261))
    words = [f"{'ab'}{n}" for n in range(2000)]  # "ab" and the digits are separate words
    whole = sum(pair.sample(word, n, 0.3)[0] == 260 for n, word in enumerate(words))
    ways = [pair.pairs.sample_word(b"ab", 0.3, module.random.Random(n)) for n in range(4000)]
    assert sum(len(way) == 1 for way in ways) / 4000 == pytest.approx(0.7, abs=0.03)
    assert 0.4 < whole / 2000 < 0.95  # of 16 ways, drawn once


def test_whole_batches_are_looked_up_as_single_texts_are() -> None:
    texts = [*LINES[:2], "", " ", "animals, streets!", "x" * 200, LINES[0]]
    sampled = module.SampledTexts(texts, TOKENIZER.pairs, 0.4)
    for epoch in range(40):  # some ways are worked out, some looked up again
        chosen = np.random.default_rng(epoch).integers(0, len(texts), 5)
        keys = chosen.astype(np.uint64) * np.uint64(2**40) + np.uint64(epoch)
        found = sampled.sample(chosen, keys)
        expected = [TOKENIZER.sample(texts[i], int(key), 0.4) for i, key in zip(chosen, keys, strict=True)]
        assert [ids.tolist() for ids in found] == expected


def test_another_process_draws_the_same() -> None:
    program = (
        "import sys; from regard.text import Tokenizer\n"
        "t = Tokenizer.from_json(sys.stdin.read()); print([t.sample('the animals crossed', k, 0.5) for k in range(20)])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], input=TOKENIZER.to_json(), capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str([TOKENIZER.sample("the animals crossed", key, 0.5) for key in range(20)])


def test_a_line_without_spaces_takes_no_time() -> None:
    began = time.perf_counter()
    text = "animalstreet" * 5000
    assert TOKENIZER.decode(TOKENIZER.sample(text, 1, 0.1)) == text
    assert time.perf_counter() - began < 5


def test_words_have_no_merges_to_leave_out() -> None:
    words = Tokenizer.train(LINES, TokenizerConfig(kind="words"))
    with pytest.raises(ConfigError, match="has no merges"):
        words.sample("the", 1, 0.1)
