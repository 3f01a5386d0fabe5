"""One vector for each text, of the hidden rows that a model has learnt to make of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.choose import choose
from regard.data.batching.grouping import by_length, put_back
from regard.errors import RegardError
from regard.models import ARCHITECTURES
from regard.models.heads import is_bidirectional, sees_future
from regard.nn.layout import Layout
from regard.nn.pooling import POOLINGS, summary
from regard.tasks.classification.batches import flat
from regard.tasks.language.use import start_of
from regard.text.tokenizer import Tokenizer

BATCH_TOKENS = 8192
ANY_TOKEN = np.array([0])  # stands in for a text that has none; its rows are not kept


class EncoderHalf:
    """The half of a translator that reads, as a reader."""

    def __init__(self, encode: Callable[[Tensor, Layout], Tensor], bidirectional: bool):
        self.encode, self.bidirectional = encode, bidirectional

    def __call__(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self.encode(tokens, layout)


# What of a model reads, by the role of its architecture ...
READERS: dict[str, Callable[[Any], Any]] = {
    "reader": lambda model: model.reader,
    "bidirectional": lambda model: model,
}
# ... and, where it writes something else than it reads, by the architecture itself.
ENCODERS: dict[str, Callable[[Any], EncoderHalf]] = {
    "seq2seq": lambda model: EncoderHalf(model.encode, model.config.bidirectional),
    "transformer": lambda model: EncoderHalf(model.encode, bidirectional=False),
}

# By the kind of a task, how a text is framed where it is not just its tokens.
FRAMES: dict[str, Callable[[list[int], Tokenizer, Any], list[int]]] = {
    "language": lambda ids, tokenizer, task: [*start_of(ids, tokenizer, task.unit), *ids],
    "translation": lambda ids, tokenizer, task: task.frame(tokenizer).source(ids),
    "prompted": lambda ids, tokenizer, task: task.frame(tokenizer).source(ids),
    "denoising": lambda ids, tokenizer, task: task.frame(tokenizer).source(ids),
    "label-words": lambda ids, tokenizer, task: task.frame(tokenizer).source(ids),
    "replaced": lambda ids, tokenizer, task: [tokenizer.start_id, *ids, tokenizer.end_id],
    "masked": lambda ids, tokenizer, task: [tokenizer.start_id, *ids, tokenizer.end_id],
    "reading": lambda ids, tokenizer, task: [tokenizer.start_id, *ids, tokenizer.end_id],
    "answers": lambda ids, tokenizer, task: [tokenizer.start_id, *ids, tokenizer.end_id],
    **dict.fromkeys(
        ("classification", "tagging", "restoration"),
        lambda ids, tokenizer, task: [tokenizer.start_id, *ids, tokenizer.end_id] if task.framed else ids,
    ),
}


def framed(lines: list[str], tokenizer: Tokenizer, kind: str, task: Any, max_length: int) -> list[np.ndarray]:
    """The tokens of each line as the task has them."""
    frame = FRAMES.get(kind, lambda ids, tokenizer, task: ids)
    documents = [np.array(frame(ids, tokenizer, task), np.int64) for ids in tokenizer.encode_batch(lines)]
    for number, document in enumerate(documents, start=1):
        if len(document) > max_length:
            raise RegardError(f"line {number} has {len(document):,} tokens, the model reads {max_length:,}; split it")
    return documents


def embed(model: Any, architecture: str, documents: list[np.ndarray], pooling: str, layer: int | None) -> np.ndarray:
    """(documents, D): the mean, first, last or largest of each document's rows; zeros of one without tokens.

    `layer` asks for the rows of one layer, the embeddings being layer 0; otherwise they are the model's features.
    """
    choose(POOLINGS, pooling, "pooling")
    find = READERS.get(ARCHITECTURES[architecture].role) or ENCODERS.get(architecture)
    if find is None:
        raise RegardError(f"a model of the architecture {architecture!r} makes no hidden rows: it cannot embed a text")
    if not documents:  # none, but each of them as wide as any other
        return embed(model, architecture, [ANY_TOKEN], pooling, layer)[:0]
    reader = find(model)
    if pooling == "first" and ARCHITECTURES[architecture].role == "reader" and not sees_future(reader):
        raise RegardError(
            "the first row of a model that reads from left to right knows nothing of what follows; use last"
        )
    device = next(model.parameters()).device
    lengths = np.array([max(len(document), 1) for document in documents])
    groups, found = by_length(lengths, BATCH_TOKENS), []
    for group in groups:
        tokens, layout = flat([documents[i] if len(documents[i]) else ANY_TOKEN for i in group])
        tokens, layout = tokens.to(device), layout.to(device)
        with torch.no_grad():
            rows = rows_of(reader, tokens, layout, layer)
            found.append(summary(rows, layout, pooling, is_bidirectional(reader)).float().cpu())
    vectors = put_back(found, groups).numpy()
    vectors[[len(document) == 0 for document in documents]] = 0
    return vectors


def rows_of(reader: Any, tokens: Tensor, layout: Layout, layer: int | None) -> Tensor:
    if layer is None:
        rows: Tensor = getattr(reader, "features", reader)(tokens, layout)
        return rows
    if not hasattr(reader, "layers"):
        raise RegardError("of this run's model only the last layer can be had; leave out the layer")
    layers: Tensor = reader.layers(tokens, layout)
    if not 0 <= layer < len(layers):
        raise RegardError(f"there is no layer {layer}; the model has 0 (the embeddings) to {len(layers) - 1}")
    return layers[layer]
