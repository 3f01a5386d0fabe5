"""Permutation language modelling (XLNet): some tokens of a text are foretold, one after the other in a random order."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, proper_share
from regard.data.batching.batch import Batch
from regard.data.batching.noise import Draws, foretold_spans, turns
from regard.errors import ConfigError
from regard.models.xlnet import PermutationModel
from regard.nn.layout import Ragged
from regard.tasks.language.task import check_window
from regard.tasks.pretraining.noised import Drawn, DrawnConfig


@dataclass(frozen=True, kw_only=True)
class PermutationConfig(DrawnConfig):
    share: float = 1 / 6  # of the tokens that are foretold: 1 / K of the paper
    longest_span: int = 5  # tokens of a span that is foretold; their order is random too

    # What `Language` also asks, and here is no choice.
    smoothing: ClassVar[float] = 0.0
    shown: ClassVar[int] = 0  # it does not go on from a prompt

    def __post_init__(self) -> None:
        super().__post_init__()
        proper_share(self, "share")
        at_least(self, 1, "longest_span")


@dataclass(frozen=True)
class TurnBatch(Batch):
    """Flat rows, the turn of each place in its order, and the rows that are foretold."""

    tokens: Tensor  # N
    layout: Ragged
    ranks: Tensor  # B T; 0: known from the beginning
    targets: Tensor  # M rows
    asked: Ragged  # how these lie: so many of each window

    @property
    def n_targets(self) -> int:
        return self.asked.n_rows

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows


class Permutation(Drawn):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("reader",)

    @staticmethod
    def build(config: PermutationConfig, reader: Any) -> PermutationModel:  # type: ignore[override]
        if not hasattr(reader, "foretell"):
            raise ConfigError("to foretell tokens in any order takes two streams: set model.architecture = 'xlnet'")
        check_window(config.window, reader)
        return PermutationModel(reader)

    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> TurnBatch:
        ranks = [self.turns(len(text), d) for text, d in zip(texts, draws, strict=True)]
        layout = Ragged([len(text) for text in texts])
        flat = torch.from_numpy(np.concatenate(ranks))
        asked = Ragged([int(np.count_nonzero(own)) for own in ranks])
        tokens, targets = torch.from_numpy(np.concatenate(texts)), flat.nonzero()[:, 0]
        return TurnBatch(lines, tokens, layout, layout.pad(flat), targets, asked)

    def turns(self, n: int, draws: Draws) -> np.ndarray:
        return turns(foretold_spans(n, draws, self.config.share, self.config.longest_span), draws)

    def nats(self, model: PermutationModel, batch: TurnBatch) -> Tensor:
        return model.nats(batch.tokens, batch.layout, batch.ranks, batch.targets, batch.asked)

    @staticmethod
    def signature(config: PermutationConfig) -> str:
        return f"window:{config.window}|share:{config.share:.3g}|spans:1-{config.longest_span}"

    def purpose(self) -> str:
        return "learnt to foretell the tokens of a text in any order"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard train RECIPE --from {folder}", f"regard embed {folder} FILE", f"regard evaluate {folder}")
