"""Classification by an encoder-decoder that writes the word of the label: "sentiment: a stirring film" → "positive"."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.config import DataConfig
from regard.data.files.labelled import labelled_parts, named
from regard.errors import RegardError
from regard.models.interface import Translator
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.loss import cross_entropy
from regard.tasks.classification.batches import Documents, Votes
from regard.tasks.classification.settings import LabelWordsConfig
from regard.tasks.classification.task import LabelTask
from regard.tasks.classification.verbs import Classify
from regard.tasks.exchange import SOURCE_TO_TARGET
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.tasks.translation.looking import look_at_pair
from regard.tasks.use import Use
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked


class WordVotes:
    """log P(word | text) for the word of every label, by a model that writes."""

    def __init__(self, model: Translator[Any], words: list[np.ndarray], frame: Frame):
        self.model, self.words, self.frame, self.device = model, words, frame, model.device

    def __call__(self, tokens: Tensor, layout: Ragged) -> Tensor:
        texts = [text.cpu().numpy() for text in tokens.split(layout.lengths.tolist())]
        return torch.stack([self.of(word, texts) for word in self.words], 1)

    def of(self, word: np.ndarray, texts: list[np.ndarray]) -> Tensor:
        """log P of one word and its end, for each text (B)."""
        batch = make_batch(texts, [word] * len(texts), [""] * len(texts), self.frame).to(self.device)
        rows = logits(written(self.model, batch), self.model.output_table, self.model.output_bias)
        log_probs = rows.float().log_softmax(-1).gather(-1, batch.labels[:, None])
        return log_probs.view(len(texts), len(word) + 1).sum(1)


class LabelWords(LabelTask[Translator[Any], PairBatch]):
    """What is learned is to write the word of each text's label.

    Every task is text in, text out (Raffel et al. 2020, section 2.4).  The answer is the label whose word is likeliest,
    so there is always one; the paper's model writes freely, and any other text is wrong.
    """

    settings = LabelWordsConfig
    roles = ("translator",)
    exchange = SOURCE_TO_TARGET
    config: LabelWordsConfig

    def __init__(self, config: LabelWordsConfig, setup: Any):
        super().__init__(config, setup)
        self.frame = config.frame(self.tokenizer)

    @cached_property
    def words(self) -> list[np.ndarray]:
        return words_of(self.config, self.tokenizer)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterator[str]:
        """The texts and the labels."""
        train = labelled_parts(data).train
        yield from train.texts
        yield from train.labels

    def encode(self, text: str) -> list[int]:
        return self.frame.source(self.tokenizer.encode(text))

    def collate(self, part: Documents, chosen: np.ndarray, epoch: int | None = None) -> PairBatch:
        batch = part.batch(chosen, epoch)
        texts = [text.numpy() for text in batch.tokens.split(batch.layout.lengths.tolist())]
        words = self.words
        return make_batch(texts, [words[i] for i in batch.labels.tolist()], batch.lines, self.frame)

    def loss(self, model: Translator[Any], batch: PairBatch) -> Tensor:
        return word_nats(model, batch, self.config.smoothing)

    def plain_loss(self, model: Translator[Any], batch: PairBatch) -> Tensor:
        return word_nats(model, batch, 0.0)

    def votes(self, model: Translator[Any]) -> Votes:
        return WordVotes(model, self.words, self.frame)

    def purpose(self) -> str:
        return f"was trained to answer a text with a word ({named(self.config.shown_labels)})"

    def look(self, use: Use, source: str, target: str | None, asked: Asked) -> Capture:
        asked.check(use.model)
        target = self.classify(use, Classify([source]))[0].label if target is None else target
        return look_at_pair(use.model, self.tokenizer, self.frame, source, target, asked)


def words_of(config: LabelWordsConfig, tokenizer: Tokenizer) -> list[np.ndarray]:
    return [np.array(ids, np.int64) for ids in tokenizer.encode_batch(config.shown_labels)]


def word_nats(model: Translator[Any], batch: PairBatch, smoothing: float) -> Tensor:
    return cross_entropy(written(model, batch), model.output_table, batch.labels, smoothing, model.output_bias)


def written(model: Translator[Any], batch: PairBatch) -> Tensor:
    """The hidden row that predicts each token of the words (M, D)."""
    if batch.source_layout.true_longest > model.max_length:
        raise RegardError(
            f"a text with its prefix and end is {batch.source_layout.true_longest} tokens long, the model reads "
            f"{model.max_length}; lower data.max_length or raise model.max_length"
        )
    return model(batch.source, batch.source_layout, batch.target, batch.target_layout)
