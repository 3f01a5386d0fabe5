"""What every task on masked words has in common: passages of plain documents, masked at random, as batches."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from regard.data.batching.streams import Passages
from regard.data.config import DataConfig
from regard.data.files.plain import PlainText, text_parts
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.tasks.language.running_text import inspect_texts
from regard.tasks.pretraining.batches import N_FIXED, MaskedBatch, MaskedPassages
from regard.tasks.pretraining.settings import MASKS, MaskingConfig
from regard.tasks.task import M, Task


class MaskingTask(Task[PlainText, MaskedPassages, M, MaskedBatch]):
    """Which words are masked is a function of (seed, epoch, passage)."""

    cut_once = "a text with masked words"
    config: Any

    @classmethod
    def read_parts(cls, config: MaskingConfig, data: DataConfig) -> Parts[PlainText]:
        return text_parts(data, "lines")

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return text_parts(data, "lines").train.lines

    def part(self, raw: PlainText, to_learn: bool) -> MaskedPassages:
        c = self.config
        width = c.window - N_FIXED[c.asks_next]
        corpus = Passages(raw, c.documents, width, self.tokenizer, self.setup.cache)
        return MaskedPassages(corpus, self.tokenizer, c.share, c.asks_next)

    def encode(self, text: str) -> list[int]:
        """<s> text </s>, in which [MASK] and [SEP] mean tokens."""
        return self.marked.encode(text)

    def collate(self, part: MaskedPassages, chosen: np.ndarray, epoch: int | None = None) -> MaskedBatch:
        if epoch is None:
            return part.batch(chosen, seed=0, draw=0)
        n_draws = MASKS[self.config.masks]
        return part.batch(chosen, self.setup.seed, epoch if n_draws is None else epoch % n_draws)

    def small_batch(self, n_tokens: int) -> MaskedBatch:
        return next(self.train.all_batches(n_tokens))

    @abstractmethod
    def figures(self, model: M, part: MaskedPassages) -> dict[str, float]:
        """Every passage once; with the same words masked, and any other chance the same, each time."""

    def signature(self, part: MaskedPassages) -> str:
        c = self.config
        return f"documents:{c.documents}|window:{c.window}|share:{c.share:g}|passages:{len(part.corpus)}"

    def inspect(self) -> list[Row]:
        return inspect_texts({name: part.corpus.text for name, part in self.parts().items()}, self.tokenizer)
