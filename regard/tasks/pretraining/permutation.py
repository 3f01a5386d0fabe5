"""Permutation language modeling (XLNet): some tokens of a text are predicted, one after the other in a random order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import SequenceBatch
from regard.data.batching.noise import Draws, predicted_spans, turns
from regard.data.batching.streams import Stream
from regard.errors import ConfigError
from regard.models.xlnet import PermutationModel
from regard.nn.layout import Ragged
from regard.tasks.exchange import PERMUTED
from regard.tasks.language.running_text import check_window
from regard.tasks.pretraining.noised import NoisedTask
from regard.tasks.pretraining.settings import PermutationConfig


@dataclass(frozen=True)
class TurnBatch(SequenceBatch):
    """Flat rows, the turn of each place in its order, and the rows that are predicted."""

    ranks: Tensor  # B T; 0: known from the beginning
    targets: Tensor  # M rows
    target_layout: Ragged  # how these lie: so many of each window

    @property
    def n_targets(self) -> int:
        return self.target_layout.n_rows


class Permutation(NoisedTask[PermutationModel, TurnBatch]):
    """XLNet's: which tokens are predicted, and in which order, is drawn."""

    settings = PermutationConfig
    exchange = PERMUTED
    commands = ("regard train RECIPE --from RUN", "regard embed RUN FILE", "regard evaluate RUN")
    config: PermutationConfig

    @classmethod
    def build(cls, config: PermutationConfig, model: Any) -> PermutationModel:
        if not model.has_two_streams:
            raise ConfigError("predicting tokens in any order takes two streams: set model.architecture = 'xlnet'")
        check_window(config.window, model)
        return PermutationModel(model)

    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> TurnBatch:
        ranks = [self.turns(len(text), d) for text, d in zip(texts, draws, strict=True)]
        layout = Ragged([len(text) for text in texts])
        flat = torch.from_numpy(np.concatenate(ranks))
        target_layout = Ragged([int(np.count_nonzero(own)) for own in ranks])
        tokens, targets = torch.from_numpy(np.concatenate(texts)), flat.nonzero()[:, 0]
        return TurnBatch(lines, tokens, layout, layout.pad(flat), targets, target_layout)

    def turns(self, n: int, draws: Draws) -> np.ndarray:
        return turns(predicted_spans(n, draws, self.config.share, self.config.longest_span), draws)

    def loss(self, model: PermutationModel, batch: TurnBatch) -> Tensor:
        return model.nats(batch.tokens, batch.layout, batch.ranks, batch.targets, batch.target_layout)

    def how(self, part: Stream) -> str:
        return f"window:{self.config.window}|share:{self.config.share:.3g}|spans:1-{self.config.longest_span}"

    def purpose(self) -> str:
        return "was trained to predict the tokens of a text in any order"
