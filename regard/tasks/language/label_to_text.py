"""Writing from a label (vec2seq): a label in, a text of its kind out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.checks import not_negative, one_of, share, sorted_classes
from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, label_set, labelled_parts, named
from regard.data.files.splits import Parts
from regard.data.report import UNLIMITED, Row, note_rows, report
from regard.decoding.engine import Engine
from regard.decoding.forced import score
from regard.errors import RegardError
from regard.evaluation.classification import classification
from regard.evaluation.measured import Metric, perplexity
from regard.inputs import paired
from regard.models.conditioned import Conditioned, LabelBeside, LabelFirst
from regard.models.interface import AnyReader
from regard.nn.layout import Ragged
from regard.tasks.classification.batches import Documents
from regard.tasks.framing import Framing
from regard.tasks.language.batches import TextBatch
from regard.tasks.language.use import Continuations
from regard.tasks.language.verbs import Generate, GenerateAs, Written
from regard.tasks.own_words import OwnWordsConfig
from regard.tasks.setup import Sample, TaskConfig, Use, Verbs
from regard.tasks.task import Task
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus


@dataclass(frozen=True, kw_only=True)
class LabelToTextConfig(OwnWordsConfig):
    labels: tuple[str, ...] = ()  # the labels, sorted; empty: those of the training data
    # width of the vector x of a label, which is read beside every token, [x; y_{t-1}], by a recurrent model; 0: the
    # vector is as wide as an embedding and is read once, before the text
    d_vector: int = 0
    smoothing: float = 0.0  # label smoothing of the tokens
    shown: int = 1  # samples written at each validation, for each label
    sample_length: int = 60  # tokens of each sample

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        self.check_own_words()
        not_negative(self, "d_vector")
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")

    def build(self, reader: AnyReader) -> Conditioned:
        n_labels = max(len(self.labels), 2)
        return LabelBeside(reader, n_labels, self.d_vector) if self.d_vector else LabelFirst(reader, n_labels)


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
        vocab_size, end_id, is_beside = self.tokenizer.vocab_size, self.tokenizer.end_id, bool(self.config.d_vector)
        labels = batch.labels.numpy()
        return conditioned_batch(texts, labels, batch.lines, vocab_size, end_id, self.max_length, is_beside)

    # Loss, validation and measuring.

    def nats(self, model: Conditioned, batch: TextBatch, smoothing: float) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout, smoothing)

    def loss(self, model: Conditioned, batch: TextBatch) -> Tensor:
        read = self.config.text_read(model, batch.tokens, batch.layout, self.setup.seed, self.step)
        return super().loss(model, replace(batch, tokens=read))

    def figures(self, model: Conditioned, part: Documents) -> dict[str, float]:
        """Nats a token, each text read with its own label."""
        loss = self.mean_loss(model, part, self.packing(part, self.batch_tokens, "grouped", seed=0).epoch(0))
        return {"loss": loss, "perplexity": perplexity(loss)}

    def first_samples(self, model: Conditioned, valid: Documents) -> list[Sample]:
        """What the model writes for each label."""
        decoding = self.setup.decoding
        few = replace(decoding, beam=1, n_best=self.config.shown if decoding.sample else 1)
        length = min(self.config.sample_length, model.max_length)
        use, ask, writer = (
            Use(model, Engine(model), few),
            Generate([""], length),
            Continuations(self.tokenizer, "lines"),
        )
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
        parts = {name: part.for_report()[0] for name, part in self.parts().items()}
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

    def look(self, use: Use[Conditioned], source: str, target: str | None, focus: Focus) -> Capture:
        raise RegardError("this run writes from a label; it cannot be looked at while it reads a text")

    @property
    def verbs(self) -> Verbs:
        return {"generate_as": self.generate_as, **super().verbs}

    def generate_as(self, use: Use[Conditioned], ask: GenerateAs) -> list[list[Written]]:
        labels, request = self.config.labels, Generate(ask.prompts, ask.length, ask.decoding)
        if ask.label not in labels:
            raise RegardError(f"there is no label {ask.label!r}; the labels are: {named(labels)}")
        label = use.model.first(labels.index(ask.label))
        return Continuations(self.tokenizer, "lines").write(use, request, label)


def conditioned_batch(
    texts: list[np.ndarray],
    labels: np.ndarray,
    lines: list[str],
    vocab_size: int,
    end_id: int,
    max_length: int,
    is_beside: bool = False,
) -> TextBatch:
    """The label before the text, or beside each token.  A text that fills `max_length` was cut, so nothing says that it
    ends there."""
    ends = [[end_id] if len(text) < max_length else [] for text in texts]
    targets = [np.append(text, end).astype(np.int64) for text, end in zip(texts, ends, strict=True)]
    if is_beside:
        shifted = [np.append(vocab_size, y[:-1]) for y in targets]
        read = [paired(words, label, vocab_size) for words, label in zip(shifted, labels, strict=True)]
    else:
        read = [np.append(vocab_size + label, y[:-1]) for label, y in zip(labels, targets, strict=True)]
    tokens, written = (torch.from_numpy(np.concatenate(rows).astype(np.int64)) for rows in (read, targets))
    return TextBatch(lines, tokens, written, Ragged([len(y) for y in targets]))
