from pathlib import Path

import numpy as np
import pytest
import torch
from small_documents import setup

from regard.models.masked import MaskedWords
from regard.models.stack import Stack, StackConfig
from regard.tasks.framing import MarkedTexts
from regard.tasks.pretraining.use import fill
from regard.tasks.pretraining.verbs import Filled
from regard.text import Tokenizer, TokenizerConfig

LINES = ["Let's make fried chicken! It tastes great with orange sauce.", "make it great"]
QUESTION = "Let's make [MASK] chicken! [SEP] It [MASK] great."


def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=400, extra=("<mask>",)))


def filled(model: MaskedWords, tokenizer: Tokenizer, texts: list[str], top: int, budget: int) -> list[Filled]:
    marked = MarkedTexts(tokenizer)
    return fill(model, tokenizer, [np.array(marked.encode(text)) for text in texts], top, budget)


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
    tokenizer = trained(kind)
    start, end, mask = tokenizer.start_id, tokenizer.end_id, tokenizer.special_id("<mask>")
    before = " " if kind == "characters" else ""  # there a space is a token of its own, and is not what is masked
    marked = MarkedTexts(tokenizer)
    assert marked.mask_takes_space == (kind in ("bpe", "words"))
    assert marked.encode(QUESTION) == [
        start, *tokenizer.encode(f"Let's make{before}"), mask, *tokenizer.encode(" chicken!"), end,
        *tokenizer.encode(f" It{before}"), mask, *tokenizer.encode(" great."), end,
    ]  # fmt: skip
    for other in ("[CLS] a <mask> b [SEP]", "<s>a [MASK] b</s>", "a [MASK] b"):
        ids = marked.encode(other)
        assert ids.count(start) == ids.count(end) == ids.count(mask) == 1 and (ids[0], ids[-1]) == (start, end)
    assert marked.encode("") == [start, end]


def test_every_masked_place_has_its_likeliest_words(model: MaskedWords, tokenizer: Tokenizer) -> None:
    texts = ["the cat [MASK] meow", "[MASK] cow says [MASK] [SEP] the [MASK]", "the dog", "", "[MASK]"]
    answers = filled(model, tokenizer, texts, top=tokenizer.vocab_size, budget=20)
    assert [len(answer.words) for answer in answers] == [1, 3, 0, 0, 1]
    for text, answer in zip(texts, answers, strict=True):
        expected = text
        for options in answer.words:
            shares = [share for _, share in options]
            assert sum(shares) == pytest.approx(1, abs=1e-5) and shares == sorted(shares, reverse=True)
            best = options[0][0]
            expected = expected.replace("[MASK]", "" if best in tokenizer.special else best, 1)
        assert answer.text.split() == expected.split()
        assert answer.notes == ([] if "[MASK]" in text else ["nothing is masked"])


def test_alone_as_in_a_batch(model: MaskedWords, tokenizer: Tokenizer) -> None:
    texts = ["the [MASK]", "[MASK] cow says moo [SEP] the [MASK] says", "cat [MASK] [MASK] [MASK]"]
    together = filled(model, tokenizer, texts, top=3, budget=100)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = filled(model, tokenizer, [text], top=3, budget=100)
        assert alone.text == answer.text
        for one, other in zip(alone.words, answer.words, strict=True):
            assert [share for _, share in one] == pytest.approx([share for _, share in other], abs=1e-5)


def test_a_long_text_is_cut_and_that_is_said(model: MaskedWords, tokenizer: Tokenizer) -> None:
    (answer,) = filled(model, tokenizer, ["[MASK] " + "cat " * 20 + "[MASK]"], top=1, budget=100)
    assert len(answer.words) == 1 and answer.notes == ["cut to the first 12 of 24 tokens"]
