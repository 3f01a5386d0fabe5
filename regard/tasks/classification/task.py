"""Classification (seq2vec): a text in, one label out."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Self

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.checks import share
from regard.choose import choose
from regard.data.batching.batch import read_each
from regard.data.batching.computed_order import PooledEpochs
from regard.data.batching.packing import Packing
from regard.data.config import DataConfig
from regard.data.files.labelled import Labelled, labelled_parts, named
from regard.data.files.recognizing import labeled_texts
from regard.data.files.splits import Parts
from regard.data.report import UNLIMITED, Row, advice, report
from regard.errors import ConfigError
from regard.models.heads import POOLERS, Classifier
from regard.models.interface import AnyReader
from regard.nn.layout import Ragged
from regard.nn.pooling import POOLINGS
from regard.tasks.classification.batches import DocumentBatch, Documents, LargeDocuments, label_rows
from regard.tasks.classification.labels import LabelsConfig, LabelTask
from regard.tasks.classification.sizing import draft
from regard.tasks.classification.verbs import Classified, Classify
from regard.tasks.exchange import LABELS
from regard.tasks.framing import KEEPS, Framing
from regard.tasks.setup import B, M, Setup, TaskConfig, Use
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, look_at_text, look_in_parts
from regard.viewer.ngrams import look_at_ngrams, look_at_vocabulary


@dataclass(frozen=True, kw_only=True)
class TextLabelsConfig(LabelsConfig):
    keep: str = "first"  # which end of texts longer than data.max_length is read, `first` or `last`; they are reported

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(KEEPS, self.keep, "end to keep")

    @property
    def framed(self) -> bool:
        """Whether texts are read as <s> a </s> or <s> a </s> b </s>."""
        return False

    def framing(self, tokenizer: Tokenizer, data: DataConfig) -> Framing:
        """How texts become sequences; of three columns two are texts."""
        return Framing(tokenizer, self.framed, self.keep, data.max_length, max(len(data.columns) - 1, 1))


@dataclass(frozen=True, kw_only=True)
class ClassificationConfig(TextLabelsConfig):
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

    def refuse_r_drop(self) -> None:
        """It can."""

    def build(self, reader: AnyReader) -> Classifier:
        return Classifier(reader, self.n_labels, self.pooling, self.dropout, self.pooler)


class TextLabelTask(LabelTask[Labelled, Documents, M, B]):
    """What a classifier of texts and a model that writes the words of labels have in common."""

    commands = ("regard classify RUN < lines.txt", "regard evaluate RUN")
    config: TextLabelsConfig

    def __init__(self, config: TextLabelsConfig, setup: Setup):
        super().__init__(config, setup)
        self.framing = config.framing(self.tokenizer, setup.data)

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[Labelled]:
        return labelled_parts(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return chain.from_iterable(labelled_parts(data).train.examples.columns)

    def part(self, raw: Labelled, to_learn: bool) -> Documents:
        n_texts = len(raw.examples.columns)
        framing = self.framing if n_texts == self.framing.n_texts else replace(self.framing, n_texts=n_texts)
        is_large = to_learn and self.setup.data.are_many(len(raw), raw.examples.digest)
        kind = LargeDocuments if is_large else Documents
        return kind(raw, self.config.labels, framing, self.setup, to_learn)

    def packing(self, part: Documents, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return part.packing(budget, order, seed)

    def encode(self, text: str) -> list[int]:
        """All of it: what is too long is not cut."""
        return self.framing.whole(self.framing.encode([text])[0]).tolist()

    def documents(self) -> Iterator[tuple[Tensor, Ragged, Tensor]]:
        """All that is learned from, once, for a model that looks at it before the first step."""
        for chosen in self.train.in_order(self.batch_tokens):
            batch = self.train.batch(chosen)
            yield batch.tokens, batch.layout, batch.labels

    @abstractmethod
    def votes(self, model: M, tokens: Tensor, layout: Ragged) -> Tensor:
        """A number for every label of each text: token ids (N) -> (B, labels)."""

    def log_probabilities(self, model: M, part: Documents, places: np.ndarray) -> np.ndarray:
        return self.read_documents(model, part.documents(places))

    def read_documents(self, model: M, documents: Sequence[np.ndarray]) -> np.ndarray:
        """log P(label | document), (documents, labels)."""
        votes = partial(self.votes, model)
        return read_each(votes, documents, self.batch_tokens, model.device).log_softmax(-1).numpy()

    # For people.

    def settled_rows(self) -> list[tuple[str, str]]:
        return self.rows_of(self.train.label_counts(len(self.config.labels)))

    def inspect(self) -> list[Row]:
        parts = self.parts()
        shown = {name: part.for_report() for name, part in parts.items()}
        measured = {name: part for name, (part, _) in shown.items()}
        rows = report(measured, self.tokenizer, UNLIMITED, dropping=("train",))
        rows.append(Row("train", "bag or sequence model?", advice(shown["train"][1].texts, len(self.train.examples))))
        for name, part in parts.items():
            rows += label_rows(name, shown[name][1], self.config.labels, self.config.shown_labels)
            n_long, where = part.notes.counts.get(part.cut_note, 0), part.notes.first.get(part.cut_note, "")
            rows.append(Row(name, part.cut_note, f"{n_long:,}", where))
        return sorted(rows, key=lambda row: list(parts).index(row.part))

    @property
    def purpose(self) -> str:
        return f"was trained to predict the label of a text ({named(self.config.shown_labels)})"

    # Use.

    def classify_all(self, use: Use[M], test: Labelled) -> list[Classified]:
        return self.classify(use, Classify(test.texts))

    def classify(self, use: Use[M], ask: Classify) -> list[Classified]:
        """One answer per text, in order; an empty one gets what the classifier says about nothing."""
        framing = self.framing
        encoded = framing.encode(ask.lines)
        rows = self.read_documents(use.model, [framing.join(parts) for parts in encoded])
        answers = []
        for text, parts, row in zip(ask.lines, encoded, rows, strict=True):
            notes = [] if text.strip() else ["empty"]
            if text.strip() and not all(part.strip() for part in framing.texts(text)):
                notes.append("one of the two texts is empty (a tab separates them)")
            answers.append(self.answer(row, [*notes, *framing.cut_notes(parts)]))
        return answers


def label_nats(model: Classifier, batch: DocumentBatch, smoothing: float) -> Tensor:
    """-log P of all labels."""
    logits = model(batch.tokens, batch.layout).float()
    return F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)


class Classification(TextLabelTask[Classifier, DocumentBatch]):
    """By a head on one summary of all rows, or by a bag of words."""

    settings = ClassificationConfig
    roles = ("reader", "classifier")
    exchange = LABELS
    recognize = staticmethod(labeled_texts)
    draft = staticmethod(draft)

    def collate(self, part: Documents, chosen: np.ndarray, epoch: int | None = None) -> DocumentBatch:
        return part.batch(chosen, epoch)

    def votes(self, model: Classifier, tokens: Tensor, layout: Ragged) -> Tensor:
        return model(tokens, layout)

    nats = staticmethod(label_nats)

    def predictions(self, model: Classifier, batch: DocumentBatch) -> tuple[Tensor, Tensor, Tensor]:
        rows = model.reader(batch.tokens, batch.layout)
        return model.label_logits(rows, batch.layout), batch.labels, rows

    def look(self, use: Use, source: str, target: str | None, focus: Focus) -> Capture:
        """What the answer comes from: of a long text, what is left of it; of a bag of words the n-grams of a text, or,
        without one, of the whole model."""
        if target is not None or not (source or use.model.is_fitted):
            return super().look(use, source, target, focus)
        return look_in_parts([source], focus, lambda text: self.look_at_document(use, text, focus))

    def look_at_document(self, use: Use, text: str, focus: Focus) -> Capture:
        [parts] = self.framing.encode([text])
        ids, notes = self.framing.join(parts), self.framing.cut_notes(parts)
        if not use.model.is_fitted:
            return replace(look_at_text(use.model, self.tokenizer, ids.tolist(), text, focus), notes=notes)
        focus.check_whole("n-grams")
        labels, words = self.config.shown_labels, self.tokenizer.tokens(range(self.tokenizer.vocab_size))
        if not text:
            return look_at_vocabulary(use.model, words, labels)
        answer = self.classify(use, Classify([text]))[0]
        title = f"{text} → {answer.label} ({answer.probability:.1%})"
        return replace(look_at_ngrams(use.model, words, labels, ids, title), notes=notes)
