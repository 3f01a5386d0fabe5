"""`fill` by BART and T5: what was learned by heart is repaired, and gaps go where they belong."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_denoising import EXTRA, SPANS, denoising, fit, setup, transformer

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.decoding.outputs import Hypothesis
from regard.tasks.pretraining.repair import joined, put_in, with_gaps
from regard.tasks.pretraining.verbs import Fill
from regard.tasks.setup import Use
from regard.text import Tokenizer, TokenizerConfig


@pytest.mark.slow  # a whole training
@pytest.mark.parametrize(
    "settings",  # a training each; T5's gaps are filled among words, BART's are a case of them
    [pytest.param({"noises": ("infill",)}, id="bart", marks=pytest.mark.slow), pytest.param(SPANS, id="t5")],
)
def test_what_was_learned_by_heart_is_repaired(settings: dict[str, object], tmp_path: Path) -> None:
    task = denoising(tmp_path, **settings)
    fit(task, model := transformer(task.tokenizer.vocab_size), 150)
    batch = task.small_batch(60)
    sources = [part.tolist()[:-1] for part in batch.source.split(batch.source_layout.lengths.tolist())]
    texts = [task.spelled(source) for source in sources]
    use = Use(model.eval(), Engine(model), DecodingConfig())
    answers = task.verbs["fill"](use, Fill(texts, top=2))
    whole = task.tokenizer.decode(task.train.tokens.tolist())
    for text, answer in zip(texts, answers, strict=True):
        assert "<extra_0>" in text or "<mask>" in text
        assert answer.text in whole and "<" not in answer.text
        n_gaps = text.count("<extra_")
        assert len(answer.words) == n_gaps and all(1 <= len(options) <= 2 for options in answer.words)


def test_gaps_have_the_tokens_of_the_model() -> None:
    tokenizer = Tokenizer.train(
        ["make fried chicken, it tastes great"] * 3, TokenizerConfig(vocab_size=400, extra=EXTRA)
    )
    mask, first, second = (tokenizer.special_id(name) for name in ("<mask>", "<extra_0>", "<extra_1>"))
    text = "make [MASK] chicken, it <mask>"
    words = tokenizer.encode("make"), tokenizer.encode(" chicken, it")
    assert with_gaps(text, tokenizer, numbered=False).ids == [*words[0], mask, *words[1], mask]
    assert with_gaps(text, tokenizer, numbered=True).ids == [*words[0], first, *words[1], second]
    assert with_gaps("make <extra_id_7> chicken, it <extra_3>", tokenizer, numbered=True).ids[-1] == second
    many = with_gaps("make" + " [MASK]" * 7, tokenizer, numbered=True)
    assert len(many.marks) == 6 and many.notes == ["only the first 6 of 7 gaps are filled: the model numbers no more"]
    assert many.parts[-1] == " [MASK]"  # which stays in the text


def test_words_are_put_where_their_sentinels_stand() -> None:
    tokenizer = Tokenizer.train(["make fried chicken great"] * 3, TokenizerConfig(kind="words", extra=EXTRA))
    first, second = (tokenizer.special_id(name) for name in ("<extra_0>", "<extra_1>"))
    fried, great, make = (tokenizer.encode(f"x {word}")[-1] for word in ("fried", "great", "make"))

    def hypothesis(tokens: list[int], share: float) -> Hypothesis:
        return Hypothesis(tokens=tokens, log_prob=math.log(share), score=0.0, finished=True)

    source = with_gaps("make [MASK] chicken [MASK]", tokenizer, numbered=True)
    best, other = [first, fried, second, great], [second, great, first, make]  # the order in which they come is free
    answer = put_in(source, [hypothesis(best, 0.5), hypothesis(other, 0.25)], 2, tokenizer)
    assert answer.text == "make fried chicken great" and answer.notes == []
    shares = [[(word.strip(), share) for word, share in options] for options in answer.words]
    assert shares[0][0] == ("fried", pytest.approx(0.5)) and shares[0][1][1] == pytest.approx(0.25)
    assert shares[1] == [("great", pytest.approx(0.75))]
    one = put_in(source, [hypothesis(best, 0.5), hypothesis(other, 0.25)], 1, tokenizer)
    assert one.text == answer.text and [len(options) for options in one.words] == [1, 1]
    alone = with_gaps("make [MASK] chicken", tokenizer, numbered=True)  # what is said of another gap does not count
    tails = [hypothesis([first, make], 0.3), *(hypothesis([first, fried, second, n], 0.2) for n in (great, make))]
    alike = put_in(alone, tails, 3, tokenizer)
    assert alike.text == "make fried chicken"
    assert [share for _, share in alike.words[0]] == [pytest.approx(0.4), pytest.approx(0.3)]
    silent = put_in(source, [hypothesis([first, fried], 0.5)], 2, tokenizer)
    assert silent.text == "make fried chicken" and silent.notes == ["nothing was written for gap 2"]


def test_what_stands_around_gaps_stays_as_it_was() -> None:
    """Words that the model does not know, spaces and marks; once they were decoded from what it read."""
    tokenizer = Tokenizer.train(["make fried chicken great"] * 3, TokenizerConfig(kind="words", extra=EXTRA))
    first, fried = tokenizer.special_id("<extra_0>"), tokenizer.encode("x fried")[-1]
    gapped = with_gaps("Make  [MASK] zyzzyva,now !", tokenizer, numbered=True)
    assert [note for note in gapped.notes if "zyzzyva" in note]
    answer = put_in(gapped, [Hypothesis(tokens=[first, fried], log_prob=-0.1, score=0.0, finished=True)], 1, tokenizer)
    assert answer.text == "Make  fried zyzzyva,now !" and answer.notes == gapped.notes
    nothing = put_in(gapped, [Hypothesis(tokens=[first], log_prob=-0.1, score=0.0, finished=True)], 1, tokenizer)
    assert nothing.text == "Make zyzzyva,now !" and nothing.notes[-1] == "nothing was written for gap 1"
    assert not with_gaps("make [MASK] chicken [MASK] great", tokenizer, numbered=True).notes
    cut = replace(gapped, ids=gapped.ids[:1])
    assert (
        put_in(cut, [Hypothesis(tokens=[first, fried], log_prob=-0.1, score=0.0, finished=True)], 1, tokenizer).text
        == "Make  [MASK] zyzzyva,now !"
    )
    assert joined(["a", " b"], [" c"]) == "a c b" and joined(["", "."], [" c"]) == "c."


def test_a_text_without_gaps_is_said_to_have_none(tmp_path: Path) -> None:
    for settings, texts in (
        ({}, [("", ["empty"])]),
        (SPANS, [("", ["nothing is masked"]), ("ab", ["nothing is masked"])]),
    ):
        task = denoising(tmp_path, **settings)
        model = transformer(task.tokenizer.vocab_size).eval()
        asked = [text for text, _ in texts]
        answers = task.verbs["fill"](Use(model, Engine(model), DecodingConfig()), Fill(asked))
        assert [(answer.text, answer.notes) for answer in answers] == texts


def test_a_text_that_is_too_long_is_cut_and_that_is_said(tmp_path: Path) -> None:
    task = denoising(tmp_path)
    model = transformer(task.tokenizer.vocab_size).eval()
    with torch.no_grad():
        [answer] = task.verbs["fill"](Use(model, Engine(model), DecodingConfig()), Fill(["a" * 100]))
    assert "cut to the first 63 of 100 tokens" in answer.notes and setup(tmp_path).tokenizer
