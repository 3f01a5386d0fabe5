"""A bag of words, looked into: which n-grams speak for which label, in a text and in the whole model."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.errors import RegardError
from regard.models.bag import ABSENT, BagOfWords
from regard.nn.layout import Ragged
from regard.viewer.capture import Capture
from regard.viewer.map_set import Map

MOST_NGRAMS = 60  # of a text, each with a row of its own
MOST_FOR_LABEL = 15  # n-grams of the whole model, for each label


@torch.no_grad()
def look_at_ngrams(
    model: BagOfWords, words: Sequence[str], labels: Sequence[str], ids: np.ndarray, title: str
) -> Capture:
    """The n-grams of one text that the model knows, the strongest first, and its bias; the softmax of the sums of all
    rows are the probabilities of the labels.  `words` are all tokens of the vocabulary."""
    tokens = torch.from_numpy(ids).to(model.device)
    bag, votes = model.votes(tokens, Ragged([len(ids)], model.device))
    if not len(votes):
        raise RegardError("the model knows no n-gram of this text; look without a text to see what it knows")
    votes = above_mean(votes)
    order = votes.abs().amax(1).argsort(descending=True, stable=True)
    shown, others = order[:MOST_NGRAMS], order[MOST_NGRAMS:]
    names = [name(model, feature, words) for feature in bag.ngram[shown].tolist()]
    rows = [votes[shown], above_mean(model.bias[None])]
    if len(others):
        names.append(f"({len(others)} others)")
        rows.insert(1, votes[others].sum(0, keepdim=True))
    return tabled(title, "ngrams", [*names, "(bias)"], labels, torch.cat(rows))


@torch.no_grad()
def look_at_vocabulary(model: BagOfWords, words: Sequence[str], labels: Sequence[str]) -> Capture:
    """For each label the n-grams that speak most for it: what one of them adds, where a text has it once (tfidf: before
    the division by the text's length)."""
    n_known = int((model.keys != ABSENT).sum())
    votes = above_mean((model.scale * model.weight)[:n_known])
    best = votes.topk(min(MOST_FOR_LABEL, n_known), dim=0).indices.T.flatten()  # those of a label one after the other
    features = list(dict.fromkeys(best.tolist()))
    names = [name(model, feature, words) for feature in features]
    return tabled(f"{n_known:,} n-grams", "vocabulary", names, labels, votes[features])


def above_mean(votes: Tensor) -> Tensor:
    """(n-grams, L): what all labels get alike changes no probability."""
    return votes - votes.mean(1, keepdim=True)


def name(model: BagOfWords, feature: int, words: Sequence[str]) -> str:
    return " ".join(words[word].strip().lower() or words[word] for word in model.ngram(feature))


def tabled(title: str, kind: str, ngrams: list[str], labels: Sequence[str], votes: Tensor) -> Capture:
    weights = votes.cpu().numpy()
    return Capture(
        title=title, maps=[Map(kind=kind, layer=0, head=0, queries=ngrams, keys=list(labels), weights=weights)]
    )
