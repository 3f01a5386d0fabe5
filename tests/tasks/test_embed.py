"""Vectors of documents, from models that no run is trained of in the tests of the command."""

import numpy as np
import pytest
import torch

from regard.errors import ConfigError, RegardError
from regard.models import ARCHITECTURES
from regard.models.heads import LanguageModel
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.stack import Stack, StackConfig
from regard.nn.layout import Ragged
from regard.nn.pooling import POOLINGS
from regard.tasks import embedding
from regard.tasks.embedding import embed, embed_texts, read_in_pieces

DOCUMENTS = [np.array(ids, np.int64) for ids in ([5, 6, 7], [], [8], [9, 4, 4, 5, 6, 7])]


def stack() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(Stack(StackConfig(vocab_size=10, d_model=8, n_heads=2, n_layers=1, d_ff=8))).eval()


def seq2seq() -> Seq2Seq:
    torch.manual_seed(0)
    return Seq2Seq(Seq2SeqConfig(vocab_size=10, d_model=6, d_hidden=5, dropout=0.0)).eval()


@pytest.mark.parametrize(("architecture", "model", "width"), [("stack", stack(), 8), ("seq2seq", seq2seq(), 10)])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_document_alone_is_as_among_others_in_any_batch(monkeypatch, architecture, model, width, pooling):
    if (architecture, pooling) == ("stack", "first"):
        with pytest.raises(RegardError, match="knows nothing of what follows; use last"):
            embed(model, DOCUMENTS, pooling, None)
        return
    vectors = embed(model, DOCUMENTS, pooling, None)
    assert vectors.shape == (4, width) and not vectors[1].any() and vectors[[0, 2, 3]].any(1).all()
    monkeypatch.setattr(embedding, "BATCH_TOKENS", 3)  # several batches, by length
    for i, alone in enumerate(embed(model, DOCUMENTS[::-1], pooling, None)[::-1]):
        np.testing.assert_allclose(alone, vectors[i], atol=1e-6)
        np.testing.assert_allclose(embed(model, [DOCUMENTS[i]], pooling, None)[0], vectors[i], atol=1e-6)


def test_the_last_of_both_directions_is_the_end_of_each():
    model, tokens = seq2seq(), torch.from_numpy(DOCUMENTS[3])
    with torch.no_grad():
        rows = model.encode(tokens, Ragged([6])).numpy()
    (vector,) = embed(model, DOCUMENTS[3:], "last", None)
    np.testing.assert_allclose(vector, [*rows[-1, :5], *rows[0, 5:]], atol=1e-6)


@pytest.mark.parametrize("architecture", ["bag", "markov"])
def test_a_model_without_rows_is_refused(architecture):
    row = ARCHITECTURES[architecture]
    with pytest.raises(RegardError, match="makes no hidden rows"):
        embed(row.module(row.config(vocab_size=10)), DOCUMENTS, "mean", None)


def test_an_unknown_pooling_is_named():
    with pytest.raises(ConfigError, match=r"median.*mean"):
        embed(stack(), DOCUMENTS, "median", None)


def plain(text: str) -> list[int]:
    return list(map(int, text.split()))


def framed(text: str) -> list[int]:
    return [1, *plain(text), 2]


def only_started_when_empty(text: str) -> list[int]:
    """As imported language models have it that put nothing before a text."""
    return plain(text) or [1]


@pytest.mark.parametrize(
    ("encode", "most", "expected"),
    [
        (plain, 5, [[3, 4, 5, 6, 7]]),
        (plain, 2, [[3, 4], [5, 6], [7]]),
        (framed, 4, [[1, 3, 4, 2], [1, 5, 6, 2], [1, 7, 2]]),
        (framed, 2, [[1, 3], [4, 5], [6, 7], [2]]),  # no room beside what stands around it
        (only_started_when_empty, 3, [[3, 4, 5], [6, 7]]),
    ],
)
def test_a_text_that_is_too_long_is_read_in_pieces(encode, most, expected):
    assert read_in_pieces("3 4 5 6 7", encode, most) == expected


def test_of_pieces_the_mean_is_given_and_other_texts_stay_as_they_were(monkeypatch):
    model = seq2seq()
    alone = embed(model, DOCUMENTS, "mean", None)
    monkeypatch.setattr(Seq2Seq, "max_length", 4)
    texts = [" ".join(map(str, ids)) for ids in DOCUMENTS]
    vectors = embed_texts(model, texts, plain, "mean", None)
    np.testing.assert_allclose(vectors[:3], alone[:3], atol=1e-6)
    first, second = embed(model, [DOCUMENTS[3][:4], DOCUMENTS[3][4:]], "mean", None)
    np.testing.assert_allclose(vectors[3], (4 * first + 2 * second) / 6, atol=1e-6)
