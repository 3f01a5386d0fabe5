"""One vector for each text, of the hidden rows that a model makes of it."""

from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from regard.choose import choose
from regard.data.batching.batch import put_back, read_together
from regard.errors import RegardError
from regard.models.interface import Model
from regard.nn.layout import Layout
from regard.nn.pooling import POOLINGS, summary

BATCH_TOKENS = 8192
ANY_TOKEN = np.array([0])  # stands in for a text that has none; its rows are not kept


def read_in_pieces(text: str, encode: Callable[[str], list[int]], most: int) -> list[list[int]]:
    """The tokens of a text; where they are more than `most`, in parts, each with what stands around every text."""
    ids = encode(text)
    if len(ids) <= most:
        return [ids]
    around = encode("")
    n_before = n_equal(ids, around)
    n_after = n_equal(ids[::-1], around[n_before:][::-1])
    room = most - n_before - n_after
    if room < 1:  # nothing of the text would be left
        n_before, n_after, room = 0, 0, most
    before, inner, after = ids[:n_before], ids[n_before : len(ids) - n_after], ids[len(ids) - n_after :]
    return [[*before, *inner[start : start + room], *after] for start in range(0, len(inner), room)]


def n_equal(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def embed_texts(
    model: Model, texts: Sequence[str], encode: Callable[[str], list[int]], pooling: str, layer: int | None
) -> np.ndarray:
    """`embed` of texts.  One that is too long gets the mean of its pieces, each counted as often as it has tokens."""
    in_pieces = [read_in_pieces(text, encode, model.read_at_once) for text in texts]
    vectors = embed(model, [ids for parts in in_pieces for ids in parts], pooling, layer)
    whole, start = vectors[: len(texts)].copy(), 0
    for i, parts in enumerate(in_pieces):
        own = vectors[start : start + len(parts)]
        whole[i] = own[0] if len(parts) == 1 else np.average(own, axis=0, weights=[len(ids) for ids in parts])
        start += len(parts)
    return whole


@torch.no_grad()
def embed(model: Model, texts: Sequence[Sequence[int]], pooling: str, layer: int | None) -> np.ndarray:
    """(texts, D): the mean, first, last or largest of each text's rows; zeros of one without tokens.

    `layer` asks for the rows of one layer, the embeddings being layer 0; otherwise they are the model's features.
    """
    choose(POOLINGS, pooling, "pooling")
    if pooling == "first" and not model.sees_future:
        raise RegardError(
            "the first row of a model that reads from left to right knows nothing of what follows; use last"
        )
    is_empty = [not len(ids) for ids in texts] or [True]  # of no text, too, vectors have a width
    documents = [np.array(ids, np.int64) if len(ids) else ANY_TOKEN for ids in texts] or [ANY_TOKEN]
    groups, vectors = [], []
    for group, tokens, layout in read_together(documents, BATCH_TOKENS, model.device):
        rows = rows_of(model, tokens, layout, layer)
        groups.append(group)
        vectors.append(summary(rows, layout, pooling, model.bidirectional).float().cpu())
    summaries: np.ndarray = put_back(vectors, groups).numpy()
    summaries[is_empty] = 0
    return summaries[: len(texts)]


def rows_of(model: Model, tokens: Tensor, layout: Layout, layer: int | None) -> Tensor:
    if layer is None:
        return model.features(tokens, layout)
    layers = model.layers(tokens, layout)
    if not 0 <= layer < len(layers):
        raise RegardError(f"there is no layer {layer}; the model has 0 (the embeddings) to {len(layers) - 1}")
    return layers[layer]
