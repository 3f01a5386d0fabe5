"""Small texts, and Markov models that have counted them."""

import itertools

import numpy as np
import torch

from regard.models.chain import SMOOTHINGS
from regard.models.markov import Markov, MarkovConfig
from regard.nn.layout import Ragged

V = 7
MODELS = [
    *({"order": order, "smoothing": s} for order, s in itertools.product((1, 2, 3, 5), SMOOTHINGS)),
    *({"kind": k, "reach": r, "smoothing": s} for k in ("skips", "masked") for r in (1, 3, 0) for s in SMOOTHINGS),
]


def flat(sentences):
    return np.array([t for s in sentences for t in s], dtype=np.int64), np.array([len(s) for s in sentences])


def corpus(n=60, seed=0):
    """Sentences in which the next word depends on the one two before."""
    random = np.random.default_rng(seed)
    sentences = []
    for length in random.integers(1, 12, n):
        words = [1, int(random.integers(2, V))]
        while len(words) < length:
            words.append(int((words[-2] * 3 + random.integers(0, 2)) % V))
        sentences.append(words)
    return sentences


def make(**changes):
    model = Markov(MarkovConfig(vocab_size=V, **changes))
    model.count([flat(corpus())])
    return model


def batch(seed=1, n=6):
    sentences = [s for s in corpus(2 * n, seed) if len(s) > 1][:n]
    tokens = torch.tensor([t for s in sentences for t in s[:-1]])
    labels = torch.tensor([t for s in sentences for t in s[1:]])
    return tokens, labels, Ragged([len(s) - 1 for s in sentences])
