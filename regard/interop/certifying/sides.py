"""Our side of a comparison.  Of sequences of tokens a side gives a row of numbers for each token, or for each
sequence, and what it writes when it always takes the likeliest token."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from regard.decoding.config import DecodingConfig
from regard.decoding.forced import score
from regard.decoding.search import generate
from regard.interop.families.settings import exchange_of
from regard.nn.layout import Ragged
from regard.runs.run import Run
from regard.tasks.translation.batches import make_batch

Ids = Sequence[Sequence[int]]


class Side(Protocol):
    def rows(self, inputs: Ids) -> list[Tensor]: ...

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]: ...


class Ours:
    """A model that reads one sequence."""

    def __init__(self, run: Run):
        self.run, self.model, self.exchange = run, run.model, exchange_of(run.recipe)

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        """All sequences as one flat batch."""
        lengths = [1 if self.exchange.is_of_sequences else len(ids) for ids in inputs]
        return list(self.exchange.rows(self.model, *flat(inputs, self.run.device)).cpu().split(lengths))

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length)
        start, end = self.run.tokenizer.start_id, self.run.tokenizer.end_id
        hypotheses = generate(self.model, [list(ids) for ids in prompts], config, start, end)
        return [list(best.tokens) for (best,) in hypotheses]


class OurTranslator:
    """An input is a source, and the same backwards the target."""

    def __init__(self, run: Run):
        self.run, self.model, self.frame = run, run.model, run.task.frame

    @torch.no_grad()
    def rows(self, inputs: Ids) -> list[Tensor]:
        """The logits after each target token, all pairs as one flat batch."""
        sources, targets = [np.array(ids) for ids in inputs], [np.array(ids[::-1]) for ids in inputs]
        batch = make_batch(sources, targets, [""] * len(inputs), self.frame).to(self.run.device)
        hidden = self.model(batch.source, batch.source_layout, batch.target, batch.target_layout)
        return list(self.model.logits(hidden).cpu().split([len(ids) + 1 for ids in inputs]))

    def log_probs(self, inputs: Ids) -> list[Tensor]:
        """Of each token of a target and of its end."""
        sources, targets = [self.frame.source(ids) for ids in inputs], [list(ids[::-1]) for ids in inputs]
        return [torch.tensor(row) for row in score(self.model, sources, targets, self.frame.start, self.frame.end)]

    def greedy(self, prompts: Ids, length: int) -> list[list[int]]:
        config = DecodingConfig(length_ratio=0.0, extra_length=length, never=self.run.recipe.decoding.never)
        sources = [self.frame.source(ids) for ids in prompts]
        hypotheses = generate(self.model, sources, config, self.frame.start, self.frame.end)
        return [list(best.tokens) for (best,) in hypotheses]


def flat(inputs: Ids, device: torch.device) -> tuple[Tensor, Ragged]:
    tokens = torch.tensor([token for ids in inputs for token in ids], device=device)
    return tokens, Ragged([len(ids) for ids in inputs], device)


def padded(inputs: Ids, pad: int) -> dict[str, Tensor]:
    longest = max(map(len, inputs))
    return {
        "input_ids": torch.tensor([[*ids, *[pad] * (longest - len(ids))] for ids in inputs]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in inputs]),
    }


def up_to(end: int, ids: list[int]) -> list[int]:
    return ids[: ids.index(end)] if end in ids else ids
