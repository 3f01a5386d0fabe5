"""One vector for each text, of the hidden rows that a model makes of it."""

from collections.abc import Sequence

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


@torch.no_grad()
def embed(model: Model, texts: Sequence[Sequence[int]], pooling: str, layer: int | None) -> np.ndarray:
    """(texts, D): the mean, first, last or largest of each text's rows; zeros of one without tokens.

    `layer` asks for the rows of one layer, the embeddings being layer 0; otherwise they are the model's features.
    """
    choose(POOLINGS, pooling, "pooling")
    for number, ids in enumerate(texts, start=1):
        if len(ids) > model.max_length:
            raise RegardError(f"line {number} has {len(ids):,} tokens, the model reads {model.max_length:,}; split it")
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
