"""Writing from a label (vec2seq): a label in, a text of its kind out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.checks import one_of, share, sorted_classes
from regard.data.batching.shards import tokenise
from regard.data.config import DataConfig
from regard.data.files.labelled import label_set, named, read_labelled, read_test, read_training
from regard.data.report import Part, Row, report
from regard.decoding.config import DecodingConfig
from regard.decoding.forced import score
from regard.decoding.search import generate
from regard.errors import ConfigError, RegardError
from regard.evaluation.classification import classification
from regard.evaluation.language import perplexity
from regard.evaluation.metric import Metric
from regard.models.conditioned import Conditioned
from regard.nn.layout import Ragged
from regard.tasks.classification.batches import UNLIMITED, Documents
from regard.tasks.forgetful import Forgetful
from regard.tasks.language.batches import TextBatch
from regard.tasks.language.use import Written, behind, limited, notes_on
from regard.tasks.setup import Setup
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LabelToTextConfig:
    labels: tuple[str, ...] = ()  # empty: those of the training data
    smoothing: float = 0.0
    shown: int = 1  # samples written at each validation, for each label
    sample_length: int = 60  # tokens of each
    metric: str = "loss"

    def __post_init__(self) -> None:
        sorted_classes(self, "labels")
        share(self, "smoothing")
        one_of(self, ("loss",), "metric")

    def id_of(self, label: str) -> int:
        if label not in self.labels:
            raise RegardError(f"there is no label {label!r}; the labels are: {named(self.labels)}")
        return self.labels.index(label)


class LabelToText(Forgetful):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("reader",)
    higher_is_better = False

    def __init__(self, config: LabelToTextConfig, train: Documents, valid: Documents | None, setup: Setup):
        self.config, self.train, self.valid = config, train, valid
        self.tokenizer, self.decoding, self.dropout = setup.tokenizer, setup.decoding, setup.dropout
        self.batch_tokens, self.metric = setup.data.batch_tokens, config.metric
        self.packing = train.packing(self.batch_tokens, setup.data.order, setup.seed)

    @classmethod
    def make(cls, config: LabelToTextConfig, setup: Setup) -> Self:
        parts = read_training(setup.data)
        config = replace(config, labels=label_set(parts.train, config.labels))
        train, valid = (
            None if part is None else Documents(part, config.labels, "first", setup, to_learn=True)
            for part in (parts.train, parts.valid)
        )
        assert train is not None
        return cls(config, train, valid, setup)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        return read_training(data).train.texts

    @staticmethod
    def build(config: LabelToTextConfig, reader: Any) -> Conditioned:
        return Conditioned(reader, max(len(config.labels), 2))

    # Batches.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch))

    def batch(self, epoch: int, index: int) -> TextBatch:
        return self.make_batch(self.train, self.packing.epoch(epoch)[index], self.dropout, draw=epoch)

    def small_batch(self, n_tokens: int) -> TextBatch:
        few = self.train.packing(min(n_tokens, self.batch_tokens), "random", seed=0).epoch(0)[0]
        return self.make_batch(self.train, few)

    def make_batch(self, part: Documents, indices: np.ndarray, dropout: float = 0.0, draw: int = 0) -> TextBatch:
        batch = part.batch(indices, dropout, draw)
        texts = np.split(batch.tokens.numpy(), batch.layout.offsets[1:-1].numpy())
        vocab_size, end_id = self.tokenizer.vocab_size, self.tokenizer.end_id
        return conditioned_batch(texts, batch.labels.numpy(), batch.lines, vocab_size, end_id, part.max_length)

    # Loss.

    def loss(self, model: Conditioned, batch: TextBatch) -> Tensor:
        return model.nats(batch.tokens, batch.labels, batch.layout, self.config.smoothing)

    def plain_loss(self, model: Conditioned, batch: TextBatch) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        return model.nats(batch.tokens, batch.labels, batch.layout, 0.0)

    # Validation.

    @torch.no_grad()
    def validate(self, model: Conditioned) -> dict[str, float]:
        """Nats a token, each text read with its own label."""
        if self.valid is None:
            return {}
        nats, count = 0.0, 0
        for indices in self.valid.packing(self.batch_tokens, "grouped", seed=0).epoch(0):
            batch = self.make_batch(self.valid, indices).to(model.device)
            nats += float(self.plain_loss(model, batch))
            count += batch.n_targets
        return {"loss": nats / count, "perplexity": perplexity(nats / count)}

    def samples(self, model: Conditioned) -> list[tuple[str, str, str]]:
        """What the model writes for each label."""
        if not self.config.shown:
            return []
        few = replace(self.decoding, beam=1, n_best=self.config.shown if self.decoding.sample else 1)
        length = min(self.config.sample_length, model.config.max_length)
        return [
            (label, "", text.text)
            for i, label in enumerate(self.config.labels)
            for text in write_as(model, self.tokenizer, i, [""], length, few)[0]
        ]

    @classmethod
    def measure(
        cls, model: Conditioned, config: LabelToTextConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """Perplexity of test texts, and how often a text is more probable with its own label than with another."""
        test = read_labelled(files, setup.data.columns, ".") if files else read_test(setup.data)
        test = read_training(setup.data).valid if test is None else test
        if test is None:
            raise ConfigError("the recipe names no test files; give one: regard evaluate RUN FILE")
        part = Documents(test, config.labels, "first", setup, to_learn=True)
        nats, n_tokens = nats_by_label(model, part, setup.tokenizer)
        true = part.labels[part.kept]
        own = float(nats[np.arange(len(true)), true].sum())
        settings = f"n:{n_tokens}|tok:{setup.tokenizer.kind}|texts:{len(true)}"
        chosen = [config.labels[i] for i in nats.argmin(1)]
        result = classification(chosen, [config.labels[i] for i in true], config.labels)
        values = {"loss": own / n_tokens, "perplexity": perplexity(own / n_tokens)}
        return ", ".join(files) or "the test texts", [
            *(Metric(name=name, value=value, signature=settings) for name, value in values.items()),
            replace(result.accuracy, name="most probable with its own label, %"),
        ]

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        found = {"train": self.train.labelled, "test": read_test(data)}
        if self.valid is not None:
            found["valid"] = self.valid.labelled
        parts = {
            name: Part(replace(part.examples, names=("text",)), [tokenise(part.texts, self.tokenizer)])
            for name, part in found.items()
            if part is not None
        }
        rows = report(parts, self.tokenizer, UNLIMITED, dropping=parts).rows()  # long texts are cut, not dropped
        notes = self.train.notes
        return rows + [Row("train", what, f"{n:,}", notes.first[what]) for what, n in notes.counts.items()]

    def rows(self) -> list[tuple[str, str]]:
        parts = [("training data", self.train)] + ([] if self.valid is None else [("validation data", self.valid)])
        rows = [(name, f"{len(part):,} texts, {part.n_tokens:,} tokens") for name, part in parts]
        counts = np.bincount(self.train.labels[self.train.kept], minlength=len(self.config.labels))
        rows.append(("labels", named([f"{label} {n:,}" for label, n in zip(self.config.labels, counts, strict=True)])))
        return rows + [("decided", row) for _, part in parts for row in part.notes.rows()]

    def purpose(self) -> str:
        return f"learnt to write texts of a kind: {named(self.config.labels)}"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard generate {folder} --label {self.config.labels[0]}", f"regard evaluate {folder}")


def conditioned_batch(
    texts: list[np.ndarray], labels: np.ndarray, lines: list[str], vocab_size: int, end_id: int, max_length: int
) -> TextBatch:
    """The label, then the text.  One that fills `max_length` was cut, so nothing says that it ends there."""
    ends = [[end_id] if len(text) < max_length else [] for text in texts]
    targets = [np.append(text, end).astype(np.int64) for text, end in zip(texts, ends, strict=True)]
    read = [np.append(vocab_size + label, y[:-1]) for label, y in zip(labels, targets, strict=True)]
    tokens, written = (torch.from_numpy(np.concatenate(rows).astype(np.int64)) for rows in (read, targets))
    return TextBatch(lines, tokens, written, Ragged([len(y) for y in targets]))


def nats_by_label(model: Conditioned, part: Documents, tokenizer: Tokenizer) -> tuple[np.ndarray, int]:
    """(texts, labels): -log P(text | label); and how many tokens all texts have, with their ends."""
    texts = [ids.tolist() for ids in part.documents(np.arange(len(part)))]
    n_scored = [len(ids) + (len(ids) < part.max_length) for ids in texts]  # the end, unless the text was cut
    nats = np.zeros((len(texts), model.n_labels))
    for label in range(model.n_labels):
        prompts = [[model.first(label)] for _ in texts]
        rows = score(model, prompts, texts, tokenizer.start_id, tokenizer.end_id)
        nats[:, label] = [-sum(row[:n]) for row, n in zip(rows, n_scored, strict=True)]
    return nats, sum(n_scored)


def write_as(
    model: Conditioned, tokenizer: Tokenizer, label: int, prompts: list[str], length: int | None, config: DecodingConfig
) -> list[list[Written]]:
    """For each prompt, which may be empty, the n best texts of this label that begin so, by at most `length` tokens
    longer (None: the usual number).  Of a prompt that is too long for the model the end is read."""
    most, config = limited(model, "lines", length, config)
    most -= 1  # the label is read before the prompt
    encoded = tokenizer.encode_batch(prompts)
    begun = [[model.first(label), *ids[max(0, len(ids) - most) :]] for ids in encoded]
    found = generate(model, begun, config, tokenizer.start_id, tokenizer.end_id)
    written = []
    for prompt, ids, group in zip(prompts, encoded, found, strict=True):
        notes = notes_on(prompt, [], ids, most, tokenizer)
        texts = [(behind(ids, best.tokens, tokenizer), tokenizer.decode(ids + best.tokens)) for best in group]
        written.append([Written(*t, best.log_prob, best.finished, notes) for t, best in zip(texts, group, strict=True)])
    return written
