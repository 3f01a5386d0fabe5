"""What all tasks with one label for each example have in common, whether it is a text or an image."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from regard.checks import one_of, share, sorted_classes
from regard.data.files.labelled import WithLabels, label_set, named
from regard.errors import ConfigError
from regard.evaluation.classification import classification, confusion_picture, confusion_rows, table_rows
from regard.evaluation.measured import Measured, count_notes
from regard.tasks.classification.verbs import Classified, Classify
from regard.tasks.setup import B, DataPart, M, Sample, TaskConfig, Use, Verbs
from regard.tasks.task import Task

LOOKED_AT = 1_000_000  # examples, for two with different labels


@dataclass(frozen=True, kw_only=True)
class LabelsConfig(TaskConfig):
    """What every way to predict labels may set."""

    # sorted; empty: those of the training data, which the run's recipe.toml lists; one without examples is an error
    labels: tuple[str, ...] = ()
    # what people call the labels (and what `label-words` writes), in their order, such as `["negative", "positive"]`
    # for `["0", "1"]`; empty: the names in the files
    names: tuple[str, ...] = ()
    smoothing: float = 0.0  # label smoothing; in `label-words`, of the tokens of the words
    shown: int = 3  # validation examples shown at each validation
    metric: str = "accuracy"  # the validation figure that chooses the best checkpoint: `accuracy` or `loss`

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        if self.names and len(set(self.names)) != len(self.labels):
            raise ConfigError(
                f"names must have one for each label, all different; got {list(self.names)} for {list(self.labels)}"
            )
        share(self, "smoothing")
        one_of(self, ("accuracy", "loss"), "metric")

    @property
    def n_labels(self) -> int:
        """Until the data are read, two: the fewest."""
        return len(self.labels) or 2

    @property
    def shown_labels(self) -> tuple[str, ...]:
        return self.names or self.labels


class LabeledPart(DataPart, Protocol):
    @property
    def labels(self) -> np.ndarray:
        """Of all examples, as places in the label set."""

    @property
    def kept(self) -> np.ndarray:
        """The places of the examples in use."""

    def shown(self, i: int) -> str:
        """Example i, for a person."""


R = TypeVar("R", bound=WithLabels)
P = TypeVar("P", bound=LabeledPart)


class LabelTask(Task[R, P, M, B]):
    tests_on_validation, has_outputs = False, True
    config: LabelsConfig

    def settle(self, train: R) -> LabelsConfig:
        return replace(self.config, labels=label_set(train, self.config.labels))

    def test(self, files: Sequence[str] = ()) -> tuple[str, R]:
        """A label that training does not have is an error, before anything is classified."""
        of, test = super().test(files)
        test.ids(self.config.labels)
        return of, test

    def small_batch(self, n_tokens: int) -> B:
        """A few training examples, of which two differ in their label: otherwise there is nothing to learn."""
        few = self.packing(self.train, min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        part = self.train
        labels = part.labels[part.kept[few]]
        other = np.flatnonzero(part.labels[part.kept[:LOOKED_AT]] != labels[0])
        return self.collate(part, few if len(set(labels)) > 1 else np.append(few, other[:1]))

    # Validation and measuring.

    @abstractmethod
    def log_probabilities(self, model: M, part: P, places: np.ndarray) -> np.ndarray:
        """log P(label | example) of those at these places of `kept`, (examples, labels)."""

    def figures(self, model: M, part: P) -> dict[str, float]:
        """The loss in nats an example, accuracy and the mean F1 of the labels in percent."""
        rows = self.log_probabilities(model, part, np.arange(len(part.kept)))
        ids = part.labels[part.kept]
        loss = -float(rows[np.arange(len(rows)), ids].mean())
        labels = self.config.labels
        result = classification([labels[i] for i in rows.argmax(1)], [labels[i] for i in ids], labels)
        return {"loss": loss, "accuracy": result.accuracy.value, "macro_f1": result.macro_f1.value}

    def first_samples(self, model: M, valid: P) -> list[Sample]:
        few, names = np.arange(min(self.config.shown, len(valid.kept))), self.config.shown_labels
        rows = self.log_probabilities(model, valid, few)
        return [(valid.shown(int(i)), names[valid.labels[i]], names[int(rows[i].argmax())]) for i in few]

    def measure(self, use: Use[M], files: Sequence[str] = ()) -> Measured:
        """Accuracy, F1 of every label, the confusion matrix."""
        of, test = self.test(files)
        answers = self.classify_all(use, test)
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
            footing=[*(f"{test.noun}s {note}: {n:,}" for note, n in notes.items()), result.accuracy.signature],
            outputs=outputs,
            remarks=list(test.notes.rows()),
            draw=lambda path: confusion_picture(result, path),
        )

    # For people.

    def settled_rows(self) -> list[tuple[str, str]]:
        return self.rows_of(np.bincount(self.train.labels[self.train.kept], minlength=len(self.config.labels)))

    def rows_of(self, counts: np.ndarray) -> list[tuple[str, str]]:
        return [("labels", named([f"{name} {counts[i]:,}" for i, name in enumerate(self.config.shown_labels)]))]

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"classify": self.classify, **super().verbs}

    @abstractmethod
    def classify(self, use: Use[M], ask: Classify) -> list[Classified]:
        """One answer for each, in order."""

    @abstractmethod
    def classify_all(self, use: Use[M], test: R) -> list[Classified]: ...

    def answer(self, log_probabilities: np.ndarray, notes: list[str]) -> Classified:
        probabilities, names = np.exp(log_probabilities.astype(np.float64)), self.config.shown_labels
        shares = dict(zip(names, (probabilities / probabilities.sum()).tolist(), strict=True))
        return Classified(names[int(log_probabilities.argmax())], shares, notes)
