"""Writing from a label (vec2seq): a label in, a text of its kind out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.checks import one_of, share, sorted_classes
from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, label_set, labelled_parts, named
from regard.data.files.splits import Parts
from regard.data.report import UNLIMITED, Row, note_rows, report
from regard.decoding.forced import score
from regard.errors import RegardError
from regard.evaluation.classification import classification
from regard.evaluation.measured import Metric, perplexity
from regard.models.heads import Conditioned
from regard.models.interface import AnyReader
from regard.nn.layout import Ragged
from regard.tasks.classification.batches import Documents
from regard.tasks.framing import Framing
from regard.tasks.language.batches import TextBatch
from regard.tasks.language.use import Continuations
from regard.tasks.language.verbs import Generate, GenerateAs, Written
from regard.tasks.setup import Sample, TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked


@dataclass(frozen=True, kw_only=True)
class LabelToTextConfig(TaskConfig):
    labels: tuple[str, ...] = ()  # the labels, sorted; empty: those of the training data
    smoothing: float = 0.0  # label smoothing of the tokens
    shown: int = 1  # samples written at each validation, for each label
    sample_length: int = 60  # tokens of each sample

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")

    def build(self, reader: AnyReader) -> Conditioned:
        return Conditioned(reader, max(len(self.labels), 2))


class LabelToText(Task[Labelled, Documents, Conditioned, TextBatch]):
    """P(y_1 .. y_T | label)."""

    settings = LabelToTextConfig
    config: LabelToTextConfig

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Labelled]:
        return labelled_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return labelled_parts(data).train.texts

    def settle(self, train: Labelled) -> LabelToTextConfig:
        return replace(self.config, labels=label_set(train, self.config.labels))

    def part(self, raw: Labelled, to_learn: bool) -> Documents:
        framing = Framing(self.tokenizer, framed=False, keep="first", max_length=self.max_length)
        return Documents(raw, self.config.labels, framing, self.setup, to_learn=True)

    def collate(self, part: Documents, chosen: np.ndarray, epoch: int | None = None) -> TextBatch:
        batch = part.batch(chosen, epoch)
        texts = np.split(batch.tokens.numpy(), batch.layout.offsets[1:-1].numpy())
        vocab_size, end_id = self.tokenizer.vocab_size, self.tokenizer.end_id
        return conditioned_batch(texts, batch.labels.numpy(), batch.lines, vocab_size, end_id, self.max_length)

    # Loss, validation and measuring.

    def nats(self, model: Conditioned, batch: TextBatch, smoothing: float) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout, smoothing)

    def figures(self, model: Conditioned, part: Documents) -> dict[str, float]:
        """Nats a token, each text read with its own label."""
        loss = self.mean_loss(model, part, self.packing(part, self.batch_tokens, "grouped", seed=0).epoch(0))
        return {"loss": loss, "perplexity": perplexity(loss)}

    def first_samples(self, model: Conditioned, valid: Documents) -> list[Sample]:
        """What the model writes for each label."""
        decoding = self.setup.decoding
        few = replace(decoding, beam=1, n_best=self.config.shown if decoding.sample else 1)
        length = min(self.config.sample_length, model.max_length)
        use, ask, writer = Use(model, model, few), Generate([""], length), Continuations(self.tokenizer, "lines")
        return [
            (label, "", text.text)
            for i, label in enumerate(self.config.labels)
            for text in writer.write(use, ask, label=model.first(i))[0]
        ]

    def metrics(self, use: Use[Conditioned], part: Documents) -> list[Metric]:
        """Perplexity, and how often a text is more probable with its own label than with another."""
        texts = [ids.tolist() for ids in part.documents(np.arange(len(part)))]
        n_scored = [len(ids) + (len(ids) < self.max_length) for ids in texts]  # the end, unless the text was cut
        nats = np.zeros((len(texts), use.model.n_labels))  # -log P(text | label)
        for label in range(use.model.n_labels):
            prompts = [[use.model.first(label)] for _ in texts]
            rows = score(use.model, prompts, texts, self.tokenizer.start_id, self.tokenizer.end_id)
            nats[:, label] = [-sum(row[:n]) for row, n in zip(rows, n_scored, strict=True)]
        true, labels, n_tokens = part.labels[part.kept], self.config.labels, sum(n_scored)
        own = float(nats[np.arange(len(true)), true].sum())
        signature = f"n:{n_tokens}|tok:{self.tokenizer.kind}|texts:{len(true)}"
        result = classification([labels[i] for i in nats.argmin(1)], [labels[i] for i in true], labels)
        values = {"loss": own / n_tokens, "perplexity": perplexity(own / n_tokens)}
        metrics = [Metric(name=name, value=value, signature=signature) for name, value in values.items()]
        return [*metrics, replace(result.accuracy, name="most probable with its own label, %")]

    # For people.

    def inspect(self) -> list[Row]:
        parts = {name: part.for_report() for name, part in self.parts().items()}
        rows = report(parts, self.tokenizer, UNLIMITED, dropping=parts)  # long texts are cut, not dropped
        return rows + note_rows("train", self.train.notes)

    def settled_rows(self) -> list[tuple[str, str]]:
        counts = np.bincount(self.train.labels[self.train.kept], minlength=len(self.config.labels))
        return [("labels", named([f"{label} {n:,}" for label, n in zip(self.config.labels, counts, strict=True)]))]

    @property
    def purpose(self) -> str:
        return f"was trained to write texts with a label ({named(self.config.labels)})"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard generate {folder} --label {self.config.labels[0]}", f"regard evaluate {folder}")

    # Use.

    def look(self, use: Use[Conditioned], source: str, target: str | None, asked: Asked) -> Capture:
        raise RegardError("this run writes from a label; it cannot be looked at while it reads a text")

    @property
    def verbs(self) -> Verbs:
        return {"generate_as": self.generate_as, **super().verbs}

    def generate_as(self, use: Use[Conditioned], ask: GenerateAs) -> list[list[Written]]:
        labels, request = self.config.labels, Generate(ask.prompts, ask.length, ask.decoding)
        if ask.label not in labels:
            raise RegardError(f"there is no label {ask.label!r}; the labels are: {named(labels)}")
        label = use.model.first(labels.index(ask.label))
        return Continuations(self.tokenizer, "lines").write(use._replace(generator=use.model), request, label)


def conditioned_batch(
    texts: list[np.ndarray], labels: np.ndarray, lines: list[str], vocab_size: int, end_id: int, max_length: int
) -> TextBatch:
    """The label, then the text.  One that fills `max_length` was cut, so nothing says that it ends there."""
    ends = [[end_id] if len(text) < max_length else [] for text in texts]
    targets = [np.append(text, end).astype(np.int64) for text, end in zip(texts, ends, strict=True)]
    read = [np.append(vocab_size + label, y[:-1]) for label, y in zip(labels, targets, strict=True)]
    tokens, written = (torch.from_numpy(np.concatenate(rows).astype(np.int64)) for rows in (read, targets))
    return TextBatch(lines, tokens, written, Ragged([len(y) for y in targets]))
