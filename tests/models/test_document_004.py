"""Document 004, "deep dive" into attention: every transition table and every example sentence, from the words alone."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.config import to_toml
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.models.markov import Markov, MarkovConfig

SHOW = {"show me my directories please": 2, "show me my files please": 3, "show me my photos please": 5}
RAN = {"check whether the battery ran down please": 4, "check whether the program ran please": 6}
LOG = {
    "check the program log and find out whether it ran please": 5,
    "check the battery log and find out whether it ran down please": 5,
}
START, END = "<s>", "</s>"
PAGE = (Path(__file__).parents[2] / "docs" / "markov.md").read_text(encoding="utf-8")


def vocabulary(corpus):
    """Alphabetical, as in the document."""
    return sorted({word for sentence in corpus for word in sentence.split()})


def train(corpus, words, wrap=False, **settings):
    ids = {word: i for i, word in enumerate(words)}
    sentences = [
        [START, *sentence.split(), END] if wrap else sentence.split()
        for sentence, times in corpus.items()
        for _ in range(times)
    ]
    model = Markov(MarkovConfig(vocab_size=len(words), smoothing="none", **settings))
    tokens = np.array([ids[word] for sentence in sentences for word in sentence])
    model.count([(tokens, np.array([len(sentence) for sentence in sentences]))])
    return model


def ids_of(text, words):
    return torch.tensor([words.index(word) for word in text.split()])


def table(rows, words):
    """{"the": {"battery": .4}} as a matrix; what is not said is 0."""
    return torch.tensor([[row.get(word, 0.0) for word in words] for row in rows.values()])


def assert_table(model, expected, words):
    contexts = torch.stack([ids_of(context, words) for context in expected])
    torch.testing.assert_close(model.predictor.table(contexts), table(expected, words))


def test_first_order_show_me_my_files():
    words = vocabulary(SHOW)
    assert words == ["directories", "files", "me", "my", "photos", "please", "show"]
    expected = {
        "directories": {"please": 1},
        "files": {"please": 1},
        "me": {"my": 1},
        "my": {"directories": 0.2, "files": 0.3, "photos": 0.5},
        "photos": {"please": 1},
        "please": {},
        "show": {"me": 1},
    }
    assert list(expected) == words
    assert_table(train(SHOW, words, order=1), expected, words)


def test_a_one_hot_word_pulls_out_its_row():
    """The one-hot vector of "me" times the transition matrix is what follows "me"."""
    words = vocabulary(SHOW)
    model = train(SHOW, words, order=1)
    one_hot = torch.nn.functional.one_hot(ids_of("me", words), len(words)).float()
    matrix = model.predictor.table(torch.arange(len(words))[:, None])
    torch.testing.assert_close(one_hot @ matrix, table({"me": {"my": 1.0}}, words))
    torch.testing.assert_close(one_hot @ matrix, model.predictor.rows(ids_of("me", words)[None]))


def test_first_order_cannot_tell_what_follows_ran():
    words = vocabulary(RAN)
    assert words == ["battery", "check", "down", "please", "program", "ran", "the", "whether"]
    expected = {
        "battery": {"ran": 1},
        "check": {"whether": 1},
        "down": {"please": 1},
        "please": {},
        "program": {"ran": 1},
        "ran": {"down": 0.4, "please": 0.6},
        "the": {"battery": 0.4, "program": 0.6},
        "whether": {"the": 1},
    }
    assert_table(train(RAN, words, order=1), expected, words)


def test_second_order_can():
    words = vocabulary(RAN)
    expected = {
        "battery ran": {"down": 1},
        "check whether": {"the": 1},
        "program ran": {"please": 1},
        "the battery": {"ran": 1},
        "the program": {"ran": 1},
        "ran down": {"please": 1},
        "whether the": {"battery": 0.4, "program": 0.6},
        "down please": {},  # the document's last row: nothing follows
    }
    assert_table(train(RAN, words, order=2), expected, words)


def test_second_order_is_too_short_for_the_longer_sentences():
    words = vocabulary(LOG)
    assert_table(train(LOG, words, order=2), {"it ran": {"down": 0.5, "please": 0.5}}, words)


UNSURE = {"down": 0.5, "please": 0.5}
WITH_RAN = {
    "and": UNSURE,
    "battery": {"down": 1},
    "check": UNSURE,
    "find": UNSURE,
    "it": UNSURE,
    "log": UNSURE,
    "out": UNSURE,
    "program": {"please": 1},
    "the": UNSURE,
    "whether": UNSURE,
}
PROGRAM = "check the program log and find out whether it ran"
BATTERY = "check the battery log and find out whether it ran"


def test_second_order_with_skips():
    words = vocabulary(LOG)
    assert " ".join(words) == "and battery check down find it log out please program ran the whether"
    model = train(LOG, words, kind="skips", reach=0)
    for text in (PROGRAM, BATTERY):
        expected = {word: WITH_RAN[word] for word in text.split()[:-1]}
        torch.testing.assert_close(model.votes(ids_of(text, words))[:-1], table(expected, words))
    for never in ("down", "please", "ran"):  # the empty rows: the pair never came before anything, so it has no vote
        assert model.weights(ids_of(f"{never} ran", words))[-1].tolist() == [0, 1]


def test_all_votes_together_lean_the_right_way():
    """Eight words vote half and half, one knows: 4 + 1 of 9."""
    words = vocabulary(LOG)
    model = train(LOG, words, kind="skips", reach=0)
    for text, right, wrong in ((PROGRAM, "please", "down"), (BATTERY, "down", "please")):
        row = model.predictor.rows(ids_of(text, words)[None])
        torch.testing.assert_close(row, table({"": {right: 5 / 9, wrong: 4 / 9}}, words))


@pytest.mark.parametrize(("text", "knows", "next_word"), [(PROGRAM, "program", "please"), (BATTERY, "battery", "down")])
def test_the_mask_leaves_the_word_that_matters(text, knows, next_word):
    words = vocabulary(LOG)
    model = train(LOG, words, kind="masked", reach=0)
    tokens = ids_of(text, words)
    weights = dict(zip(text.split(), model.weights(tokens)[-1].tolist(), strict=True))
    assert weights == {word: float(word == knows) for word in text.split()}
    torch.testing.assert_close(model.predictor.rows(tokens[None]), table({"": {next_word: 1.0}}, words))


@pytest.mark.sampled("variants of one architecture; tests/pairs walks every architecture")
@pytest.mark.parametrize("text", [PROGRAM, BATTERY, "check the program log and find out", "check", "please ran"])
@pytest.mark.parametrize("kind", ["skips", "masked"])
def test_attention_is_a_matrix_product(text, kind):
    """query (one-hot of the last word) · all the masks → the mask; it weighs the words of the text, and these their
    votes."""
    words = vocabulary(LOG)
    model = train(LOG, words, kind=kind, reach=0)
    tokens, n = ids_of(text, words), len(words)
    one_hot = torch.eye(n)

    earlier, last = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    pairs = torch.stack([earlier, last], -1)  # every word with every last word
    keys = model.skips.mask(pairs.view(-1, 2)).view(n, n)  # earlier, last: all the masks, stacked
    values = torch.stack([model.votes(pair)[0] for pair in pairs.view(-1, 2)]).view(n, n, n)

    query = one_hot[tokens[-1]]
    scores = query @ keys.T @ one_hot[tokens[:-1]].T  # one for each earlier word of the text
    context = scores @ one_hot[tokens[:-1]]  # how often each word of the vocabulary has a vote
    votes = context @ torch.einsum("l,eln->en", query, values)
    expected = votes / scores.sum() if scores.any() else query @ model.skips.alone.rows(torch.arange(n)[:, None])

    torch.testing.assert_close(model.predictor.rows(tokens[None])[0], expected)
    weights = model.weights(tokens)[-1]
    torch.testing.assert_close(weights @ model.votes(tokens), expected)
    torch.testing.assert_close(weights[:-1], scores / scores.sum().clamp(min=1))


@pytest.mark.parametrize(
    ("corpus", "settings", "prompt", "rest"),
    [
        (SHOW, {"order": 1}, "show me my", "photos please"),
        (RAN, {"order": 1}, "check whether the battery ran", "please"),  # wrong, as the document says
        (RAN, {"order": 2}, "check whether the battery ran", "down please"),
        (RAN, {"order": 2}, "check whether the program ran", "please"),
        (LOG, {"kind": "masked", "reach": 0}, BATTERY, "down please"),
        (LOG, {"kind": "masked", "reach": 0}, PROGRAM, "please"),
        (LOG, {"kind": "masked", "reach": 9}, PROGRAM, "please"),  # "program" is seven words before "ran"
    ],
)
def test_sentences_are_completed(corpus, settings, prompt, rest):
    words = [START, END, *vocabulary(corpus)]
    model = train(corpus, words, wrap=True, **settings)
    ((best,),) = generate(model, [ids_of(f"{START} {prompt}", words).tolist()], DecodingConfig(beam=1), 0, 1)
    assert " ".join(words[token] for token in best.tokens) == rest and best.finished


def test_the_page_says_what_happens(capsys):
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})
    told = capsys.readouterr().out
    assert "'battery': 1.0" in told and told.count(": 0.0") == 9


def test_the_page_lists_every_setting_with_its_default():
    shown = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", PAGE, re.MULTILINE))
    fields = [field for field in dataclasses.fields(MarkovConfig) if field.name != "vocab_size"]
    assert shown == {field.name: to_toml(field.default) for field in fields}
