"""Classification by an encoder-decoder that writes the word of the label: "sentiment: a stirring film" → "positive"."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.config import DataConfig
from regard.data.files.labelled import named, read_training
from regard.errors import RegardError
from regard.evaluation.metric import Metric
from regard.nn.layout import Layout
from regard.nn.linear import logits
from regard.nn.loss import cross_entropy
from regard.tasks.classification.batches import DocumentBatch, Documents
from regard.tasks.classification.task import Classification, LabelsConfig
from regard.tasks.setup import Setup
from regard.tasks.translation.batches import Frame, PairBatch, make_batch
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelWordsConfig(LabelsConfig):
    """A label is written as one of `names` (or as the files do)."""

    prefix: str = ""  # what every text begins with, to say what is asked

    def frame(self, tokenizer: Tokenizer) -> Frame:
        return Frame(tokenizer.start_id, tokenizer.end_id, tuple(tokenizer.encode(self.prefix)))


class WordVotes:
    """log P(word | text) for the word of every label, by a model that writes."""

    def __init__(self, model: Any, config: LabelWordsConfig, tokenizer: Tokenizer):
        self.model = model
        self.words, self.frame = words_of(config, tokenizer), config.frame(tokenizer)

    def parameters(self) -> Iterator[nn.Parameter]:
        parameters: Iterator[nn.Parameter] = self.model.parameters()
        return parameters

    def __call__(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> (B, labels)."""
        texts = [text.cpu().numpy() for text in tokens.split(layout.lengths.tolist())]
        return torch.stack([self.of(word, texts) for word in self.words], 1)

    def of(self, word: np.ndarray, texts: list[np.ndarray]) -> Tensor:
        """log P of one word and its end, for each text (B)."""
        batch = make_batch(texts, [word] * len(texts), [""] * len(texts), self.frame)
        batch = batch.to(self.model.embedding.weight.device)
        hidden = written(self.model, batch)
        rows = logits(hidden, self.model.output_table, self.model.output_bias).float().log_softmax(-1)
        return rows.gather(-1, batch.labels[:, None]).view(len(texts), len(word) + 1).sum(1)


class LabelWords(Classification):
    """The data, labels and figures of `Classification`; what is learnt is to write the word of each text's label.

    Every task is text in, text out (Raffel et al. 2020, section 2.4).  The answer is the label whose word is likeliest,
    so there is always one; the paper's model writes freely, and any other text is wrong.
    """

    roles = ("translator",)
    config: Any

    def __init__(self, config: Any, train: Documents, valid: Documents | None, setup: Setup):
        super().__init__(config, train, valid, setup)
        self.words, self.frame = words_of(config, setup.tokenizer), config.frame(setup.tokenizer)

    @staticmethod
    def texts(data: DataConfig) -> Iterator[str]:
        """What a tokenizer learns from: the texts and the labels."""
        train = read_training(data).train
        yield from train.texts
        yield from train.labels

    @staticmethod
    def voter(model: Any, config: LabelWordsConfig, tokenizer: Tokenizer) -> WordVotes:
        return WordVotes(model, config, tokenizer)

    def batch(self, epoch: int, index: int) -> Any:
        return self.paired(super().batch(epoch, index))

    def small_batch(self, n_tokens: int) -> Any:
        return self.paired(super().small_batch(n_tokens))

    def paired(self, batch: DocumentBatch) -> PairBatch:
        texts = [text.numpy() for text in batch.tokens.split(batch.layout.lengths.tolist())]
        return make_batch(texts, [self.words[i] for i in batch.labels.tolist()], batch.lines, self.frame)

    def loss(self, model: Any, batch: Any) -> Tensor:
        return word_nats(model, batch, self.config.smoothing)

    def plain_loss(self, model: Any, batch: Any) -> Tensor:
        return word_nats(model, batch, 0.0)

    def validate(self, model: Any) -> dict[str, float]:
        """Of the labels, as `Classification`: which of their words is the likeliest."""
        return super().validate(WordVotes(model, self.config, self.tokenizer))

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        return super().samples(WordVotes(model, self.config, self.tokenizer))

    @classmethod
    def measure(cls, model: Any, config: Any, setup: Setup, files: tuple[str, ...]) -> tuple[str, list[Metric]]:
        return super().measure(WordVotes(model, config, setup.tokenizer), config, setup, files)

    def purpose(self) -> str:
        return f"learnt to answer a text with a word ({named(self.config.shown_labels)})"


def words_of(config: LabelWordsConfig, tokenizer: Tokenizer) -> list[np.ndarray]:
    return [np.array(ids, np.int64) for ids in tokenizer.encode_batch(config.shown_labels)]


def word_nats(model: Any, batch: PairBatch, smoothing: float) -> Tensor:
    return cross_entropy(written(model, batch), model.output_table, batch.labels, smoothing, model.output_bias)


def written(model: Any, batch: PairBatch) -> Tensor:
    """The hidden state behind each token of the words (M, D)."""
    if batch.source_layout.true_longest > model.config.max_length:
        raise RegardError(
            f"a text with its prefix and end is {batch.source_layout.true_longest} tokens long, the model reads "
            f"{model.config.max_length}; lower data.max_length or raise model.max_length"
        )
    hidden: Tensor = model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return hidden
