"""One very long word takes time in proportion to its length: to learn a tokenizer from it, and to show its tokens."""

import random
from pathlib import Path

import pytest
from bounded import bounded
from calling import Outcome, call

from regard.text import bpe
from regard.text.learned import LONGEST_WORD
from regard.text.tokenizer import Tokenizer, TokenizerConfig

DICE = random.Random(0)
N_WORDS = 500  # the reference, which is meant to be read, takes a second for so many
WORDS = {
    "letters": lambda n: "".join(DICE.choices("abcdefghijklmnopqrstuvwxyz", k=n)),
    "syllables": lambda n: "".join(DICE.choices(["cat", "dog", "house", "tree"], k=n // 4)),
    "one letter": lambda n: "a" * n,
}


def in_time(place: Path, *arguments: str | Path, stdin: str = "") -> Outcome:
    end = bounded(lambda: tuple(vars(call(place, *arguments, stdin=stdin.encode())).values()))
    assert end.how == "returned", str(end)
    outcome = Outcome(*end.value)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.mark.slow  # learns a tokenizer from long texts
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("n", [160_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_tokenizer_is_learned_from_one_long_word(word: str, n: int, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(f"The cat says {WORDS[word](n)}!\nThe dog.\n", encoding="utf-8")
    outcome = in_time(tmp_path, "tokenizer", "train", "text.txt", "--vocab-size", "8000")
    assert "2 lines, 6 words" in outcome.out


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("word", WORDS)
def test_the_tokens_of_a_long_word_are_shown(word: str, tmp_path: Path) -> None:
    Tokenizer.train(["the cat says meow"] * 2, TokenizerConfig(vocab_size=300)).save(tmp_path / "tokenizer.json")
    text = WORDS[word](100_000)
    shown = in_time(tmp_path, "tokenizer", "show", "tokenizer.json", stdin=text)
    assert shown.out.count("\n") > 20_000 and f"{len(text)} characters" in shown.out


@pytest.mark.slow  # learns a tokenizer from long texts
def test_a_token_may_be_a_long_word(tmp_path: Path) -> None:
    """The merges that made it are found in no time, too."""
    tokenizer = Tokenizer.train(["ab" * (LONGEST_WORD // 2)], TokenizerConfig(vocab_size=8000))
    tokenizer.save(tmp_path / "tokenizer.json")
    shown = in_time(tmp_path, "tokenizer", "show", "tokenizer.json", stdin="ab" * 50_000)
    assert "100000 characters" in shown.out and "a+b" in shown.out


@pytest.mark.slow  # learns a tokenizer from long texts
def test_words_of_ordinary_length_are_not_cut() -> None:
    """The merges are those of the reference, which cuts nothing; of a longer word, those of its parts."""
    lines = [f"it's {WORDS['letters'](n)}  and 12\t{'-' * n}, {WORDS['syllables'](n)}'ll  " for n in (5, 70, 998)]
    config = TokenizerConfig(vocab_size=N_WORDS)
    assert Tokenizer.train(lines, config).pairs.merges == bpe.learn(lines, N_WORDS).merges
    word = WORDS["letters"](LONGEST_WORD + 500)
    learned = Tokenizer.train([*lines, f"  it's{word}'ll say  \tso"], config).pairs.merges
    parts = ["  it's", word[:LONGEST_WORD], word[LONGEST_WORD:], "'ll say  \tso"]
    assert (
        learned
        == bpe.learn([*lines, *parts], N_WORDS).merges
        != bpe.learn([*lines, "  it's", "'ll say  \tso"], N_WORDS).merges
    )
