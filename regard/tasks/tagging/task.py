"""Tagging (aligned seq2seq): words in, one tag for each of them out."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import distinct, one_of, share
from regard.data.batching import restoring
from regard.data.batching.batch import by_length
from regard.data.batching.packing import cut
from regard.data.batching.windows import WordPieces
from regard.data.config import DataConfig
from regard.data.files.labelled import Tagged, tag_set, tagged_parts
from regard.data.files.plain import text_parts
from regard.data.files.recognizing import tagged_words
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.errors import ConfigError
from regard.evaluation.classification import beside, tag_figures, unigram_tags
from regard.evaluation.measured import Metric
from regard.models.heads import Tagger
from regard.models.interface import AnyReader
from regard.nn.layout import Gather, Ragged
from regard.tasks.exchange import TAGS
from regard.tasks.setup import Sample, TaskConfig, Use, Verbs
from regard.tasks.tagging.batches import TagBatch, TaggedSet
from regard.tasks.tagging.sizing import draft
from regard.tasks.tagging.verbs import Tag, TaggedLine
from regard.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(TaskConfig):
    """What every tagger may set."""

    framed: bool = False  # read <s> words </s>, as BERT does
    dropout: float = 0.1  # on the rows from which tags are read
    shown: int = 3  # fixed validation samples printed at each validation
    metric: str = "f1"  # the validation figure that chooses the best checkpoint: `f1` (micro), `accuracy` or `loss`

    def __post_init__(self) -> None:
        one_of(self, ("f1", "accuracy", "loss"), "metric")
        share(self, "dropout")

    @property
    def tags(self) -> tuple[str, ...]:
        return ()

    def build(self, reader: AnyReader) -> Tagger:
        return Tagger(reader, max(len(self.tags), 1), self.dropout)


@dataclass(frozen=True, kw_only=True)
class TaggingConfig(TaggerConfig):
    tags: tuple[str, ...] = ()  # the tags, in any order; empty: those of the training data
    neutral: str = ""  # the tag that says nothing, such as `O`: F1 is that of the others

    def __post_init__(self) -> None:
        super().__post_init__()
        distinct(self, "tags")
        if self.tags and self.neutral and self.neutral not in self.tags:
            raise ConfigError(f"neutral = {self.neutral!r} is not one of the tags: {', '.join(self.tags)}")


@dataclass(frozen=True, kw_only=True)
class RestorationConfig(TaggerConfig):
    """The tags are what text may need, whether or not the training text has them."""

    tags: ClassVar[tuple[str, ...]] = restoring.TAGS
    neutral: ClassVar[str] = restoring.NEUTRAL


class AlignedTask(Task[Tagged, TaggedSet, Tagger, TagBatch]):
    """Something for each word, whatever it is: how words are read, and how their rows are read off."""

    cut_once = "a word that gets a tag"
    commands = ("regard tag RUN < lines.txt", "regard evaluate RUN")
    config: TaggerConfig

    @staticmethod
    def words_of(line: str) -> list[str]:
        """What a line of input is tagged as."""
        return line.split()

    @staticmethod
    def write(words: list[str], tags: list[str]) -> str:
        """Words with what belongs to each, as a line."""
        return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """Each word with the space before it."""
        return ("".join(f" {word}" for word in words) for words in cls.read_parts(cls.settings(), data).train.words)

    def reading(self, text: str) -> str:
        return "".join(f" {word}" for word in self.words_of(text))

    def encode(self, text: str) -> list[int]:
        ids = self.tokenizer.encode(self.reading(text))
        return [self.tokenizer.start_id, *ids, self.tokenizer.end_id] if self.config.framed else ids

    # Batches and loss.

    def collate(self, part: TaggedSet, chosen: np.ndarray, epoch: int | None = None) -> TagBatch:
        return part.batch(chosen)

    def small_batch(self, n_tokens: int) -> TagBatch:
        return self.train.batch(cut(np.arange(len(self.train.lengths)), self.train.lengths, n_tokens)[0])

    @torch.no_grad()
    def outputs(self, model: Tagger, pieces: WordPieces) -> Iterator[tuple[np.ndarray, Tensor]]:
        """Numbers of words, and what the model says of each (words, tags).  Pieces of about one length are read
        together."""
        for part in by_length(pieces.lengths, self.batch_tokens):
            rows = pieces.rows(part)
            layout = Ragged(torch.from_numpy(rows.lengths)).to(model.device)
            tokens, last = (torch.from_numpy(array).to(model.device) for array in (rows.tokens, rows.last))
            yield rows.words, word_logits(model, tokens, layout, last).float()

    # For people.

    def inspect(self) -> list[Row]:
        return [row for name, part in self.parts().items() for row in part.report(name)]

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"tag": self.tag, **super().verbs}

    @abstractmethod
    def tag(self, use: Use[Tagger], ask: Tag) -> list[TaggedLine]:
        """One answer per line, in order."""

    def lines_read(self, lines: Sequence[str]) -> tuple[WordPieces, Iterator[tuple[list[str], slice, list[str]]]]:
        """Lines as a model reads them; and of each line its words, their places among all words, and notes."""
        sentences, numbers = [self.words_of(line) for line in lines], [str(i + 1) for i in range(len(lines))]
        pieces = WordPieces(sentences, numbers, self.tokenizer, self.max_length, self.config.framed)
        n_pieces = np.bincount(pieces.sentence, minlength=len(sentences))
        starts = np.cumsum([0, *map(len, sentences)])
        notes = (
            ["empty"] if not words else [f"split into {n}"] if n > 1 else []
            for words, n in zip(sentences, n_pieces, strict=True)
        )
        return pieces, zip(sentences, map(slice, starts[:-1], starts[1:]), notes, strict=True)


class WordTask(AlignedTask):
    """What all taggers share; where tags come from and what they are good for differs."""

    purpose = "was trained to tag the words of a sentence"
    config: TaggingConfig | RestorationConfig

    def part(self, raw: Tagged, to_learn: bool) -> TaggedSet:
        return TaggedSet(raw, self.config.tags, self.tokenizer, self.max_length, self.config.framed)

    def nats(self, model: Tagger, batch: TagBatch, smoothing: float) -> Tensor:
        logits = word_logits(model, batch.tokens, batch.layout, batch.last)
        return F.cross_entropy(logits.float(), batch.tags, reduction="sum")

    # Validation and measuring.

    def figures(self, model: Tagger, part: TaggedSet) -> dict[str, float]:
        """Nats a word, and the shares in percent of `tag_figures`."""
        loss = self.mean_loss(model, part, by_length(part.lengths, self.batch_tokens))
        accuracy, f1, *_ = self.shares(model, part)
        return {"loss": loss, "accuracy": accuracy.value, "f1": f1.value}

    def predict(self, model: Tagger, pieces: WordPieces) -> tuple[np.ndarray, np.ndarray]:
        """The best tag of every word, and its probability."""
        best, probabilities = np.zeros(len(pieces.words), np.int64), np.zeros(len(pieces.words))
        for words, logits in self.outputs(model, pieces):
            highest = logits.softmax(-1).max(-1)
            best[words], probabilities[words] = highest.indices.cpu().numpy(), highest.values.cpu().numpy()
        return best, probabilities

    def shares(self, model: Tagger, part: TaggedSet) -> list[Metric]:
        tags, (best, _) = self.config.tags, self.predict(model, part.pieces)
        true = list(chain.from_iterable(part.tagged.tags))
        return tag_figures([tags[i] for i in best], true, tags, self.config.neutral)

    def metrics(self, use: Use[Tagger], part: TaggedSet) -> list[Metric]:
        """The shares beside those of a baseline: the most frequent tag of each word."""
        train = self.read_parts(self.config, self.setup.data).train
        columns = (train.words, train.tags, part.tagged.words, part.tagged.tags)
        words, tags, asked, true = (list(chain.from_iterable(column)) for column in columns)
        predicted = unigram_tags(words, tags, asked)
        baseline = tag_figures(predicted, true, self.config.tags, self.config.neutral, who="unigram baseline: ")
        return beside(self.shares(use.model, part), baseline)

    def first_samples(self, model: Tagger, valid: TaggedSet) -> list[Sample]:
        few = valid.tagged.take(np.arange(min(self.config.shown, len(valid.tagged))))
        best = iter(self.predict(model, self.part(few, to_learn=False).pieces)[0])
        predicted = [[self.config.tags[next(best)] for _ in words] for words in few.words]
        return [
            (" ".join(words), self.write(words, true), self.write(words, tags))
            for words, true, tags in zip(few.words, few.tags, predicted, strict=True)
        ]

    # For people.

    def settled_rows(self) -> list[tuple[str, str]]:
        return [("tags", f"{len(self.config.tags)}: {', '.join(self.config.tags)}")]

    # Use.

    def tag(self, use: Use[Tagger], ask: Tag) -> list[TaggedLine]:
        pieces, lines = self.lines_read(ask.lines)
        best, probabilities = self.predict(use.model, pieces)
        answers = []
        for words, own, notes in lines:
            tags = [self.config.tags[i] for i in best[own]]
            answers.append(TaggedLine(words, tags, probabilities[own].tolist(), self.write(words, tags), notes))
        return answers


class Tagging(WordTask):
    """With the tags of a file."""

    settings = TaggingConfig
    exchange = TAGS
    config: TaggingConfig
    recognize = staticmethod(tagged_words)
    draft = staticmethod(draft)

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Tagged]:
        """Equal sentences never fall on both sides."""
        return tagged_parts(data)

    def settle(self, train: Tagged) -> TaggingConfig:
        return replace(self.config, tags=tag_set(train, self.config.tags))


class Restoration(WordTask):
    """Of case and punctuation.  Plain text is its own teacher: words in lower case without punctuation, tagged with
    what was taken away."""

    settings = RestorationConfig
    purpose = "was trained to restore the case and punctuation of a text"

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Tagged]:
        return text_parts(data, "lines").mapped(restoring.stripped)

    @staticmethod
    def words_of(line: str) -> list[str]:
        return restoring.strip(line)[0]

    write = staticmethod(restoring.restore)


def word_logits(model: Tagger, tokens: Tensor, layout: Ragged, last: Tensor) -> Tensor:
    """(words, tags): what the model says at the last token of each word."""
    return Gather.apply(model(tokens, layout), last)
