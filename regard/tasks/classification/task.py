"""Classification (seq2vec): a text in, one label out."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Self

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.checks import one_of, share, sorted_classes
from regard.choose import choose
from regard.data.batching.batch import read_each
from regard.data.batching.packing import cut
from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, label_set, labelled_parts, named
from regard.data.files.recognizing import labeled_texts
from regard.data.files.splits import Parts
from regard.data.report import UNLIMITED, Row, advice, report
from regard.errors import ConfigError
from regard.evaluation.classification import classification, confusion_picture, confusion_rows, table_rows
from regard.evaluation.measured import Measured, count_notes
from regard.models.heads import POOLERS, Classifier
from regard.models.interface import AnyReader
from regard.nn.layout import Ragged
from regard.nn.pooling import POOLINGS
from regard.tasks.classification.batches import DocumentBatch, Documents, label_rows
from regard.tasks.classification.verbs import Classified, Classify
from regard.tasks.exchange import LABELS
from regard.tasks.framing import KEEPS, Framing
from regard.tasks.setup import B, M, Sample, Setup, TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.text.tokenizer import Tokenizer

SHOWN_CHARACTERS = 200  # of a validation text


@dataclass(frozen=True, kw_only=True)
class LabelsConfig(TaskConfig):
    """What every way to predict labels may set."""

    # sorted; empty: those of the training data, which the run's recipe.toml lists; one without examples is an error
    labels: tuple[str, ...] = ()
    # what people call the labels (and what `label-words` writes), in their order, such as `["negative", "positive"]`
    # for `["0", "1"]`; empty: the names in the files
    names: tuple[str, ...] = ()
    smoothing: float = 0.0  # label smoothing; in `label-words`, of the tokens of the words
    keep: str = "first"  # which end of texts longer than data.max_length is read, `first` or `last`; they are reported
    shown: int = 3  # validation texts shown at each validation
    metric: str = "accuracy"  # the validation figure that chooses the best checkpoint: `accuracy` or `loss`

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        if self.names and len(set(self.names)) != len(self.labels):
            raise ConfigError(
                f"names must have one for each label, all different; got {list(self.names)} for {list(self.labels)}"
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
    framed: bool = False  # read `<s> text </s>`, and for pairs `<s> a </s> b </s>`, as BERT does
    # how a reader's rows become one: `mean`, `max`, `last` (if bidirectional, both ends), `first` (BERT: that of <s>)
    pooling: str = "mean"
    # a layer between the pooled row and the labels: `none`, `tanh` (BERT), `relu` (DistilBERT), `gelu` (ELECTRA)
    pooler: str = "none"
    dropout: float = 0.0  # on the pooled row

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(POOLINGS, self.pooling, "summary (pooling)")
        choose(POOLERS, self.pooler, "activation (pooler)")
        share(self, "dropout")

    def refuse_teacher(self, theirs: Self) -> None:
        if self.smoothing:
            raise ConfigError("distillation does not smooth labels: set smoothing = 0")
        if theirs.labels != self.labels:
            raise ConfigError(f"the teacher was trained on other labels: {', '.join(theirs.labels)}")

    def build(self, reader: AnyReader) -> Classifier:
        return Classifier(reader, self.n_labels, self.pooling, self.dropout, self.pooler)


class LabelTask(Task[Labelled, Documents, M, B]):
    """What a classifier and a model that writes the words of labels have in common."""

    tests_on_validation, has_outputs = False, True
    commands = ("regard classify RUN < lines.txt", "regard evaluate RUN")
    config: LabelsConfig

    def __init__(self, config: LabelsConfig, setup: Setup):
        super().__init__(config, setup)
        self.framing = config.framing(self.tokenizer, setup.data)

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Labelled]:
        return labelled_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return chain.from_iterable(labelled_parts(data).train.examples.columns)

    def settle(self, train: Labelled) -> LabelsConfig:
        return replace(self.config, labels=label_set(train, self.config.labels))

    def part(self, raw: Labelled, to_learn: bool) -> Documents:
        n_texts = len(raw.examples.columns)
        framing = self.framing if n_texts == self.framing.n_texts else replace(self.framing, n_texts=n_texts)
        return Documents(raw, self.config.labels, framing, self.setup, to_learn)

    def test(self, files: Sequence[str] = ()) -> tuple[str, Labelled]:
        """A label that training does not have is an error, before anything is classified."""
        of, test = super().test(files)
        test.ids(self.config.labels)
        return of, test

    def encode(self, text: str) -> list[int]:
        """All of it: what is too long is not cut."""
        return self.framing.whole(self.framing.encode([text])[0]).tolist()

    # Batches.

    def small_batch(self, n_tokens: int) -> B:
        """A few training texts, of which two differ in their label: otherwise there is nothing to learn."""
        few = self.packing(self.train, min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        labels = self.train.labels[self.train.kept]
        other = np.flatnonzero(labels != labels[few[0]])
        return self.collate(self.train, few if len(set(labels[few])) > 1 else np.append(few, other[:1]))

    def documents(self) -> Iterator[tuple[Tensor, Ragged, Tensor]]:
        """All that is learned from, once, for a model that looks at it before the first step."""
        for chosen in cut(np.arange(len(self.train)), self.train.lengths, self.batch_tokens):
            batch = self.train.batch(chosen)
            yield batch.tokens, batch.layout, batch.labels

    # Validation and measuring.

    @abstractmethod
    def votes(self, model: M, tokens: Tensor, layout: Ragged) -> Tensor:
        """A number for every label of each text: token ids (N) -> (B, labels)."""

    def log_probabilities(self, model: M, documents: Sequence[np.ndarray]) -> np.ndarray:
        """log P(label | document), (documents, labels)."""
        votes = partial(self.votes, model)
        return read_each(votes, documents, self.batch_tokens, model.device).log_softmax(-1).numpy()

    def figures(self, model: M, part: Documents) -> dict[str, float]:
        """The loss in nats a text, accuracy and the mean F1 of the labels in percent."""
        rows = self.log_probabilities(model, part.documents(np.arange(len(part))))
        loss = -float(rows[np.arange(len(rows)), part.labels].mean())
        labels = self.config.labels
        result = classification([labels[i] for i in rows.argmax(1)], part.labelled.labels, labels)
        return {"loss": loss, "accuracy": result.accuracy.value, "macro_f1": result.macro_f1.value}

    def first_samples(self, model: M, valid: Documents) -> list[Sample]:
        few, names = np.arange(min(self.config.shown, len(valid))), self.config.shown_labels
        rows = self.log_probabilities(model, valid.documents(few))
        return [
            (valid.labelled.texts[i][:SHOWN_CHARACTERS], names[valid.labels[i]], names[int(rows[i].argmax())])
            for i in few
        ]

    def measure(self, use: Use[M], files: Sequence[str] = ()) -> Measured:
        """Accuracy, F1 of every label, the confusion matrix."""
        of, test = self.test(files)
        answers = self.classify(use, Classify(test.texts))
        names = dict(zip(self.config.labels, self.config.shown_labels, strict=True))
        outputs = [answer.label for answer in answers]
        result = classification(outputs, [names[label] for label in test.labels], self.config.shown_labels)
        notes = count_notes((note for answer in answers for note in answer.notes), (" of ",))
        low, high = result.accuracy.interval or (0.0, 100.0)
        return Measured(
            of,
            [result.accuracy, result.macro_f1],
            {"of": of, **asdict(result), "notes": notes},
            [("", table_rows(result)), ("", confusion_rows(result))],
            heading=[
                f"accuracy {result.accuracy.value:.2f} % (95 % interval {low:.2f} to {high:.2f})",
                f"majority class: {result.majority:.2f} %",
            ],
            footing=[*(f"texts {note}: {n:,}" for note, n in notes.items()), result.accuracy.signature],
            outputs=outputs,
            draw=lambda path: confusion_picture(result, path),
        )

    # For people.

    def inspect(self) -> list[Row]:
        parts = self.parts()
        for_report = {name: part.for_report() for name, part in parts.items()}
        rows = report(for_report, self.tokenizer, UNLIMITED, dropping=("train",))
        rows.append(Row("train", "bag or sequence model?", advice(self.train.labelled.texts)))
        for name, part in parts.items():
            rows += label_rows(name, part.labelled, self.config.labels, self.config.shown_labels)
            where = part.labelled.examples.where(int(part.long[0])) if len(part.long) else ""
            rows.append(Row(name, part.cut_note, f"{len(part.long):,}", where))
        return sorted(rows, key=lambda row: list(parts).index(row.part))

    def settled_rows(self) -> list[tuple[str, str]]:
        counts = Counter(self.train.labels[self.train.kept].tolist())
        return [("labels", named([f"{name} {counts[i]:,}" for i, name in enumerate(self.config.shown_labels)]))]

    @property
    def purpose(self) -> str:
        return f"was trained to predict the label of a text ({named(self.config.shown_labels)})"

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"classify": self.classify, **super().verbs}

    def classify(self, use: Use[M], ask: Classify) -> list[Classified]:
        """One answer per text, in order; an empty one gets what the classifier says about nothing."""
        framing, names = self.framing, self.config.shown_labels
        encoded = framing.encode(ask.lines)
        rows = self.log_probabilities(use.model, [framing.join(parts) for parts in encoded])
        answers = []
        for text, parts, row in zip(ask.lines, encoded, rows, strict=True):
            notes = [] if text.strip() else ["empty"]
            if text.strip() and not all(part.strip() for part in framing.texts(text)):
                notes.append("one of the two texts is empty (a tab separates them)")
            if framing.length(parts) > framing.max_length:
                notes.append(f"cut to the {framing.keep} {framing.max_length:,} of {framing.length(parts):,} tokens")
            probabilities = np.exp(row.astype(np.float64))
            shares = dict(zip(names, (probabilities / probabilities.sum()).tolist(), strict=True))
            answers.append(Classified(names[int(row.argmax())], shares, notes))
        return answers


def label_nats(model: Classifier, batch: DocumentBatch, smoothing: float) -> Tensor:
    """-log P of all labels."""
    logits = model(batch.tokens, batch.layout).float()
    return F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)


class Classification(LabelTask[Classifier, DocumentBatch]):
    """By a head on one summary of all rows, or by a bag of words."""

    settings = ClassificationConfig
    roles = ("reader", "classifier")
    exchange = LABELS
    recognize = staticmethod(labeled_texts)

    def collate(self, part: Documents, chosen: np.ndarray, epoch: int | None = None) -> DocumentBatch:
        return part.batch(chosen, epoch)

    def votes(self, model: Classifier, tokens: Tensor, layout: Ragged) -> Tensor:
        return model(tokens, layout)

    nats = staticmethod(label_nats)

    def predictions(self, model: Classifier, batch: DocumentBatch) -> tuple[Tensor, Tensor, Tensor]:
        rows = model.reader(batch.tokens, batch.layout)
        return model.label_logits(rows, batch.layout), batch.labels, rows
