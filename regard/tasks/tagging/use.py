"""Lines tagged: lines in, a tag for every word out."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import by_length
from regard.data.batching.windows import WordPieces
from regard.models.heads import Tagger
from regard.nn.layout import Gather, Ragged
from regard.tasks.tagging.verbs import TaggedLine
from regard.text.tokenizer import Tokenizer


def word_logits(model: Tagger, tokens: Tensor, layout: Ragged, last: Tensor) -> Tensor:
    """(words, tags): what the model says at the last token of each word."""
    return Gather.apply(model(tokens, layout), last)


@torch.no_grad()
def predict(model: Tagger, pieces: WordPieces, batch_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """The best tag of every word, and its probability.  Pieces of about one length are read together."""
    device = model.device
    best, probabilities = np.zeros(len(pieces.words), np.int64), np.zeros(len(pieces.words))
    for part in by_length(pieces.lengths, batch_tokens):
        rows = pieces.rows(part)
        layout = Ragged(torch.from_numpy(rows.lengths)).to(device)
        tokens, last = (torch.from_numpy(array).to(device) for array in (rows.tokens, rows.last))
        highest = word_logits(model, tokens, layout, last).float().softmax(-1).max(-1)
        best[rows.words], probabilities[rows.words] = highest.indices.cpu().numpy(), highest.values.cpu().numpy()
    return best, probabilities


def tag(
    model: Tagger,
    tokenizer: Tokenizer,
    sentences: Sequence[list[str]],
    tag_set: Sequence[str],
    write: Callable[[list[str], list[str]], str],
    max_length: int,
    framed: bool,
    batch_tokens: int,
) -> list[TaggedLine]:
    """One answer per sentence, in order; `write` makes a text of its words and tags."""
    pieces = WordPieces(sentences, [str(i) for i in range(1, len(sentences) + 1)], tokenizer, max_length, framed)
    best, probabilities = predict(model, pieces, batch_tokens)
    n_pieces = np.bincount(pieces.sentence, minlength=len(sentences))
    answers = []
    start = 0
    for words, n in zip(sentences, n_pieces, strict=True):
        own = slice(start, start + len(words))
        notes = ["empty"] if not words else [f"split into {n}"] if n > 1 else []
        tags = [tag_set[i] for i in best[own]]
        answers.append(TaggedLine(words, tags, probabilities[own].tolist(), write(words, tags), notes))
        start += len(words)
    return answers
