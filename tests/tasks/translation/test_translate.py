"""N lines in, N lines out, and a word about each line to which something happened."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine, generate
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.framing import Frame
from regard.tasks.translation.use import PER_TOKEN, translate, unusual
from regard.text.sentences import SENTENCE_END, split
from regard.text.tokenizer import Tokenizer, TokenizerConfig

WORDS = ["the", "animal", "did", "not", "cross", "street", "because", "it", "was", "too", "tired", "wide"]
TEXT = [" ".join(WORDS), "The animal was tired. The street was wide! Was it?"] * 3
LIMIT = 20
FRAME = Frame(start=1, end=2)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXT, TokenizerConfig(vocab_size=320))


@pytest.fixture(scope="module")
def model(tokenizer):
    return small_model(tokenizer.vocab_size)


def small_model(vocab_size):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=vocab_size, d_model=32, n_heads=2, n_layers=1, d_ff=64)
    return Transformer(config).eval()


def split_ids(line, tokenizer, limit):
    return [[token.id for token in part] for part in split(line, tokenizer, limit)]


def test_every_line_has_an_answer_and_its_story(model, tokenizer):
    lines = ["the animal", "", "   ", "word " * 300, "It was. " * 30, "</s> <pad>", "\u2028", "x" * 500]
    answers = translate(Engine(model), tokenizer, lines, DecodingConfig(extra_length=5), LIMIT, FRAME)
    assert len(answers) == len(lines)
    assert [a.notes[:1] for a in answers[1:3]] == [["empty"], ["empty"]] and answers[1].text == ""
    assert answers[3].notes[0].startswith("split into ") and len(answers[3].parts) > 10
    assert answers[7].notes[0].startswith("split into ")
    unfinished = [a for a in answers if a.parts and not all(h.finished for _, h in a.parts)]
    assert unfinished and all("hit the length limit" in " ".join(a.notes) for a in unfinished)


@pytest.mark.parametrize(
    "line",
    [
        "the animal was tired",
        "It was. " * 40,
        "word " * 100,
        "x" * 300,
        "é" * 200,
        "The animal was tired. " + "street " * 60 + "Was it?",
        " leading and  double  spaces " * 9,
        "它累了。街很宽！是吗？" * 9,
    ],
)
def test_a_long_line_is_split_and_nothing_of_it_is_lost(line, tokenizer):
    parts = split_ids(line, tokenizer, LIMIT)
    assert all(0 < len(part) <= LIMIT for part in parts)
    together = "".join(tokenizer.decode_batch(parts))
    assert "".join(together.split()) == "".join(line.split())


@pytest.mark.parametrize("kind", ["bpe", "words", "spaces", "characters"])
def test_every_token_of_a_split_line_knows_its_place(kind):
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(kind=kind, vocab_size=320))
    line = "  The animal was tired. " + "street! " * 40 + "它累了。街很宽！" * 9 + "it" * 50 + " Was it? "
    tokens = [token for part in split(line, tokenizer, LIMIT) for token in part]
    known = [token for token in tokens if token.id != tokenizer.unknown_id and "\\x" not in tokenizer.token(token.id)]
    assert known and all(line[token.start : token.end] == tokenizer.token(token.id) for token in known)
    left = list(line)
    for token in tokens:
        left[token.start : token.end] = " " * (token.end - token.start)
    assert "".join(left).strip() == ""


def test_sentences_stay_whole_where_they_fit(tokenizer):
    line = "The animal was tired. The street was wide! Was it?"
    limit = max(len(tokenizer.encode(s)) for s in ("The animal was tired.", "The street was wide!")) + 1
    parts = [tokenizer.decode(part).strip() for part in split_ids(line, tokenizer, limit)]
    assert parts[0] == "The animal was tired." and " ".join(parts) == line


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("它太累了。街道很宽！是吗？不是。", ["它太累了。", "街道很宽！", "是吗？", "不是。"]),
        ("「疲れた。」本当！？ はい。", ["「疲れた。」", "本当！？", "はい。"]),
        ("（是。）好。It is 3.5 m. Yes.", ["（是。）", "好。", "It is 3.5 m.", "Yes."]),
    ],
)
def test_chinese_and_japanese_sentences_need_no_white_space_between_them(line, sentences, tokenizer):
    assert [sentence.strip() for sentence in SENTENCE_END.split(line)] == sentences
    longest = max(len(tokenizer.encode(sentence)) for sentence in sentences)
    assert tokenizer.decode(split_ids(line, tokenizer, longest)[0]) == sentences[0]
    [whole, *_] = split_ids(f"{line} {line}", tokenizer, len(tokenizer.encode(line)))
    assert tokenizer.decode(whole) == line  # what fits together is read as it was written, without spaces


def test_words_that_the_tokenizer_does_not_know_are_noted():
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(kind="spaces", vocab_size=40))
    model = small_model(tokenizer.vocab_size)
    lines = ["the last animal was last", "the animal", " ", "the zebra " * 30]

    def unknown(prefixes=None, frame=FRAME):
        answers = translate(Engine(model), tokenizer, lines, DecodingConfig(extra_length=2), LIMIT, frame, prefixes)
        return [[note for note in answer.notes if note.startswith("unknown")] for answer in answers]

    assert unknown() == [["unknown: 'last'"], [], [], ["unknown: 'zebra'"]]
    assert unknown(frame=replace(FRAME, cut=True)) == unknown()
    forced = unknown(["the", "le", "le", "the zebra le"])
    assert forced == [["unknown: 'last'"], ["unknown: 'le'"], [], ["unknown: 'zebra' 'le'"]]


def test_a_prefix_is_noted_as_it_is_read():
    """As the beginning of a text: words of this tokenizer bring their space along, and the first has none."""
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(kind="words", vocab_size=40))
    model = small_model(tokenizer.vocab_size)

    def notes(line, prefix):
        [answer] = translate(Engine(model), tokenizer, [line], DecodingConfig(extra_length=2), LIMIT, FRAME, [prefix])
        return [note for note in answer.notes if note.startswith("unknown")]

    assert notes("the animal", "the animal") == []
    assert notes("the animal", "tired animal") == ["unknown: 'tired'"]  # only " tired" is known
    assert notes(f"{TEXT[0]}. " * 3, "") == []  # parts begin with "the", not with " the"


def test_a_split_line_says_that_it_has_no_n_best(model, tokenizer):
    lines = ["It was. " * 30, "the animal"]

    def notes(config):
        return [answer.notes for answer in translate(Engine(model), tokenizer, lines, config, LIMIT, FRAME)]

    long, short = notes(DecodingConfig(beam=2, n_best=2, extra_length=2))
    assert "no n_best of a split line" in long and "no n_best of a split line" not in short
    assert not [note for each in notes(DecodingConfig(beam=2, extra_length=2)) for note in each if "n_best" in note]


@pytest.mark.parametrize(
    "config",  # a beam has all that may go wrong without one
    [pytest.param(DecodingConfig(extra_length=8), marks=pytest.mark.slow), DecodingConfig(beam=3, extra_length=8)],
)
def test_a_sentence_is_translated_the_same_alone_in_any_batch_and_in_any_order(config, model, tokenizer):
    """Token for token in float32, except where two choices differ by less than 1e-5: those are counted."""
    lines = [" ".join(WORDS[i : i + n]) for i in range(8) for n in (1, 3, 4)]
    prompts = [[*tokenizer.encode(line), tokenizer.end_id] for line in lines]

    def decode(some):
        return [best for best, *_ in generate(model, some, config, tokenizer.start_id, tokenizer.end_id)]

    together, backwards = decode(prompts), decode(prompts[::-1])[::-1]
    alone = [decode([prompt])[0] for prompt in prompts]
    differing = [
        i
        for i in range(len(prompts))
        if not together[i].tokens == backwards[i].tokens == alone[i].tokens and not together[i].near_ties
    ]
    assert differing == []
    assert sum(hypothesis.near_ties > 0 for hypothesis in together) < len(prompts) / 2


def test_cached_decoding_finds_what_decoding_without_a_cache_finds(model, tokenizer):
    prompt = [*tokenizer.encode("the animal was tired"), tokenizer.end_id]
    [[best]] = generate(model, [prompt], DecodingConfig(extra_length=6), tokenizer.start_id, tokenizer.end_id)
    with torch.no_grad():
        said = [int(model.start([prompt], tokenizer.start_id)[1][0].argmax())]
        while len(said) < len(best.tokens):
            state, _ = model.start([prompt], tokenizer.start_id, room=len(said) + 1)
            said.append(int(model.step(torch.tensor([said]), state)[0, -1].argmax()))
    assert said == best.tokens


def test_a_model_that_is_nearly_certain_is_not_said_to_be_unsure() -> None:
    """After a training to almost no loss, 99 % of the validation lines are above -0.004 nats a token."""

    class Answer(NamedTuple):
        log_prob_per_token: float | None

    assert unusual(Answer(-0.02), {PER_TOKEN: -0.004}) == []
    assert unusual(Answer(-0.5), {PER_TOKEN: -0.004}) != [] and unusual(Answer(-0.5), {PER_TOKEN: -0.6}) == []
