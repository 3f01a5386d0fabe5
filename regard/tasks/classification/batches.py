"""Documents with a label each, and the batches made of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import Batch
from regard.data.batching.grouping import by_length, put_back
from regard.data.batching.packing import Packing, cut
from regard.data.batching.selection import select
from regard.data.batching.shards import TokenShard, shard
from regard.data.files.labelled import Labelled
from regard.data.notes import Notes
from regard.nn.layout import Ragged
from regard.tasks.framing import Framing
from regard.tasks.setup import Setup
from regard.text.dropout import SampledTexts

UNLIMITED = 2**62


@dataclass(frozen=True)
class DocumentBatch(Batch):
    """Flat rows of tokens, and one label for each document."""

    tokens: Tensor  # N
    layout: Ragged
    labels: Tensor  # B

    @property
    def n_targets(self) -> int:
        return self.layout.n_sequences

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows


def flat(documents: Sequence[np.ndarray]) -> tuple[Tensor, Ragged]:
    tokens = np.concatenate([np.empty(0, np.int64), *documents])
    return torch.from_numpy(tokens.astype(np.int64)), Ragged([len(document) for document in documents])


class Documents:
    """One part of a data set: tokenised once, long documents cut, and every decision in `notes`.  A document is a
    text, or a pair of them, in its `framing`.

    What is learnt from has no empty documents; what is only answered keeps them, so that each gets an answer.
    """

    def __init__(
        self,
        labelled: Labelled,
        label_set: Sequence[str],
        keep: str,
        setup: Setup,
        to_learn: bool,
        framed: bool = False,
    ):
        self.labelled, self.tokenizer, columns = labelled, setup.tokenizer, labelled.examples.columns
        self.framing = Framing(setup.tokenizer, framed, keep, setup.data.max_length, len(columns))
        self.max_length = setup.data.max_length
        self.labels = labelled.ids(label_set)
        json = setup.tokenizer.to_json()
        self.parts: list[TokenShard] = [shard(column, setup.tokenizer, json, setup.cache) for column in columns]
        self.lengths = self.framing.lengths([part.lengths for part in self.parts])  # before they are cut
        self.notes = Notes()
        self.notes.update(labelled.examples.notes)
        self.kept = np.arange(len(labelled))
        if to_learn:
            self.kept, dropped = select(labelled.examples, [part.lengths for part in self.parts], UNLIMITED)
            self.notes.update(dropped)
        self.long = np.flatnonzero(self.lengths > self.max_length)
        if len(self.long):
            where = labelled.examples.where(int(self.long[0]))
            self.notes.add(f"cut to the {keep} {self.max_length:,} tokens", where, len(self.long))
        self.samplers: dict[float, list[SampledTexts]] = {}

    def __len__(self) -> int:
        return len(self.kept)

    @property
    def n_tokens(self) -> int:
        """Of all texts, without special ones."""
        return sum(len(part.ids) for part in self.parts)

    def documents(self, indices: np.ndarray) -> list[np.ndarray]:
        """Tokens of the documents at these places of `kept`."""
        return [self.framing.join([part[i] for part in self.parts]) for i in self.kept[indices]]

    def packing(self, budget: int, order: str, seed: int) -> Packing:
        lengths = np.minimum(self.lengths[self.kept], self.max_length)
        return Packing(lengths, budget, order, seed)

    def batch(self, indices: np.ndarray, dropout: float = 0.0, draw: int = 0) -> DocumentBatch:
        """With BPE-dropout the cut into tokens depends on (draw, document) alone."""
        places = self.kept[indices]
        documents = self.sampled(places, dropout, draw) if dropout else self.documents(indices)
        lines = [self.labelled.examples.where(i) for i in places]
        return DocumentBatch(lines, *flat(documents), torch.from_numpy(self.labels[places]))

    def sampled(self, places: np.ndarray, dropout: float, draw: int) -> list[np.ndarray]:
        if dropout not in self.samplers:
            columns, pairs = self.labelled.examples.columns, self.tokenizer.pairs
            self.samplers[dropout] = [SampledTexts(column, pairs, dropout) for column in columns]
        keys = np.uint64(draw << 40) + places.astype(np.uint64)
        drawn = [sampler.sample(places, keys) for sampler in self.samplers[dropout]]
        return [self.framing.join(parts) for parts in zip(*drawn, strict=True)]

    def all_batches(self, budget: int) -> Iterator[tuple[Tensor, Ragged, Tensor]]:
        """Everything once, in order: tokens, layout, labels."""
        lengths = np.minimum(self.lengths[self.kept], self.max_length)
        for part in cut(np.arange(len(self)), lengths, budget):
            batch = self.batch(part)
            yield batch.tokens, batch.layout, batch.labels


@torch.no_grad()
def log_probabilities(model: Any, documents: Sequence[np.ndarray], budget: int) -> np.ndarray:
    """log P(label | document), (documents, L).  Documents of about one length are read together."""
    device = next(model.parameters()).device
    lengths = np.array([len(document) for document in documents], np.int64)
    groups, found = by_length(lengths, budget), []
    for group in groups:
        tokens, layout = flat([documents[i] for i in group])
        found.append(model(tokens.to(device), layout.to(device)).float().log_softmax(-1).cpu())
    return put_back(found, groups).numpy()
