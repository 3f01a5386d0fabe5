from pathlib import Path

import pytest
import torch
from small_documents import setup

from regard.models.masked import MaskedWords
from regard.models.stack import Stack, StackConfig
from regard.tasks.pretraining.use import fill, framed, spaces_belong_to_words
from regard.text import Tokenizer, TokenizerConfig

LINES = ["Let's make fried chicken! It tastes great with orange sauce.", "make it great"]
QUESTION = "Let's make [MASK] chicken! [SEP] It [MASK] great."


def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=400, extra=("<mask>",)))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return setup(tmp_path).tokenizer


@pytest.fixture
def model(tokenizer: Tokenizer) -> MaskedWords:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "max_length": 12, "n_segments": 2}
    return MaskedWords(Stack(StackConfig(vocab_size=tokenizer.vocab_size, causal=False, **sizes)), nsp=False).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["bpe", "words", "characters", "spaces"])
def test_marks_become_tokens_and_the_rest_is_text(kind: str) -> None:
    found = trained(kind)
    start, end, mask = found.start_id, found.end_id, found.special_id("<mask>")
    before = " " if kind == "characters" else ""  # there a space is a token of its own, and is not what is hidden
    brings_space = spaces_belong_to_words(found)
    assert brings_space == (kind in ("bpe", "words"))
    assert framed(QUESTION, found, brings_space).tolist() == [
        start, *found.encode(f"Let's make{before}"), mask, *found.encode(" chicken!"), end,
        *found.encode(f" It{before}"), mask, *found.encode(" great."), end,
    ]  # fmt: skip
    for other in ("[CLS] a <mask> b [SEP]", "<s>a [MASK] b</s>", "a [MASK] b"):
        ids = framed(other, found, brings_space).tolist()
        assert ids.count(start) == ids.count(end) == ids.count(mask) == 1 and (ids[0], ids[-1]) == (start, end)
    assert framed("", found, brings_space).tolist() == [start, end]


def test_every_hidden_place_has_its_likeliest_words(model: MaskedWords, tokenizer: Tokenizer) -> None:
    texts = ["the cat [MASK] meow", "[MASK] cow says [MASK] [SEP] the [MASK]", "the dog", "", "[MASK]"]
    found = fill(model, tokenizer, texts, top=tokenizer.vocab_size, budget=20)
    assert [len(answer.words) for answer in found] == [1, 3, 0, 0, 1]
    for text, answer in zip(texts, found, strict=True):
        expected = text
        for options in answer.words:
            shares = [share for _, share in options]
            assert sum(shares) == pytest.approx(1, abs=1e-5) and shares == sorted(shares, reverse=True)
            best = options[0][0]
            expected = expected.replace("[MASK]", "" if best in tokenizer.special else best, 1)
        assert answer.text.split() == expected.split()
        assert answer.notes == ([] if "[MASK]" in text else ["nothing is hidden"])


def test_alone_as_in_a_batch(model: MaskedWords, tokenizer: Tokenizer) -> None:
    texts = ["the [MASK]", "[MASK] cow says moo [SEP] the [MASK] says", "cat [MASK] [MASK] [MASK]"]
    together = fill(model, tokenizer, texts, top=3, budget=100)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = fill(model, tokenizer, [text], top=3, budget=100)
        assert alone.text == answer.text
        for one, other in zip(alone.words, answer.words, strict=True):
            assert [share for _, share in one] == pytest.approx([share for _, share in other], abs=1e-5)


def test_a_long_text_is_cut_and_that_is_said(model: MaskedWords, tokenizer: Tokenizer) -> None:
    (answer,) = fill(model, tokenizer, ["[MASK] " + "cat " * 20 + "[MASK]"], top=1, budget=100)
    assert len(answer.words) == 1 and answer.notes == ["cut to the first 12 of 24 tokens"]
