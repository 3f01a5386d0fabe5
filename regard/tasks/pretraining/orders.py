"""Language modeling in other orders than from left to right: in both directions (ELMo), and in a random one (XLNet)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, expect, proper_share
from regard.data.batching.batch import SequenceBatch
from regard.data.batching.noise import Draws, predicted_spans, turns
from regard.data.batching.streams import Stream
from regard.errors import ConfigError
from regard.evaluation.measured import perplexities
from regard.models.elmo import BiLM
from regard.models.interface import AnyReader
from regard.models.xlnet import PermutationModel, XLNet
from regard.nn.layout import Ragged
from regard.tasks.exchange import PERMUTED
from regard.tasks.language.batches import TextBatch, accuracy, make_batch, total_nats
from regard.tasks.language.running_text import NoisedConfig, NoisedTask, StreamConfig, StreamTask, check_window
from regard.tasks.setup import Use
from regard.text.sentences import texts_that_fit
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, check_one_text, look_at_streams, look_in_parts


@dataclass(frozen=True, kw_only=True)
class BidirectionalConfig(StreamConfig):
    window: int = 128  # tokens of a stream or a text that are learned from at once


class Bidirectional(StreamTask[BiLM, TextBatch]):
    """ELMo's: the next and the previous token of every place.  Of z_0 .. z_n the forward net reads z_0 .. z_{n-1} and
    writes z_1 .. z_n, the backward net reads z_n .. z_1 and writes z_{n-1} .. z_0."""

    settings = BidirectionalConfig
    roles = ("bidirectional",)
    commands = ("regard train sst2-elmo --from RUN", "regard embed RUN FILE", "regard evaluate RUN")
    purpose = "was trained to predict the next and the previous token of a text"

    def collate(self, part: Stream, chosen: np.ndarray, epoch: int | None = None) -> TextBatch:
        return make_batch(part, chosen)

    def nats(self, model: BiLM, batch: TextBatch, smoothing: float) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout)

    def figures(self, model: BiLM, part: Stream) -> dict[str, float]:
        """Nats a token, the mean of both directions, and what they mean; how often the next token is the likeliest."""
        window = self.config.window
        nats = total_nats(model, part, window, self.batch_tokens)
        values = perplexities(nats, len(part), part.text.n_words, part.text.n_bytes)
        return {**values, "accuracy": accuracy(model, part, window, self.batch_tokens)}


@dataclass(frozen=True, kw_only=True)
class PermutationConfig(NoisedConfig):
    share: float = 1 / 6  # of the tokens that are predicted (1 / K in the paper); the others are known from the start
    longest_span: int = 5  # targets are spans of 1 to this many tokens, whose order is random too

    def __post_init__(self) -> None:
        super().__post_init__()
        proper_share(self, "share")
        at_least(self, 1, "longest_span")

    def build(self, reader: AnyReader) -> PermutationModel:
        if not reader.has_two_streams:
            raise ConfigError("predicting tokens in any order takes two streams: set model.architecture = 'xlnet'")
        check_window(self.window, reader)
        return PermutationModel(expect(reader, XLNet))


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
    """XLNet's: some tokens are predicted, one after the other; which, and in which order, is drawn."""

    settings = PermutationConfig
    exchange = PERMUTED
    commands = (
        "regard train RECIPE --from RUN",
        "regard embed RUN FILE",
        "regard evaluate RUN",
        'regard look RUN "a sentence"',
    )
    purpose = "was trained to predict the tokens of a text in any order"
    config: PermutationConfig

    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> TurnBatch:
        c, pairs = self.config, zip(texts, draws, strict=True)
        ranks = [turns(predicted_spans(len(text), own, c.share, c.longest_span), own) for text, own in pairs]
        layout = Ragged([len(text) for text in texts])
        flat = torch.from_numpy(np.concatenate(ranks))
        target_layout = Ragged([int(np.count_nonzero(own)) for own in ranks])
        tokens, targets = torch.from_numpy(np.concatenate(texts)), flat.nonzero()[:, 0]
        return TurnBatch(lines, tokens, layout, layout.pad(flat), targets, target_layout)

    def nats(self, model: PermutationModel, batch: TurnBatch, smoothing: float) -> Tensor:
        return model.nats(batch.tokens, batch.layout, batch.ranks, batch.targets, batch.target_layout)

    def how(self, part: Stream) -> str:
        return f"window:{self.config.window}|share:{self.config.share:.3g}|spans:1-{self.config.longest_span}"

    def look(self, use: Use[PermutationModel], source: str, target: str | None, focus: Focus) -> Capture:
        """Both streams while every token is predicted, in an order that the recipe's seed draws."""
        check_one_text(source, target)

        def look(text: str) -> Capture:
            ids = self.encode(text)
            order = turns(np.ones(len(ids), bool), Draws(self.setup.seed))
            return look_at_streams(use.model, self.tokenizer, ids, order.tolist(), text, focus)

        texts = texts_that_fit(source, self.tokenizer, self.encode, use.model.max_length)
        return look_in_parts(texts, focus, look)
