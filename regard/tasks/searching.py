"""What every run that reads text can be asked about nearness: of its words, and of whole texts."""

from collections.abc import Callable
from functools import partial

import numpy as np

from regard.errors import RegardError
from regard.tasks.neighbors import neighbors
from regard.tasks.request import Embed
from regard.tasks.setup import Use, Verbs
from regard.tasks.similarity.verbs import NearText, SearchResult, SearchTexts
from regard.text.tokenizer import Tokenizer

MakeVectors = Callable[[Use, Embed], np.ndarray]  # (texts, D)
AT_ONCE = 256  # queries that are compared with all texts at once


def text_verbs(tokenizer: Tokenizer, embed: MakeVectors) -> Verbs:
    return {"neighbors": partial(neighbors, tokenizer), "search": partial(search, embed)}


def search(embed: MakeVectors, use: Use, ask: SearchTexts) -> list[SearchResult]:
    """cos(q, t) = q·t / (|q| |t|), for each query q and text t; of equal cosines the earlier text comes first."""
    if not ask.corpus:
        raise RegardError("there is nothing to search in: the corpus has no texts")
    texts = unit(embed(use, Embed(ask.corpus)))
    queries = unit(embed(use, Embed(ask.queries)))
    results = []
    for start in range(0, len(queries), AT_ONCE):
        for number, cosines in enumerate(queries[start : start + AT_ONCE] @ texts.T, start=start):
            order = np.argsort(-cosines, kind="stable")[: ask.n]
            near = [NearText(ask.corpus[i], float(cosines[i]), int(i) + 1) for i in order]
            results.append(SearchResult(ask.queries[number], near))
    return results


def unit(vectors: np.ndarray) -> np.ndarray:
    """Of length 1; zeros, of a text without tokens, stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: np.ndarray = vectors / np.where(lengths > 0, lengths, 1)
    return scaled
