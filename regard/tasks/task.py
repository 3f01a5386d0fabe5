"""A task: all that the rest of regard asks about what is learned.  Nobody asks for its name."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.computed_order import Packing, PooledEpochs
from regard.data.config import DataConfig
from regard.data.files.recognizing import nothing
from regard.data.files.splits import Parts
from regard.data.report import Row
from regard.errors import ConfigError
from regard.evaluation.measured import Measured, Metric, Versus, measured
from regard.models.interface import Model
from regard.nn.layout import Ragged
from regard.processes import spread
from regard.tasks.embedding import embed_texts
from regard.tasks.exchange import Exchange
from regard.tasks.framing import Frame, MarkedTexts
from regard.tasks.request import Embed, Listed, texts_of
from regard.tasks.searching import text_verbs
from regard.tasks.setup import B, M, P, R, Sample, Setup, TaskConfig, Use, Verbs
from regard.tasks.sizing import no_draft
from regard.tasks.wire import TEXT, Wire
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, check_one_text, look_at_long_text


class Task(ABC, Generic[R, P, M, B]):
    """Made of its settings and a tokenizer it can be used; with data (`make`) it can be learned.

    Every draw of chance is a function of (seed, epoch, index), so a place in the data is two numbers.
    """

    settings: ClassVar[type[TaskConfig]]
    roles: ClassVar[tuple[str, ...]] = ("reader",)  # of the architectures that can do it
    compared_as: ClassVar[str] = ""  # runs whose tasks say the same word can be compared on one test; "": none can
    tests_on_validation: ClassVar[bool] = True  # where a recipe names no test: its validation part is one
    has_outputs: ClassVar[bool] = False  # measuring it gives an output for each line of the test
    cut_once: ClassVar[str] = ""  # what cannot be cut into tokens in several ways (BPE-dropout); "": all can
    loss_unit: ClassVar[str] = "nats"  # of one target
    needs_weights: ClassVar[str] = ""  # why it cannot begin with a new model; "": it can
    reads_text: ClassVar[bool] = True  # False: it needs no tokenizer
    takes_files: ClassVar[bool] = False  # what is asked about are files, such as images, and not lines of text
    reads_marks: ClassVar[bool] = False  # reads <s> text </s>, in which [MASK] and [SEP] mean tokens
    answer_names: ClassVar[tuple[str, ...]] = ()  # of a task on conversations: what follows a prompt in its data
    commands: ClassVar[tuple[str, ...]]  # that use a RUN
    recognize = staticmethod(nothing)  # whether files look like data of this task
    draft = staticmethod(no_draft)  # a recipe for such data, from small to large
    listed: Listed = staticmethod(texts_of)  # what a caller gives in Python, checked
    wire: ClassVar[Wire] = TEXT  # the same over HTTP
    exchange: ClassVar[Exchange | None] = None  # what other tools call it; None: they have no such thing

    config: TaskConfig  # an instance of `settings`; every task says which
    frame: Frame  # only of a task that turns a source into a target: the tokens around both
    train: P
    valid: P | None = None
    step = 0  # of the training, counted from 1: the learner says so before each
    shards = range(1)  # the virtual ones that this process learns from: the learner says so

    def __init__(self, config: TaskConfig, setup: Setup):
        """Reads no file."""
        if self.cut_once and setup.dropout:
            raise ConfigError(f"{self.cut_once} is cut in one way: set tokenizer.dropout = 0, not {setup.dropout:g}")
        self.config, self.setup, self.tokenizer = config, setup, setup.tokenizer
        self.batch_tokens, self.max_length = setup.data.budget, setup.data.max_length

    @classmethod
    def make(cls, config: TaskConfig, setup: Setup) -> Self:
        """With training and validation data; `config` then has what these settle, such as labels."""
        task = cls(config, setup)
        task.read(cls.read_parts(config, setup.data))
        return task

    def read(self, parts: Parts[R]) -> None:
        self.config = self.settle(parts.train)
        self.train = self.part(parts.train, to_learn=True)
        self.valid = None if parts.valid is None else self.part(parts.valid, to_learn=False)

    # Files.

    @classmethod
    @abstractmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[R]:
        """Training, validation and test data as the files have them."""

    @classmethod
    @abstractmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""

    def settle(self, train: R) -> TaskConfig:
        """The settings, with what the training data say where they leave it open."""
        return self.config

    @abstractmethod
    def part(self, raw: R, to_learn: bool) -> P:
        """As tokens.  What is learned from has no example that teaches nothing; what is measured keeps all."""

    def test(self, files: Sequence[str] = ()) -> tuple[str, R]:
        """What is evaluated, in words, and itself: the given files, the recipe's test part, or its validation part."""
        return self.read_parts(self.config, self.setup.data).to_evaluate(tuple(files), self.tests_on_validation)

    def parts(self) -> dict[str, P]:  # training, validation and test data, as far as there are any
        parts = {"train": self.train} | ({} if self.valid is None else {"valid": self.valid})
        if self.setup.data.test or self.setup.data.test_share:
            parts["test"] = self.part(self.test()[1], to_learn=False)
        return parts

    # What a model reads.

    @cached_property
    def marked(self) -> MarkedTexts:
        return MarkedTexts(self.tokenizer)

    def reading(self, text: str) -> str:
        """A text as the tokenizer is given it."""
        return text

    def encode(self, text: str) -> list[int]:
        """A text as the model reads it, for training, use, looking, embedding and export."""
        return self.marked.encode(text) if self.reads_marks else self.tokenizer.encode(text)

    # Batches.

    def packing(self, part: P, budget: int, order: str, seed: int) -> Packing | PooledEpochs:
        return Packing(part.lengths, budget, order, seed)

    def plan(self, epoch: int) -> Sequence[np.ndarray]:
        """What goes into each batch of an epoch."""
        return self.epochs.epoch(epoch)

    @cached_property
    def epochs(self) -> Packing | PooledEpochs:
        return self.packing(self.train, self.batch_tokens, self.setup.data.order, self.setup.seed)

    def n_batches(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def batch(self, epoch: int, index: int) -> B:
        return self.collate(self.train, self.plan(epoch)[index], epoch)

    @abstractmethod
    def collate(self, part: P, chosen: np.ndarray, epoch: int | None = None) -> B:
        """A batch of these examples, as an epoch of training has them; None: as they are, without chance."""

    def small_batch(self, n_tokens: int) -> B:
        """A few training examples, for a quick look at how they are learned."""
        budget = min(n_tokens, self.batch_tokens)
        return self.collate(self.train, self.packing(self.train, budget, "random", 0).epoch(0)[0])

    def documents(self) -> Iterator[tuple[Tensor, Ragged, Tensor]]:
        """All training texts with their labels, for a model that chooses its features before the first step."""
        raise ConfigError("this model is fitted to labeled texts, and this task has none")

    def sequences(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """All tokens and the lengths of the texts that they make, for a model that counts."""
        raise ConfigError("this model is trained by counting tokens, and this task has no plain text")

    # Learning.

    @abstractmethod
    def nats(self, model: M, batch: B, smoothing: float) -> Tensor:
        """The sum over the targets: the loop divides by what it accumulated.  Settings without smoothing give 0."""

    def loss(self, model: M, batch: B) -> Tensor:
        """What training brings down."""
        return self.nats(model, batch, self.config.smoothing)

    def plain_loss(self, model: M, batch: B) -> Tensor:
        """Without smoothing: what learning by heart can bring to zero."""
        return self.nats(model, batch, 0.0)

    def consult(self, judge: Model, config: TaskConfig) -> None:
        """Take the model of `config.judging_run`, and what it was trained for, before anything is learned."""
        raise ConfigError("nothing that this task writes is judged")

    def tensors(self) -> dict[str, Tensor]:
        """What is carried from batch to batch (for most, nothing), so that a checkpoint holds it."""
        return {}

    def restore(self, tensors: dict[str, Tensor], model: M) -> None:
        """Take up what `tensors` gave; {} at the beginning."""
        assert not tensors, "nothing was carried from batch to batch"

    def predictions(self, model: M, batch: B) -> tuple[Tensor, Tensor, Tensor]:
        """Of tasks with a teacher or R-Drop: the logits of all targets, their labels, and all hidden rows."""
        raise TypeError(f"{type(self).__name__} has no predictions that could be compared")

    # Validation and measuring.

    @property
    def higher_is_better(self) -> bool:
        return self.config.metric != "loss"

    def validate(self, model: M) -> dict[str, float]:
        return {} if self.valid is None else self.figures(model, self.valid)

    @abstractmethod
    def figures(self, model: M, part: P) -> dict[str, float]:
        """What is measured of a part of the data, by name."""

    def measure(self, use: Use[M], files: Sequence[str] = ()) -> Measured:
        """The figures of test files (default: the recipe's, or else its validation part), and what they are of."""
        of, raw = self.test(files)
        part = self.part(raw, to_learn=False)
        return measured(of, self.metrics(use, part), list(part.notes.rows()))

    def metrics(self, use: Use[M], part: P) -> list[Metric]:
        signature, values = self.signature(part), self.test_figures(use, part)
        return [Metric(name=name, value=value, signature=signature) for name, value in values.items()]

    def test_figures(self, use: Use[M], part: P) -> dict[str, float]:
        """Those of a validation, and what would take too long there."""
        return self.figures(use.model, part)

    def signature(self, part: P) -> str:
        """All settings that the figures of a part depend on."""
        return f"tok:{self.tokenizer.kind}"

    def versus(self, use: Use[M], other: "AnyTask", its: Use, files: Sequence[str]) -> Versus:
        """This run and one of a like task, on one test."""
        raise ConfigError("runs of this task are evaluated one at a time")

    @torch.no_grad()
    def mean_loss(self, model: M, part: P, groups: Iterable[np.ndarray]) -> float:
        """Nats for each target of these batches, without smoothing."""

        def figures(chosen: np.ndarray) -> Tensor:
            batch = self.collate(part, chosen).to(model.device)
            return torch.tensor([float(self.plain_loss(model, batch)), batch.n_targets], dtype=torch.float64)

        rows = [row.tolist() for row in spread(list(groups), figures)]
        return sum(nats for nats, _ in rows) / sum(n_targets for _, n_targets in rows)

    def samples(self, model: M) -> list[Sample]:
        """What the model makes of some validation examples."""
        return [] if self.valid is None or not self.config.shown else self.first_samples(model, self.valid)

    def first_samples(self, model: M, valid: P) -> list[Sample]:
        """Of the first `shown` of them; empty: nothing that a person would read."""
        return []

    def expected(self, model: M) -> dict[str, float]:
        """What a run keeps of its validation, so that its verbs can note input that is unlike it; {}: nothing."""
        return {}

    # For people, and use.

    def inspect(self) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = self.parts().items()
        described = [Row(name, "examples", part.describe()) for name, part in parts]
        return described + [Row(name, "decided", row) for name, part in parts for row in part.notes.rows()]

    def draw_examples(self, path: Path) -> None:
        """A picture of some training examples, as epochs of training change them."""
        raise ConfigError("this task has no picture of its examples; those that learn from images have")

    def rows(self) -> list[tuple[str, str]]:
        """What is learned from, for the screen and the card."""
        parts = [("training data", self.train), ("validation data", self.valid)]
        rows = [(name, part.describe()) for name, part in parts if part is not None] + self.settled_rows()
        return rows + [("decided", row) for _, part in parts if part is not None for row in part.notes.rows()]

    def settled_rows(self) -> list[tuple[str, str]]:
        """What the data settled, such as labels."""
        return []

    @property
    @abstractmethod
    def purpose(self) -> str:
        """ "translates English into French": what a run of it does."""

    def usage(self, folder: Path) -> tuple[str, ...]:
        """Commands that use a run."""
        return tuple(command.replace("RUN", str(folder)) for command in self.commands)

    @property
    def verbs(self) -> Verbs:
        """What can be asked of a run, by the names of `tasks.verbs`, and what answers."""
        return {"embed": self.embed, **(text_verbs(self.tokenizer, self.embed) if self.reads_text else {})}

    def embed(self, use: Use[M], ask: Embed) -> np.ndarray:
        return embed_texts(use.model, ask.lines, self.encode, ask.pooling, ask.layer)

    def look(self, use: Use[M], source: str, target: str | None, focus: Focus) -> Capture:
        """What the model attends to while it reads a text and, where it writes one, a target (None: its own)."""
        check_one_text(source, target)
        return look_at_long_text(use.model, self.tokenizer, self.encode, source, focus)


BatchTask = Task[Any, Any, Any, B]  # whatever it makes its batches of
AnyTask = BatchTask[Any]
