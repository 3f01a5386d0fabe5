"""Windows cover the whole context, every answer is in one, and tokens lead back to the characters."""

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, trainers
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from regard.data.batching.windows import FRAME, Lengths, Windows, fit_to_learn
from regard.data.files.questions import NO_ANSWER, Answer, Question
from regard.text.tokenizer import Tokenizer, TokenizerConfig

LINE = "Every fig that Bob ate, said Ann, was “one too many” – naïve figs, 東京 figs!"


def word_pieces() -> Tokenizer:
    """As BERT's is: it lowers case and drops accents, and yet tells the places in the text as it was."""
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    inner.train_from_iterator([LINE], trainers.WordPieceTrainer(vocab_size=80, special_tokens=special))
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return Tokenizer.from_files({"tokenizer.json": inner.to_str(), "tokenizer_config.json": json.dumps(roles)})


@pytest.fixture(scope="module", params=["bpe", "words", "spaces", "characters", "imported"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "imported":
        return word_pieces()
    return Tokenizer.train([LINE] * 3, TokenizerConfig(kind=request.param, vocab_size=290))


def ask(
    context: str, text: str = "", start: int = -1, question: str = "Who ate?", earlier: tuple[str, ...] = ()
) -> Question:
    return Question(question, context, (Answer(text, start),), "here", earlier)


def whole(question: Question, tokenizer: Tokenizer) -> Windows:
    return Windows([question], tokenizer, Lengths(window=500, stride=100, question=50), history=0)


@pytest.mark.parametrize("text", ["fig", "Bob ate", "one too many", "naïve", "東京", "figs!", "Every", LINE])
def test_tokens_lead_back_to_the_characters_of_an_answer(tokenizer: Tokenizer, text: str) -> None:
    """The span holds the answer; by characters it is the answer itself."""
    answer = Answer(text, LINE.index(text))
    (context,) = Windows([Question("?", LINE, (answer,), "")], tokenizer, Lengths(64, 32, 8), history=0).placed
    first, last = context.span_of(answer)
    start, end = context.characters(LINE, first, last)
    assert text in LINE[start:end] and LINE[start:end] == LINE[start:end].strip()
    if tokenizer.kind == "characters":
        assert (start, end) == (answer.start, answer.start + len(text))
    if last > first and tokenizer.kind != "bpe":  # one token fewer would not do; a part of 東 stands for all of it
        assert context.characters(LINE, first + 1, last)[0] > answer.start
        assert context.characters(LINE, first, last - 1)[1] < answer.start + len(text)


def test_a_window_is_framed(tokenizer: Tokenizer) -> None:
    windows = whole(ask(LINE, "Ann", LINE.index("Ann")), tokenizer)
    asked, context = tokenizer.encode("Who ate?"), tokenizer.encode(LINE)
    s, e = tokenizer.start_id, tokenizer.end_id
    assert windows.tokens(0).tolist() == [s, *asked, e, *context, e]
    assert windows.lengths.tolist() == [len(asked) + len(context) + FRAME]
    assert windows.offset[0] == len(asked) + 2
    first, last = windows.spans()[0]
    assert "ann" in tokenizer.decode(windows.tokens(0)[first : last + 1].tolist()).lower()


@given(
    n=st.integers(0, 60),
    window=st.integers(12, 40),
    stride=st.integers(1, 8),
    start=st.integers(0, 59),
    length=st.integers(1, 10),
)
@settings(deadline=None, max_examples=200)
def test_every_token_is_read_and_every_short_answer_is_in_a_window(
    n: int, window: int, stride: int, start: int, length: int
) -> None:
    tokenizer = Tokenizer.train(["a b"], TokenizerConfig(kind="characters", vocab_size=10))
    context = ("ab" * 30)[:n]
    start = min(start, max(n - 1, 0))
    text = context[start : start + length]
    windows = Windows([ask(context, text, start if text else -1, "a")], tokenizer, Lengths(window, stride, 1), 0)
    room = window - FRAME - 1
    assert (windows.lengths <= window).all()
    covered = {
        i for first, size in zip(windows.first, windows.n_context, strict=True) for i in range(first, first + size)
    }
    assert covered == set(range(n))
    held = windows.spans()[:, 1] > 0
    if text and len(text) <= room - stride + 1:
        assert held.any()
    for i in np.flatnonzero(held):
        a, b = windows.spans()[i]
        assert tokenizer.decode(windows.tokens(i)[a : b + 1].tolist()) == text
        assert windows.first[i] + a - windows.offset[i] == start


def test_what_was_asked_before_is_read_before() -> None:
    tokenizer = Tokenizer.train([LINE], TokenizerConfig(kind="spaces", vocab_size=40))
    question = ask(LINE, question="figs! Ann,", earlier=("Every", "fig", "that"))

    def asked(history: int, room: int = 50) -> str:
        lengths = Lengths(window=500, stride=100, question=room)
        return tokenizer.decode(Windows([question], tokenizer, lengths, history).asked[0].tolist())

    assert [asked(n) for n in (0, 1, 2, 9)] == [
        "figs! Ann,",
        "that figs! Ann,",
        "fig that figs! Ann,",
        "Every fig that figs! Ann,",
    ]
    assert asked(9, room=3) == "that figs! Ann,"  # of what is too long the last is read


def test_what_cannot_be_learnt_is_dropped_and_counted() -> None:
    tokenizer = Tokenizer.train(["a b"], TokenizerConfig(kind="characters", vocab_size=10))
    long = "a" * 30
    questions = [
        ask(long, "aa", 3, "a"),
        ask(long, question="a"),
        ask(long, "aa", 3, " "),
        ask(" ", question="a"),
        ask(long, "b", -1, "a"),
        ask(long, "a" * 25, 2, "a"),
        ask("ab", "b", 1, "aaaaa"),
    ]
    windows = Windows(questions, tokenizer, Lengths(window=14, stride=5, question=2), history=0)
    kept, notes = fit_to_learn(windows, windows.spans(), max_answer=1)
    assert set(windows.owner[kept]) == {0, 1, 6}
    assert notes.counts == {
        "answer longer than the 1 tokens that are ever answered": 1,
        "dropped: empty question": 1,
        "dropped: empty context": 1,
        "dropped: its answer does not stand in its context": 1,
        "dropped: no window holds the whole answer": 1,
    }
    assert windows.notes.counts == {
        "context read in windows of 14 tokens": 5,
        "question read by its last 2 tokens": 1,
    }


def test_an_answer_inside_a_token_is_counted() -> None:
    tokenizer = Tokenizer.train(["bees see"], TokenizerConfig(kind="words", vocab_size=10))
    windows = whole(ask("bees see", "bee", 0, "bees"), tokenizer)
    _, notes = fit_to_learn(windows, windows.spans(), max_answer=30)
    assert notes.counts == {"answer begins or ends inside a token: the whole token is learned": 1}
    assert whole(ask("bees", question="bees"), tokenizer).questions[0].answers[0] == NO_ANSWER
