"""Sentences of realistic lengths, and batches of them: ours are flat, the peers' are padded."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.data.batching.packing import cut
from regard.nn.loss import IGNORED
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.text.words import END, SPECIAL, START

SHORTEST = 3
TYPICAL = 24  # the median length of a sentence in subwords, ...
SPREAD = 0.55  # ... the standard deviation of the logarithm of lengths, and ...
RATIO_SPREAD = 0.2  # ... of the ratio of a target's length to its source's: much as in news translation
FIRST_WORD = len(SPECIAL)  # smaller ids are special


@dataclass(frozen=True)
class Corpus:
    sources: list[np.ndarray]
    targets: list[np.ndarray]


def sentences(n: int, longest: int, vocab_size: int, seed: int = 0) -> Corpus:
    """Pairs with log-normal lengths; as in practice, those too short or too long are dropped."""
    random = np.random.default_rng(seed)
    source = TYPICAL * np.exp(SPREAD * random.standard_normal(2 * n + 100))
    target = source * np.exp(RATIO_SPREAD * random.standard_normal(len(source)))
    lengths = np.stack([source, target]).round().astype(int)
    fits = ((lengths >= SHORTEST) & (lengths <= longest)).all(0)
    lengths = lengths[:, fits][:, :n]
    columns = [[random.integers(FIRST_WORD, vocab_size, length) for length in side] for side in lengths]
    return Corpus(*columns)


def batches(corpus: Corpus, order: str, budget: int, n: int) -> list[PairBatch]:
    """n batches of about `budget` real target tokens each, from the shortest sentences to the longest."""
    sources, targets = (np.array([len(x) + 1 for x in side]) for side in (corpus.sources, corpus.targets))
    batches = cut(ORDERS[order](sources, targets), targets, budget)[:-1]  # the last is not full
    batches.sort(key=lambda batch: float(targets[batch].mean()))
    chosen = [batches[i] for i in np.linspace(0, len(batches) - 1, n + 2).astype(int)[1:-1]]
    frame = Frame(START, END)
    return [make_batch([corpus.sources[i] for i in b], [corpus.targets[i] for i in b], [], frame) for b in chosen]


# Lengths of sources and targets -> the order in which batches are cut.
ORDERS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "random": lambda sources, targets: np.arange(len(sources)),
    "grouped": lambda sources, targets: np.argsort(np.maximum(sources, targets), kind="stable"),  # the least padding
}


@dataclass(frozen=True)
class PaddedBatch:
    source: Tensor  # B S
    source_mask: Tensor  # B S, True where there is a word
    target: Tensor  # B T, what the decoder reads
    labels: Tensor  # B T, what it should write; IGNORED where there is nothing


def padded(batch: PairBatch, multiple: int = 1) -> PaddedBatch:
    """The same sentences, padded to the longest of each side, and that to a multiple."""

    def widen(rows: Tensor) -> Tensor:
        return F.pad(rows, (0, -rows.shape[1] % multiple))

    target_mask = widen(batch.target_layout.pad(torch.ones_like(batch.target)).bool())
    return PaddedBatch(
        widen(batch.source_layout.pad(batch.source)),
        widen(batch.source_layout.pad(torch.ones_like(batch.source)).bool()),
        widen(batch.target_layout.pad(batch.target)),
        widen(batch.target_layout.pad(batch.labels)).masked_fill(~target_mask, IGNORED),
    )


def padding(of: list[PairBatch]) -> float:
    """The share of padding, once all are padded to the longest."""
    layouts = [layout for batch in of for layout in (batch.source_layout, batch.target_layout)]
    return 1 - sum(x.n_rows for x in layouts) / sum(x.n_sequences * x.longest for x in layouts)
