"""Numbers for words (aligned seq2seq with real-valued outputs): words in, one number for each of them out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from regard.checks import not_negative, one_of, share
from regard.data.batching.batch import by_length
from regard.data.batching.windows import WordPieces
from regard.data.config import DataConfig
from regard.data.files.labelled import Tagged, tagged_parts
from regard.data.files.recognizing import numbered_words
from regard.data.files.splits import Parts
from regard.data.report import Row, note_rows
from regard.errors import DataError
from regard.evaluation.classification import unigram_numbers
from regard.evaluation.measured import Metric
from regard.models.heads import Tagger
from regard.models.interface import AnyReader
from regard.tasks.setup import Sample, TaskConfig, Use
from regard.tasks.tagging.batches import TagBatch, TaggedSet
from regard.tasks.tagging.sizing import draft
from regard.tasks.tagging.task import AlignedTask, TaggerConfig, word_logits
from regard.tasks.tagging.verbs import Tag, TaggedLine
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class NumbersConfig(TaggerConfig):
    metric: str = "loss"  # the validation figure that chooses the best checkpoint
    mean: float = 0.0  # subtracted from every number before it is learned; taken from the data with `deviation`
    deviation: float = 0.0  # by which it is then divided; 0: mean and deviation of the training data

    def __post_init__(self) -> None:
        one_of(self, ("loss",), "metric")
        share(self, "dropout")
        not_negative(self, "deviation")

    def build(self, reader: AnyReader) -> Tagger:
        return Tagger(reader, 1, self.dropout)


class NumberedSet(TaggedSet):
    """One split, with the number of every word in place of its tag."""

    def __init__(self, tagged: Tagged, tokenizer: Tokenizer, max_length: int, framed: bool):
        numbers = numbers_of(tagged)
        super().__init__(tagged, sorted(set(chain.from_iterable(tagged.tags))), tokenizer, max_length, framed)
        self.tags = numbers

    def report(self, part: str) -> list[Row]:
        n_tokens, (low, middle, high) = int(self.lengths.sum()), np.percentile(self.tags, [5, 50, 95])
        return [
            Row(part, "sentences, words", f"{len(self.tagged):,}, {len(self.tags):,}"),
            Row(part, "tokens per word", f"{n_tokens / len(self.tags):.2f}"),
            Row(part, "numbers, 5/50/95 %", f"{low:.4g}/{middle:.4g}/{high:.4g}"),
            *note_rows(part, self.notes),
        ]


def numbers_of(tagged: Tagged) -> np.ndarray:
    numbers = []
    for tags, place in zip(tagged.tags, tagged.places, strict=True):
        for tag in tags:
            try:
                numbers.append(float(tag))
            except ValueError:
                numbers.append(math.nan)
            if not math.isfinite(numbers[-1]):
                raise DataError(
                    f"the sentence at {place} has {tag[:40]!r} where a number belongs, such as -0.5; fix it"
                )
    return np.array(numbers)


def explained(error: float, true: np.ndarray) -> float:
    """R² in percent: how much smaller a mean squared error is than the variance of the true numbers."""
    variance = float(true.var())
    return 100 * (1 - error / variance) if variance else 0.0


class Numbers(AlignedTask):
    """ŷ_t = w h_t + b, learned by (ŷ_t - y_t)², where the y_t of the training data have mean 0 and deviation 1."""

    settings = NumbersConfig
    purpose = "was trained to give a number for each word of a sentence"
    loss_unit = "squared deviations"
    recognize = staticmethod(numbered_words)
    draft = staticmethod(draft)
    config: NumbersConfig

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Tagged]:
        return tagged_parts(data)

    def settle(self, train: Tagged) -> NumbersConfig:
        if self.config.deviation:
            return self.config
        numbers = numbers_of(train)
        return replace(self.config, mean=float(numbers.mean()), deviation=float(numbers.std()) or 1.0)

    def part(self, raw: Tagged, to_learn: bool) -> NumberedSet:
        return NumberedSet(raw, self.tokenizer, self.max_length, self.config.framed)

    # Loss, validation and measuring.

    def nats(self, model: Tagger, batch: TagBatch, smoothing: float) -> Tensor:
        """The squared errors, in deviations."""
        outputs = word_logits(model, batch.tokens, batch.layout, batch.last).squeeze(-1)
        wanted = (batch.tags - self.config.mean) / self.config.deviation  # float64: they may lie far from zero
        return F.mse_loss(outputs.float(), wanted.float(), reduction="sum")

    def figures(self, model: Tagger, part: TaggedSet) -> dict[str, float]:
        """The mean squared error in deviations, its root in the numbers' own unit, and the share of their variance in
        this part that is explained (R²), in percent."""
        loss = self.mean_loss(model, part, by_length(part.lengths, self.batch_tokens))
        unexplained = loss * self.config.deviation**2
        share = explained(unexplained, part.tags)
        return {"loss": loss, "rmse": math.sqrt(unexplained), "r2": share}

    def metrics(self, use: Use[Tagger], part: TaggedSet) -> list[Metric]:
        """R² in percent and the error in the numbers' own unit, beside those of a baseline: the mean number of each
        word in training."""
        train = self.read_parts(self.config, self.setup.data).train
        columns = (train.words, part.tagged.words)
        words, asked = (list(chain.from_iterable(column)) for column in columns)
        guesses = unigram_numbers(words, numbers_of(train), asked)
        true, figures = part.tags, self.figures(use.model, part)
        errors = float(np.mean((guesses - true) ** 2))
        values = {
            "r2": figures["r2"],
            "unigram baseline: r2": explained(errors, true),
            "rmse": figures["rmse"],
            "unigram baseline: rmse": math.sqrt(errors),
            "loss": figures["loss"],
        }
        return [Metric(name=name, value=value, signature=self.signature(part)) for name, value in values.items()]

    def predict(self, model: Tagger, pieces: WordPieces) -> np.ndarray:
        """The number of every word."""
        numbers = np.zeros(len(pieces.words))
        for words, outputs in self.outputs(model, pieces):
            numbers[words] = outputs.squeeze(-1).cpu().numpy()
        return numbers * self.config.deviation + self.config.mean

    def first_samples(self, model: Tagger, valid: TaggedSet) -> list[Sample]:
        few = valid.tagged.take(np.arange(min(self.config.shown, len(valid.tagged))))
        answers = self.answers(model, [" ".join(words) for words in few.words])
        true = [self.write(words, tags) for words, tags in zip(few.words, few.tags, strict=True)]
        return [
            (" ".join(words), own, answer.text) for words, own, answer in zip(few.words, true, answers, strict=True)
        ]

    # For people and use.

    def settled_rows(self) -> list[tuple[str, str]]:
        return [("numbers", f"mean {self.config.mean:.4g}, deviation {self.config.deviation:.4g}")]

    def tag(self, use: Use[Tagger], ask: Tag) -> list[TaggedLine]:
        return self.answers(use.model, ask.lines)

    def answers(self, model: Tagger, asked: Sequence[str]) -> list[TaggedLine]:
        """Numbers in place of tags, and no probabilities."""
        pieces, lines = self.lines_read(asked)
        numbers, answers = self.predict(model, pieces), []
        # Down to a hundredth of the deviation: 0.53 where it is 1, 199,997.5 where it is 30, however far from zero.
        n_decimals = max(0, 2 - math.floor(math.log10(self.config.deviation)))
        for words, own, notes in lines:
            shown = [f"{number:.{n_decimals}f}" for number in numbers[own]]
            answers.append(TaggedLine(words, shown, [], self.write(words, shown), notes, numbers[own].tolist()))
        return answers
