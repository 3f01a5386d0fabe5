"""Classification (seq2vec): a text in, one label out."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.checks import one_of, share, sorted_classes
from regard.choose import choose
from regard.data.advice import advice
from regard.data.batching.shards import tokenise
from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, label_set, named, read_test, read_training
from regard.data.files.reading import Examples
from regard.data.files.splits import normalised
from regard.data.report import Part, Row, report
from regard.errors import ConfigError
from regard.evaluation.classification import classification
from regard.evaluation.metric import Metric
from regard.models.heads import POOLERS, Classifier
from regard.nn.layout import Ragged
from regard.nn.pooling import POOLINGS
from regard.tasks.classification.batches import UNLIMITED, DocumentBatch, Documents, log_probabilities
from regard.tasks.classification.use import classify, test_set
from regard.tasks.forgetful import Forgetful
from regard.tasks.framing import KEEPS, Framing
from regard.tasks.setup import Setup
from regard.text.tokenizer import Tokenizer

SHOWN_CHARACTERS = 200  # of a validation text


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    """What every way to tell labels asks."""

    labels: tuple[str, ...] = ()  # empty: those of the training data
    names: tuple[str, ...] = ()  # what people call the labels, in their order; empty: as the files do
    smoothing: float = 0.0
    keep: str = "first"  # which end of a text longer than data.max_length is read
    shown: int = 3  # samples shown at each validation
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        if self.names and len(set(self.names)) != len(self.labels):
            raise ConfigError(
                f"names must be one for each of labels, all different; got {list(self.names)} for {list(self.labels)}"
            )
        choose(KEEPS, self.keep, "end to keep")
        share(self, "smoothing")
        one_of(self, ("accuracy", "loss"), "metric")

    @property
    def framed(self) -> bool:
        """Whether texts are read as <s> a </s> or <s> a </s> b </s>."""
        return False

    def framing(self, tokenizer: Tokenizer, data: DataConfig) -> Framing:
        """How texts become sequences; of three columns two are texts."""
        return Framing(tokenizer, self.framed, self.keep, data.max_length, max(len(data.columns) - 1, 1))

    @property
    def n_labels(self) -> int:
        """Until the data are read, two: the fewest."""
        return len(self.labels) or 2

    @property
    def shown_labels(self) -> tuple[str, ...]:
        return self.names or self.labels


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(LabelsConfig):
    framed: bool = False  # read <s> text </s>, and of pairs <s> a </s> b </s>, as BERT does
    pooling: str = "mean"  # how a reader's rows become one
    pooler: str = "none"  # a layer with this activation between that one and the labels (BERT: tanh)
    dropout: float = 0.0  # on that one

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(POOLINGS, self.pooling, "summary (pooling)")
        choose(POOLERS, self.pooler, "activation (pooler)")
        share(self, "dropout")


class Classification(Forgetful):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles: tuple[str, ...] = ("reader", "classifier")

    def __init__(self, config: ClassificationConfig, train: Documents, valid: Documents | None, setup: Setup):
        self.config, self.train, self.valid = config, train, valid
        self.tokenizer, self.dropout, self.batch_tokens = setup.tokenizer, setup.dropout, setup.data.batch_tokens
        self.packing = train.packing(setup.data.batch_tokens, setup.data.order, setup.seed)
        self.metric = config.metric
        self.higher_is_better = config.metric == "accuracy"

    @classmethod
    def make(cls, config: ClassificationConfig, setup: Setup) -> Self:
        """The labels are settled here: `config.labels` of the task has them."""
        parts = read_training(setup.data)
        config = replace(config, labels=label_set(parts.train, config.labels))
        train = Documents(parts.train, config.labels, config.keep, setup, to_learn=True, framed=config.framed)
        valid = None
        if parts.valid is not None:
            valid = Documents(parts.valid, config.labels, config.keep, setup, to_learn=False, framed=config.framed)
        return cls(config, train, valid, setup)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        return chain.from_iterable(read_training(data).train.examples.columns)

    @staticmethod
    def build(config: ClassificationConfig, reader: Any) -> Classifier:
        return Classifier(reader, config.n_labels, config.pooling, config.dropout, config.pooler)

    @staticmethod
    def voter(model: Any, config: Any, tokenizer: Tokenizer) -> Any:
        """What gives each text (tokens, layout) a number for every label: a classifier itself."""
        return model

    # Batches.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> DocumentBatch:
        return self.train.batch(self.packing.epoch(epoch)[index], self.dropout, draw=epoch)

    def small_batch(self, n_tokens: int) -> DocumentBatch:
        """A few training texts, of which two differ in their label: otherwise there is nothing to learn."""
        few = self.train.packing(min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        labels = self.train.labels[self.train.kept]
        other = np.flatnonzero(labels != labels[few[0]])
        return self.train.batch(few if len(set(labels[few])) > 1 else np.append(few, other[:1]))

    def documents(self) -> Iterator[tuple[Tensor, Ragged, Tensor]]:
        """All that is learnt from, once, for a model that looks at it before the first step."""
        return self.train.all_batches(self.batch_tokens)

    # Loss.

    def loss(self, model: Any, batch: DocumentBatch) -> Tensor:
        return nats(model, batch, self.config.smoothing)

    def predictions(self, model: Classifier, batch: DocumentBatch) -> tuple[Tensor, Tensor]:
        """For who compares two models: the logits of every text (B, labels), and all hidden rows (N, D)."""
        rows = model.reader(batch.tokens, batch.layout)
        return model.label_logits(rows, batch.layout), rows

    def plain_loss(self, model: Any, batch: DocumentBatch) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        return nats(model, batch, 0.0)

    # Validation.

    def validate(self, model: Any) -> dict[str, float]:
        """The loss in nats a text, accuracy and the mean F1 of the labels in percent."""
        if self.valid is None:
            return {}
        rows = log_probabilities(model, self.valid.documents(np.arange(len(self.valid))), self.batch_tokens)
        loss = -float(rows[np.arange(len(rows)), self.valid.labels].mean())
        labels = self.config.labels
        result = classification([labels[i] for i in rows.argmax(1)], self.valid.labelled.labels, labels)
        return {"loss": loss, "accuracy": result.accuracy.value, "macro_f1": result.macro_f1.value}

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        if self.valid is None or not self.config.shown:
            return []
        few = np.arange(min(self.config.shown, len(self.valid)))
        rows = log_probabilities(model, self.valid.documents(few), self.batch_tokens)
        names = self.config.shown_labels
        return [
            (self.valid.labelled.texts[i][:SHOWN_CHARACTERS], names[self.valid.labels[i]], names[int(rows[i].argmax())])
            for i in few
        ]

    @classmethod
    def measure(
        cls, model: Any, config: ClassificationConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """Accuracy and the mean F1 of test texts (default: the recipe's), and what they are of."""
        data = setup.data
        what, test = test_set(data, config.labels, files)
        framing = config.framing(setup.tokenizer, data)
        answers = classify(model, test.texts, config.labels, framing, data.batch_tokens)
        result = classification([answer.label for answer in answers], test.labels, config.labels)
        return what, [result.accuracy, result.macro_f1]

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        found = {"train": self.train.labelled}
        shards = {"train": self.train.parts}
        if self.valid is not None:
            found["valid"], shards["valid"] = self.valid.labelled, self.valid.parts
        test = read_test(data)
        if test is not None:
            test.ids(self.config.labels)  # which may refuse
            found["test"] = test
            shards["test"] = [tokenise(column, self.tokenizer) for column in test.examples.columns]
        parts = {name: Part(with_names(part.examples), shards[name]) for name, part in found.items()}
        rows = report(parts, self.tokenizer, UNLIMITED, dropping=("train",)).rows()
        rows.append(Row("train", "bag or sequence model?", advice(self.train.labelled.texts).sentence))
        for name, part in found.items():
            rows += label_rows(name, part, self.config)
            lengths = self.train.framing.lengths([shard.lengths for shard in shards[name]])
            long = np.flatnonzero(lengths > data.max_length)
            where = part.examples.where(int(long[0])) if len(long) else ""
            rows.append(Row(name, f"cut to the {self.config.keep} {data.max_length:,} tokens", f"{len(long):,}", where))
        order = list(found)
        return sorted(rows, key=lambda row: order.index(row.part))

    def rows(self) -> list[tuple[str, str]]:
        parts = [("training data", self.train)] + ([("validation data", self.valid)] if self.valid is not None else [])
        rows = [(name, f"{len(part):,} texts, {part.n_tokens:,} tokens") for name, part in parts]
        counts = Counter(self.train.labels[self.train.kept].tolist())
        shown = [f"{name} {counts[i]:,}" for i, name in enumerate(self.config.shown_labels)]
        rows.append(("labels", named(shown)))
        return rows + [(f"decided, {name}", row) for name, part in parts for row in part.notes.rows()]

    def purpose(self) -> str:
        return f"learnt to tell apart texts by label ({named(self.config.shown_labels)})"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard classify {folder} < lines.txt", f"regard evaluate {folder}")


def with_names(examples: Examples) -> Examples:
    """A text is called so; the two of a pair are called what their columns are."""
    return replace(examples, names=("text",)) if len(examples.names) == 1 else examples


def nats(model: Any, batch: DocumentBatch, smoothing: float) -> Tensor:
    """-log P of all labels."""
    logits = model(batch.tokens, batch.layout).float()
    return F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)


def label_rows(name: str, part: Labelled, config: ClassificationConfig) -> list[Row]:
    """How many texts each label has, and how many equal texts have another label."""
    counts = Counter(part.labels)
    rows = [
        Row(name, f"label {shown}", f"{counts[label]:,} ({counts[label] / len(part):.1%})")
        for label, shown in zip(config.labels, config.shown_labels, strict=True)
    ]
    first: dict[str, str] = {}
    keys = [normalised(text) for text in part.texts]
    differ = [i for i, key in enumerate(keys) if first.setdefault(key, part.labels[i]) != part.labels[i]]
    where = part.examples.where(differ[0]) if differ else ""
    return [*rows, Row(name, "an earlier text with another label", f"{len(differ):,}", where)]
