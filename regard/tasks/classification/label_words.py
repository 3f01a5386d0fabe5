"""Classification by an encoder-decoder that writes the word of the label: "sentiment: a stirring film" → "positive"."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, labelled_parts, named
from regard.errors import RegardError
from regard.models.interface import AnyTranslator
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.nn.loss import cross_entropy
from regard.tasks.classification.batches import Documents
from regard.tasks.classification.task import TextLabelsConfig, TextLabelTask
from regard.tasks.classification.verbs import Classify
from regard.tasks.exchange import SOURCE_TO_TARGET
from regard.tasks.framing import Frame
from regard.tasks.setup import Use
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.tasks.translation.framed import FramedTask, SourceTargetConfig
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelWordsConfig(TextLabelsConfig, SourceTargetConfig):
    """A label is written as one of `names` (or as the files do)."""

    prefix: str = ""  # what every text begins with, such as `"sentiment: "`

    def frame(self, tokenizer: Tokenizer) -> Frame:
        frame = super().frame(tokenizer)
        return replace(frame, before=(*frame.before, *tokenizer.encode(self.prefix)))


def word_nats(model: AnyTranslator, batch: PairBatch, smoothing: float) -> Tensor:
    return cross_entropy(written(model, batch), model.output_table, batch.labels, smoothing, model.output_bias)


def written(model: AnyTranslator, batch: PairBatch) -> Tensor:
    """The hidden row that predicts each token of the words (M, D)."""
    if batch.source_layout.true_longest > model.max_length:
        raise RegardError(
            f"a text with its prefix and end is {batch.source_layout.true_longest} tokens long, the model reads "
            f"{model.max_length}; lower data.max_length or raise model.max_length"
        )
    return model(batch.source, batch.source_layout, batch.target, batch.target_layout)


class LabelWords(FramedTask[Labelled, Documents, AnyTranslator, PairBatch], TextLabelTask[AnyTranslator, PairBatch]):
    """What is learned is to write the word of each text's label.

    Every task is text in, text out (Raffel et al. 2020, section 2.4).  The answer is the label whose word is likeliest,
    so there is always one; the paper's model writes freely, and any other text is wrong.
    """

    settings = LabelWordsConfig
    roles = ("translator",)
    exchange = SOURCE_TO_TARGET

    @cached_property
    def words(self) -> list[np.ndarray]:
        """The tokens of the labels' words."""
        return [np.array(ids, np.int64) for ids in self.tokenizer.encode_batch(self.config.shown_labels)]

    @classmethod
    def texts(cls, data: DataConfig) -> Iterator[str]:
        """The texts and the labels."""
        train = labelled_parts(data).train
        yield from train.texts
        yield from train.labels

    def collate(self, part: Documents, chosen: np.ndarray, epoch: int | None = None) -> PairBatch:
        batch = part.batch(chosen, epoch)
        texts = [text.numpy() for text in batch.tokens.split(batch.layout.lengths.tolist())]
        return make_batch(texts, [self.words[i] for i in batch.labels.tolist()], batch.lines, self.frame)

    nats = staticmethod(word_nats)

    def votes(self, model: AnyTranslator, tokens: Tensor, layout: Ragged) -> Tensor:
        """log P(word | text) for the word of every label."""
        texts = [text.cpu().numpy() for text in tokens.split(layout.lengths.tolist())]
        return torch.stack([self.word_log_probs(model, word, texts) for word in self.words], 1)

    def word_log_probs(self, model: AnyTranslator, word: np.ndarray, texts: list[np.ndarray]) -> Tensor:
        """log P of one word and its end, for each text (B)."""
        batch = make_batch(texts, [word] * len(texts), [""] * len(texts), self.frame).to(model.device)
        rows = logits(written(model, batch), model.output_table, model.output_bias)
        log_probs = rows.float().log_softmax(-1).gather(-1, batch.labels[:, None])
        return log_probs.view(len(texts), len(word) + 1).sum(1)

    @property
    def purpose(self) -> str:
        return f"was trained to answer a text with a word ({named(self.config.shown_labels)})"

    def own_target(self, use: Use[AnyTranslator], source: str) -> str:
        return self.classify(use, Classify([source]))[0].label
