"""The tags that a model gives to words."""

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import by_length
from regard.data.batching.pieces import WordPieces
from regard.models.heads import Tagger
from regard.nn.layout import Gather, Ragged


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
