"""bpe.py against the `tokenizers` library: the same merges in the same order, the same ids."""

import json
import lzma
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text import Tokenizer, TokenizerConfig, bpe

SMALLEST = 260
DATA = Path(__file__).parents[2].parent / "shared" / "data"
REAL = {
    path.name: path
    for name in (
        "multi30k/train.fr.xz",
        "tatoeba-en-de/train.de.xz",
        "tinyshakespeare/input.txt.xz",
        "sms-spam/SMSSpamCollection.tsv.xz",
    )
    if (path := DATA / name).is_file()
}
CORPORA = {
    "one letter": ["a" * n for n in range(1, 40)],
    "wikipedia": ["aaabdaaabac"],
    "ties": ["ab ba cd dc", "dc cd ba ab", "abab baba", "xyxyxyx yxyxyxy"],
    "spaces": ["  a   b\t\tc  ", "a b  c   d", "\u00a0\u2003 x", "\r\n\r\n", "\x1c\x1d \x85"],
    "scripts": [
        "le cœur naïf",
        "Größe",
        "мир миру мир",
        "日本語の日本",
        "नमस्ते नमस्ते",
        "👩‍👩‍👧‍👦👩‍👧",
        "e\u0301te\u0301",
    ],
    "apostrophes": ["didn't we'll I'M l'animal qu'elle'd", "'s''t'''re"],
    "numbers": ["1234567 1.234,56 ½ ² Ⅷ ٣٤٥", "3rd 4th x86_64"],
    "special": ["</s> <pad> <s><unk>", "</s></s></s>"],
}
small_alphabets = st.sampled_from(["a", "ab", "aab", "abc", "ab ", "abcd  '", "aé ", "01a "]).flatmap(
    lambda letters: st.lists(st.text(st.sampled_from(letters), max_size=40), min_size=1, max_size=12)
)


def same_as_library(
    lines: list[str], vocab_size: int, min_count: int = 1, extra: tuple[str, ...] = ()
) -> bpe.BytePairs:
    config = TokenizerConfig(vocab_size=vocab_size, min_count=min_count, extra=extra)
    library = Tokenizer.train(lines, config)
    learnt = bpe.learn(lines, vocab_size, min_count, config.special)
    n_special = len(config.special)
    model = json.loads(library.to_json())["model"]
    vocabulary = {bpe.to_bytes(token): n for token, n in model["vocab"].items() if n >= n_special}
    assert {token: n for n, token in enumerate(learnt.tokens) if n >= n_special} == vocabulary
    merges = [[bpe.to_bytes(left), bpe.to_bytes(right)] for left, right in model["merges"]]
    assert [[learnt.tokens[left], learnt.tokens[right]] for left, right in learnt.merges] == merges
    assert [learnt.encode(line) for line in lines] == library.encode_batch(lines)
    assert (library.pairs.tokens, library.pairs.merges) == (learnt.tokens, learnt.merges)
    return learnt


@pytest.mark.parametrize("name", CORPORA)
def test_equals_the_library_with_further_special_tokens(name: str) -> None:
    learnt = same_as_library([*CORPORA[name], "<mask> mask"], SMALLEST + 20, extra=("<mask>", "<to-fr>"))
    assert learnt.derivation(5) == [] and learnt.tokens[5] == b"<to-fr>"


@pytest.mark.parametrize("vocab_size", [SMALLEST, SMALLEST + 1, SMALLEST + 17, 500])
@pytest.mark.parametrize("name", CORPORA)
def test_equals_the_library(name: str, vocab_size: int) -> None:
    same_as_library(CORPORA[name], vocab_size)


@given(small_alphabets, st.integers(SMALLEST, SMALLEST + 60), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_equals_the_library_on_few_letters(lines: list[str], n: int, min_count: int) -> None:
    same_as_library(["a b", *lines], n, min_count)


@given(st.lists(st.text(), min_size=1, max_size=10), st.text())
@settings(max_examples=100, deadline=None)
def test_equals_the_library_on_any_text(lines: list[str], unseen: str) -> None:
    learnt = same_as_library(["a b", *lines], 400)
    library = Tokenizer.train(["a b", *lines], TokenizerConfig(vocab_size=400))
    assert learnt.encode(unseen) == library.encode(unseen)
    assert learnt.decode(learnt.encode(unseen)) == unseen


@pytest.mark.slow  # real data
@pytest.mark.parametrize("name", REAL)
def test_equals_the_library_on_real_text(name: str) -> None:
    lines = lzma.decompress(REAL[name].read_bytes()).decode().split("\n")[:1000]
    same_as_library(lines, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_equals_the_library_on_all_of_a_real_text(name: str) -> None:
    same_as_library(lzma.decompress(REAL[name].read_bytes()).decode().split("\n"), 16000)


def test_the_example_of_the_docstring() -> None:
    learnt = bpe.learn(["aaabdaaabac"], SMALLEST + 3)
    assert [learnt.tokens[n] for n in learnt.encode("aaabdaaabac")] == [b"aaab", b"d", b"aaab", b"a", b"c"]
    assert learnt.tokens[SMALLEST:] == [b"aa", b"ab", b"aaab"]


def test_the_letters_are_the_library_s_alphabet() -> None:
    from tokenizers.pre_tokenizers import ByteLevel

    assert sorted(bpe.LETTERS) == sorted(ByteLevel.alphabet())
    assert sorted(bpe.LETTERS.values()) == list(range(256))
    assert bpe.to_bytes("ĠcafÃ©").decode() == " café"


@given(small_alphabets)
@settings(max_examples=100, deadline=None)
def test_a_derivation_builds_its_token_from_bytes(lines: list[str]) -> None:
    learnt = bpe.learn(lines, 320)
    for token in {token for line in lines for token in learnt.encode(line)}:
        pieces = sorted(bytes([byte]) for byte in learnt.tokens[token])
        for left, right in learnt.derivation(token):
            pieces.remove(learnt.tokens[left])
            pieces.remove(learnt.tokens[right])
            pieces.append(learnt.tokens[left] + learnt.tokens[right])
        assert pieces == [learnt.tokens[token]]


@given(small_alphabets)
@settings(max_examples=100, deadline=None)
def test_merging_by_a_heap_is_merging_step_by_step(lines: list[str]) -> None:
    learnt = bpe.learn(lines, 320)
    for word in ("".join(lines).encode(), *(line.encode() for line in lines)):
        assert learnt.merge(word)[0] == learnt.sample_word(word, 0.0, random.Random(0))
