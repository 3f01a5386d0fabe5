"""Language modelling: running text in, the next token of every place out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, not_negative, one_of, share
from regard.data.batching.packing import Packing, cut, shuffled
from regard.data.batching.shards import tokenise
from regard.data.batching.streams import UNITS, PlainText, Stream, offset, read_parts
from regard.data.config import DataConfig
from regard.data.report import Row, text_rows
from regard.errors import ConfigError
from regard.evaluation.language import perplexities
from regard.evaluation.metric import Metric
from regard.models.heads import LanguageModel
from regard.tasks.language.batches import TextBatch, accuracy, carried_nats, make_batch, total_nats
from regard.tasks.language.use import write
from regard.tasks.setup import Setup
from regard.text.tokenizer import Tokenizer

SHOWN_TOKENS = 8  # of a validation line that a sample goes on from
BLANKS = 3  # sets these draws apart from those that shuffle
N_COLUMNS = 10  # in which a validation text is read where states are carried


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    unit: str = "stream"  # lines, stream or text
    window: int = 256  # the most tokens learnt from at once
    context: int = 0  # tokens at the beginning of a validated window that are only read: the one before counted them
    blank: float = 0.0  # the chance that a token, in training, is read as <unk> (Xie et al. 2017)
    carry: bool = False  # go on from the state of the window before: truncated back-propagation through time
    smoothing: float = 0.0
    shown: int = 2  # samples written at each validation
    sample_length: int = 60  # tokens of each
    metric: str = "loss"

    def __post_init__(self) -> None:
        one_of(self, UNITS, "unit")
        at_least(self, 1, "window", "sample_length")
        not_negative(self, "shown", "context")
        share(self, "blank", "smoothing")
        one_of(self, ("loss",), "metric")
        if self.context >= self.window or (self.context and (self.carry or self.unit == "lines")):
            raise ConfigError(
                f"context must be below window = {self.window}, and 0 for lines and where states are carried; "
                f"got {self.context}"
            )
        if self.carry and self.unit == "lines":
            raise ConfigError(
                "with unit = 'lines' each line is a text of its own and nothing is carried: "
                "set unit = 'stream' or carry = false"
            )


class Language:
    """The task as the training loop knows it (`regard.training.task`)."""

    roles: tuple[str, ...] = ("reader", "language")
    higher_is_better = False

    def __init__(self, config: LanguageConfig, train: Stream, valid: Stream | None, setup: Setup):
        setup.expect_one_cut("running text")
        self.config, self.train, self.valid = config, train, valid
        self.tokenizer, self.decoding, self.seed = setup.tokenizer, setup.decoding, setup.seed
        self.batch_tokens, self.metric = setup.data.batch_tokens, config.metric
        self.state: Any = None  # carried from window to window
        self.latest: tuple[int, list[np.ndarray]] = (-1, [])  # an epoch and its windows
        self.order = setup.data.order

    @classmethod
    def make(cls, config: LanguageConfig, setup: Setup) -> Self:
        parts = read_parts(setup.data, config.unit)
        train = Stream(parts.train, config.unit, setup.tokenizer, setup.cache)
        valid = None if parts.valid is None else Stream(parts.valid, config.unit, setup.tokenizer, setup.cache)
        return cls(config, train, valid, setup)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        return (line + "\n" for line in read_parts(data, "text").train.lines)

    @staticmethod
    def build(config: LanguageConfig, reader: Any) -> LanguageModel:
        if config.carry and not hasattr(reader, "carry"):
            raise ConfigError(
                "carry = true needs a model whose state goes on, such as a recurrent one; set it to false"
            )
        check_window(config.window, reader)
        return LanguageModel(reader)

    # Batches.

    def n_batches(self, epoch: int) -> int:
        return len(self.plan(epoch))

    def batch(self, epoch: int, index: int) -> TextBatch:
        batch = make_batch(self.train, self.plan(epoch)[index], begins=index == 0)
        return self.blanked(batch, epoch, index) if self.config.blank else batch

    def blanked(self, batch: TextBatch, epoch: int, index: int) -> TextBatch:
        """With some of what is read unknown, by (seed, epoch, index) alone; what is written stays."""
        drawn = np.random.PCG64([self.seed, epoch, BLANKS, index]).random_raw(len(batch.tokens))
        hidden = torch.from_numpy(drawn < int(self.config.blank * 2**64))
        return replace(batch, tokens=batch.tokens.masked_fill(hidden, self.tokenizer.unknown_id))

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The windows of every batch of an epoch."""
        latest = self.latest  # looked at once: another thread may be an epoch ahead
        if latest[0] != epoch:  # the loop asks for one batch after the other of the same epoch
            plan = self.plan_lines if self.config.unit == "lines" else self.plan_text
            latest = self.latest = (epoch, plan(epoch))
        return latest[1]

    def plan_lines(self, epoch: int) -> list[np.ndarray]:
        windows = self.train.line_windows(self.config.window)
        packing = Packing(windows[:, 1] - windows[:, 0], self.batch_tokens, self.order, self.seed)
        return [windows[part] for part in packing.epoch(epoch)]

    def plan_text(self, epoch: int) -> list[np.ndarray]:
        width, first = self.config.window, offset(self.config.window, self.seed, epoch)
        first = min(first, len(self.train) // 2)  # of a short text not too much is left out
        if self.config.carry:
            n = max(1, self.batch_tokens // width)
            return self.train.columns(min(n, len(self.train) - first), width, first)
        windows = self.train.windows(width, first)
        order = shuffled(len(windows), self.seed, epoch)
        return [windows[part] for part in cut(order, windows[:, 1] - windows[:, 0], self.batch_tokens)]

    def small_batch(self, n_tokens: int) -> TextBatch:
        width = min(self.config.window, n_tokens)
        windows = self.train.all_windows(width)
        return make_batch(self.train, windows[cut(np.arange(len(windows)), windows[:, 1] - windows[:, 0], n_tokens)[0]])

    def sequences(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """All tokens and the lengths of the texts that they make, for a model that counts."""
        if self.config.unit == "lines":
            batch = make_batch(self.train, self.train.line_windows(len(self.train)))
            tokens = np.insert(batch.labels.numpy(), batch.layout.offsets[:-1].numpy(), self.train.start_id)
            yield tokens, batch.layout.lengths.numpy() + 1
        else:
            yield self.train.tokens, np.array([len(self.train.tokens)])

    # Loss.

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        if not self.config.carry:
            nats: Tensor = model.nats(batch.tokens, batch.labels, batch.layout, self.config.smoothing)
            return nats
        nats, self.state = model.carried_nats(
            batch.tokens, batch.labels, batch.layout, None if batch.begins else self.state, self.config.smoothing
        )
        return nats

    def plain_loss(self, model: Any, batch: TextBatch) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        nats: Tensor = model.nats(batch.tokens, batch.labels, batch.layout, 0.0)
        return nats

    def tensors(self) -> dict[str, Tensor]:
        """What is carried from batch to batch, for a checkpoint."""
        return {} if self.state is None else self.state.tensors()

    def restore(self, tensors: dict[str, Tensor], model: Any) -> None:
        self.state = model.reader.state_of(tensors) if tensors else None

    # Validation.

    def validate(self, model: Any) -> dict[str, float]:
        """Nats a token, and what they mean: perplexity, and bits for each byte of the text."""
        if self.valid is None:
            return {}
        return measured(model, self.valid, self.config, self.batch_tokens, N_COLUMNS)

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        """What the model writes after the first words of some validation lines."""
        if self.valid is None or not self.config.shown:
            return []
        lines = [line for line in self.valid.text.lines if line.strip()][: self.config.shown]
        prompts = [self.tokenizer.decode(self.tokenizer.encode(line)[:SHOWN_TOKENS]) for line in lines]
        few = replace(self.decoding, beam=1, n_best=1)
        length = min(self.config.sample_length, model.config.max_length)
        found = write(model, self.tokenizer, prompts, self.config.unit, length, few)
        return [(prompt, "", best.text) for prompt, (best,) in zip(prompts, found, strict=True)]

    @classmethod
    def measure(
        cls, model: Any, config: LanguageConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """The figures of test files (default: the recipe's, or else its validation text), and what they are of."""
        what, text = evaluated_text(setup.data, config.unit, files)
        stream = Stream(text, config.unit, setup.tokenizer, setup.cache)
        values = measured(model, stream, config, setup.data.batch_tokens, n_columns=1)
        if not config.carry:
            values["accuracy"] = accuracy(model, stream, config.window, setup.data.batch_tokens, config.context)
        unknown = int((stream.lines.ids == setup.tokenizer.unknown_id).sum())
        how = "carried" if config.carry else f"window:{config.window}"
        how += f"|context:{config.context}" if config.context else ""
        signature = f"n:{len(stream)}|tok:{setup.tokenizer.kind}|unit:{config.unit}|{how}|unknown:{unknown}"
        return what, [Metric(name=name, value=value, signature=signature) for name, value in values.items()]

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        valid = None if self.valid is None else self.valid.text
        return inspected(self.train.text, valid, test_text(data, self.config.unit), self.tokenizer)

    def rows(self) -> list[tuple[str, str]]:
        rows = [("training text", describe(self.train))]
        if self.valid is not None:
            rows.append(("validation text", describe(self.valid)))
        return rows + [("decided", row) for row in self.train.text.notes.rows()]

    def purpose(self) -> str:
        return "learnt to write text, one token after the other"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f'regard generate {folder} "Once upon"', f"regard evaluate {folder}", f"regard score {folder} FILE")


def describe(stream: Stream) -> str:
    return f"{len(stream):,} tokens in {len(stream.text.lines):,} lines, {stream.text.n_bytes:,} bytes"


def check_window(window: int, reader: Any) -> None:
    if window > reader.max_length:
        raise ConfigError(
            f"a window of {window} tokens does not fit model.max_length = {reader.max_length}; "
            "lower task.window or raise model.max_length"
        )


def inspected(train: PlainText, valid: PlainText | None, test: PlainText | None, tokenizer: Tokenizer) -> list[Row]:
    """What `regard doctor` says about running text."""
    known = set().union(*train.lines)
    return [
        row
        for name, text in (("train", train), ("valid", valid), ("test", test))
        if text is not None
        for row in text_rows(name, text, tokenise(text.lines, tokenizer), tokenizer, known)
    ]


def test_text(data: DataConfig, unit: str) -> PlainText | None:
    """The recipe's: its test files, or what `test_share` kept back."""
    return PlainText.read(data.test, data.root, data.columns) if data.test else read_parts(data, unit).test


def evaluated_text(data: DataConfig, unit: str, files: tuple[str, ...]) -> tuple[str, PlainText]:
    """What is evaluated, in words, and its text."""
    if files:
        return ", ".join(files), PlainText.read(files, ".", data.columns)
    test = test_text(data, unit)
    if test is not None:
        return ", ".join(data.test) or f"the last {data.test_share:.4g} of the text", test
    valid = read_parts(data, unit).valid
    if valid is None:
        raise ConfigError("the recipe names no test files; give one: regard evaluate RUN FILE")
    return "the validation text", valid


def measured(model: Any, stream: Stream, config: LanguageConfig, batch_tokens: int, n_columns: int) -> dict[str, float]:
    """The figures of a whole text, read as in training: in windows, or with the state carried on."""
    if config.carry:
        nats = carried_nats(model, stream, config.window, n_columns)
    else:
        nats = total_nats(model, stream, config.window, batch_tokens, config.context)
    return perplexities(nats, len(stream), stream.text.n_words, stream.text.n_bytes)
