from collections import Counter

import pytest
import torch
from small_markov import V, corpus, make


def kneser_ney(sentences, order, context, word, vocab_size):
    """Chen and Goodman's equations, as they stand, over dictionaries."""
    padded = [[V] * (order - 1) + s for s in sentences]  # V: the boundary
    top = Counter(tuple(s[i - order : i + 1]) for s in padded for i in range(order, len(s)))
    tables = [top]
    while len(next(iter(tables[-1]))) > 1:
        tables.append(Counter(gram[1:] for gram in tables[-1]))  # how many different words stand before
    p = 1 / vocab_size
    for table in reversed(tables):
        k = len(next(iter(table))) - 1
        n = Counter(table.values())
        y = n[1] / (n[1] + 2 * n[2]) if n[1] else 0
        discounts = [0.0]
        for r in (1, 2, 3):
            d = r - (r + 1) * y * n[r + 1] / n[r] if n[1] and n[r] else 0
            discounts.append(d if 0 < d < r else r / 2)
        here = context[len(context) - k :]
        following = {gram[-1]: c for gram, c in table.items() if gram[:-1] == here}
        if following:
            taken = sum(discounts[min(c, 3)] for c in following.values())
            c = following.get(word, 0)
            p = (c - discounts[min(c, 3)] + taken * p) / sum(following.values())
    return p


@pytest.mark.parametrize("order", [1, 2, 3])
def test_kneser_ney_is_the_papers_equation(order):
    model = make(order=order)
    for window in ([1, 2, 6], [V, 1, 3], [V, V, 1], [4, 4, 4], [2, 6, 4]):
        row = model.predictor.rows(torch.tensor([window[-order:]]))[0]
        expected = [kneser_ney(corpus(), order, tuple(window[-order:]), word, V) for word in range(V)]
        torch.testing.assert_close(row, torch.tensor(expected))


def test_nltk_agrees_on_unsmoothed_and_kneser_ney_chains():
    lm = pytest.importorskip("nltk.lm")
    sentences = [[V, *s] for s in corpus()]
    grams = [[tuple(s[i - k : i + 1]) for i in range(2, len(s)) for k in range(3)] for s in sentences]

    def fitted(theirs):
        theirs.fit([[tuple(map(str, gram)) for gram in each] for each in grams], [str(w) for w in range(V)])
        return theirs

    mle, kn = fitted(lm.MLE(3)), fitted(lm.KneserNeyInterpolated(3, discount=0.1))
    plain, smooth = make(order=2, smoothing="none"), make(order=2)
    # NLTK has one discount, and none for single words.
    for k, level in enumerate(smooth.predictor.levels):
        level.smooth(level.used)
        level.discounts = torch.tensor([0.0, 0.1, 0.1, 0.1]) if k else torch.zeros(4)
        n_words = level.begins.diff()
        seen = torch.segment_reduce((level.used > 0).double(), "sum", lengths=n_words)
        level.left = (level.discounts[1] * seen / level.totals.clamp(min=1)).float()
        level.left[level.totals == 0] = 1
    for context in {gram[:2] for each in grams for gram in each if len(gram) == 3}:
        names = tuple(map(str, context))
        for model, theirs in ((plain, mle), (smooth, kn)):
            row = model.predictor.rows(torch.tensor([context]))[0]
            torch.testing.assert_close(row, torch.tensor([theirs.score(str(w), names) for w in range(V)]))
