"""Similarity: pairs of texts that belong together in, a vector for each text out; vectors of a pair become alike, and
unlike those of all other pairs in the batch (contrastive learning)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import one_of, positive
from regard.choose import choose
from regard.data.batching.batch import read_each
from regard.data.config import DataConfig
from regard.data.files.pairs import pair_parts, read_pairs
from regard.data.files.reading import Examples
from regard.data.files.splits import Parts
from regard.data.report import UNLIMITED, MeasuredPart, Row, report
from regard.errors import ConfigError
from regard.models.heads import ReaderHead
from regard.models.interface import AnyReader
from regard.nn.layout import Layout
from regard.nn.pooling import POOLINGS, summary
from regard.tasks.embedding import embed_texts
from regard.tasks.exchange import ROWS
from regard.tasks.framing import Framing
from regard.tasks.request import Embed
from regard.tasks.searching import search
from regard.tasks.setup import Setup, TaskConfig, Use, Verbs
from regard.tasks.similarity.batches import ContrastBatch, TextPairs
from regard.tasks.task import Task

AT_ONCE = 512  # texts that are compared with all others at once


class SentenceEncoder(ReaderHead):
    """The rows of a reader; `vectors` are their summaries, of length 1."""

    def __init__(self, reader: AnyReader, pooling: str):
        super().__init__(reader)
        self.pooling = pooling

    def vectors(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> s / |s| for each text (B, D)."""
        summaries = summary(self.reader(tokens, layout), layout, self.pooling, self.bidirectional)
        return F.normalize(summaries.float(), dim=-1)


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig(TaskConfig):
    framed: bool = True  # read `<s> text </s>`, as BERT does
    pooling: str = "mean"  # how a reader's rows become one: `mean`, `max`, `last` or `first` (that of <s>)
    temperature: float = 0.05  # τ: cosines are divided by it; a lower one looks more at the nearest negatives
    metric: str = "loss"  # the validation figure that chooses the best checkpoint: `loss`, `accuracy` or `mrr`

    def __post_init__(self) -> None:
        one_of(self, ("loss", "accuracy", "mrr"), "metric")
        choose(POOLINGS, self.pooling, "summary (pooling)")
        positive(self, "temperature")

    def build(self, reader: AnyReader) -> SentenceEncoder:
        if self.pooling == "first" and not reader.sees_future:
            raise ConfigError(
                "the first row of a model that reads from left to right knows nothing of what follows; "
                'set task.pooling = "last"'
            )
        return SentenceEncoder(reader, self.pooling)


class Similarity(Task[Examples, TextPairs, SentenceEncoder, ContrastBatch]):
    """-log exp(a_i·b_i / τ) / Σ_j exp(a_i·b_j / τ), the mean of both directions  (InfoNCE: van den Oord et al. 2018;
    with the rest of the batch as negatives: Henderson et al. 2017)

    A pair that shares a text with another is no negative of it.
    """

    settings = SimilarityConfig
    exchange = ROWS
    cut_once = "a text whose vector is learned"
    commands = ('regard search RUN corpus.txt "a query"', "regard embed RUN FILE", "regard evaluate RUN")
    purpose = "was trained to give texts that belong together vectors that are near"
    config: SimilarityConfig

    def __init__(self, config: SimilarityConfig, setup: Setup):
        super().__init__(config, setup)
        self.framing = Framing(self.tokenizer, config.framed, "first", self.max_length)

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Examples]:
        return pair_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return chain.from_iterable(pair_parts(data).train.columns)

    def test(self, files: Sequence[str] = ()) -> tuple[str, Examples]:
        """Given files are the first and the second texts, whatever columns those of the recipe have."""
        return (", ".join(files), read_pairs(tuple(files), (), ".")) if files else super().test()

    def part(self, raw: Examples, to_learn: bool) -> TextPairs:
        return TextPairs(raw, self.framing, self.setup)

    def encode(self, text: str) -> list[int]:
        return self.framing.whole(self.framing.encode([text])[0]).tolist()

    # Learning.

    def collate(self, part: TextPairs, chosen: np.ndarray, epoch: int | None = None) -> ContrastBatch:
        return part.batch(chosen)

    def nats(self, model: SentenceEncoder, batch: ContrastBatch, smoothing: float) -> Tensor:
        first, second = model.vectors(batch.tokens, batch.layout).chunk(2)
        scores = first @ second.T / self.config.temperature  # (B, B)
        scores = scores.masked_fill(shares_text(batch.texts), -torch.inf)
        own = torch.arange(len(scores), device=scores.device)
        return sum(F.cross_entropy(rows, own, reduction="sum") for rows in (scores, scores.T)) / 2  # type: ignore[return-value]

    # Measuring.

    @torch.no_grad()
    def figures(self, model: SentenceEncoder, part: TextPairs) -> dict[str, float]:
        """How often the second text nearest to a first one, among all of the part, is its own; the mean of 1 / rank;
        the loss depends on what is in a batch."""
        groups = self.packing(part, self.batch_tokens, "random", seed=0).epoch(0)
        ranks = self.ranks(model, part)
        return {
            "loss": self.mean_loss(model, part, groups),
            "accuracy": 100 * float((ranks == 1).mean()),
            "mrr": float((1 / ranks).mean()),
        }

    def ranks(self, model: SentenceEncoder, part: TextPairs) -> np.ndarray:
        """For each first text, the place of its own second text; equal texts count once."""
        everything = np.arange(len(part))
        first, second = (
            read_each(model.vectors, part.documents(side, everything), self.batch_tokens, model.device)
            for side in (0, 1)
        )
        numbers = torch.from_numpy(part.numbers[:, part.kept].astype(np.int64))
        ranks = []
        for start in range(0, len(part), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            scores = first[rows] @ second.T
            own = scores.gather(1, torch.arange(start, start + len(scores))[:, None])
            rivals = (scores > own) & ~shares_text(numbers, rows)
            ranks.append(rivals.sum(1) + 1)
        return torch.cat(ranks).numpy()

    def inspect(self) -> list[Row]:
        parts = {name: MeasuredPart(part.examples, part.shards) for name, part in self.parts().items()}
        return report(parts, self.tokenizer, UNLIMITED)

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {**super().verbs, "search": partial(search, self.summaries)}

    def summaries(self, use: Use[SentenceEncoder], ask: Embed) -> np.ndarray:
        """`embed` by the pooling that was learned."""
        return embed_texts(use.model, ask.lines, self.encode, self.config.pooling, None)


def shares_text(texts: Tensor, rows: slice = slice(None)) -> Tensor:
    """(rows, B), True where another pair has the same first or the same second text: it is no negative."""
    alike = (texts[:, rows, None] == texts[:, None, :]).any(0)
    own = torch.arange(texts.shape[1], device=texts.device)
    return alike & (own[rows, None] != own)
