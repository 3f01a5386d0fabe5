"""Language modelling: running text in, the next token of every place out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from regard.data.batches import Packing, cut, shuffled
from regard.data.config import DataConfig
from regard.data.report import Row, text_rows
from regard.data.shards import tokenise
from regard.data.streams import UNITS, PlainText, Stream, offset
from regard.errors import ConfigError
from regard.evaluation.metric import Metric
from regard.models.heads import LanguageModel
from regard.nn.layout import Ragged
from regard.tasks.setup import Setup
from regard.tasks.write import write
from regard.text.special import START

SHOWN_TOKENS = 8  # of a validation line that a sample goes on from


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    unit: str = "stream"  # lines, stream or text
    window: int = 256  # tokens learnt from at once, of a stream or a text
    carry: bool = False  # go on from the state of the window before: truncated back-propagation through time
    smoothing: float = 0.0
    shown: int = 2  # samples written at each validation
    sample_length: int = 60  # tokens of each
    metric: str = "loss"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ConfigError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}")
        if self.window < 1:
            raise ConfigError(f"window must be at least 1, got {self.window}")
        if self.carry and self.unit == "lines":
            raise ConfigError("lines are texts of their own: nothing is carried; set unit = 'stream' or carry = false")
        if not 0 <= self.smoothing < 1:
            raise ConfigError(f"smoothing is a share, from 0 up to, not including, 1; got {self.smoothing}")
        if self.metric != "loss":
            raise ConfigError(f"metric must be loss, got {self.metric!r}")


@dataclass(frozen=True)
class TextBatch:
    """Flat rows.  The model reads tokens and should write labels, the same one place further."""

    lines: list[str]
    tokens: Tensor  # N
    labels: Tensor  # N
    layout: Ragged
    begins: bool = True  # False: these windows go on where those of the batch before ended

    @property
    def n_targets(self) -> int:
        return self.layout.n_rows

    @property
    def n_tokens(self) -> int:
        return self.layout.n_rows

    def to(self, device: torch.device) -> "TextBatch":
        return replace(
            self,
            tokens=self.tokens.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            layout=self.layout.to(device),
        )


def make_batch(stream: Stream, windows: np.ndarray, begins: bool = True) -> TextBatch:
    """Windows (n, 2) of a stream.  A line that is a text of its own begins with <s>."""
    places = np.concatenate([np.arange(start, stop) for start, stop in windows])
    tokens, layout = stream.tokens[places], Ragged(windows[:, 1] - windows[:, 0])
    if stream.unit == "lines":
        tokens[layout.offsets[:-1].numpy()] = START
    lines = [stream.where(int(start) + 1) for start in windows[:, 0]]
    return TextBatch(lines, torch.from_numpy(tokens), torch.from_numpy(stream.tokens[places + 1]), layout, begins)


class Language:
    """The task as the training loop knows it (`regard.training.task`)."""

    roles: tuple[str, ...] = ("reader", "language")
    higher_is_better = False

    def __init__(self, config: LanguageConfig, train: Stream, valid: Stream | None, setup: Setup):
        self.config, self.train, self.valid = config, train, valid
        self.tokenizer, self.decoding, self.seed = setup.tokenizer, setup.decoding, setup.seed
        self.batch_tokens, self.order, self.metric = setup.data.batch_tokens, setup.data.order, config.metric
        self.state: Any = None  # carried from window to window
        self.packing = None
        if config.unit == "lines":
            self.packing = Packing(line_lengths(train), setup.data.batch_tokens, setup.data.order, setup.seed)

    @classmethod
    def make(cls, config: LanguageConfig, setup: Setup) -> Self:
        train, valid = read(setup.data)
        streams = [
            None if text is None else Stream(text, config.unit, setup.tokenizer, setup.cache) for text in (train, valid)
        ]
        assert streams[0] is not None
        return cls(config, streams[0], streams[1], setup)

    @staticmethod
    def texts(data: DataConfig) -> Iterable[str]:
        """What a tokenizer learns from."""
        return (line + "\n" for line in read(data)[0].lines)

    @staticmethod
    def build(config: LanguageConfig, reader: Any) -> LanguageModel:
        return LanguageModel(reader)

    # Batches.

    def n_batches(self, epoch: int) -> int:
        return len(self.packing.epoch(epoch)) if self.packing else len(self.plan(epoch))

    def batch(self, epoch: int, index: int) -> TextBatch:
        if self.packing:
            return make_batch(self.train, line_windows(self.train)[self.packing.epoch(epoch)[index]])
        return make_batch(self.train, self.plan(epoch)[index], begins=index == 0)

    def plan(self, epoch: int) -> list[np.ndarray]:
        """The windows of every batch of an epoch."""
        width, first = self.config.window, offset(self.config.window, self.seed, epoch)
        first = min(first, len(self.train) // 2)  # of a short text not too much is left out
        n = max(1, self.batch_tokens // width)
        if self.config.carry:
            return self.train.columns(min(n, len(self.train) - first), width, first)
        windows = self.train.windows(width, first)
        order = shuffled(len(windows), self.seed, epoch)
        return [windows[part] for part in cut(order, windows[:, 1] - windows[:, 0], self.batch_tokens)]

    def small_batch(self, n_tokens: int) -> TextBatch:
        width = min(self.config.window, n_tokens)
        return make_batch(self.train, self.train.windows(width)[: max(1, n_tokens // width)])

    def sequences(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """All tokens and the lengths of the texts that they make, for a model that counts."""
        if self.config.unit == "lines":
            batch = make_batch(self.train, line_windows(self.train))
            tokens = np.insert(batch.labels.numpy(), batch.layout.offsets[:-1].numpy(), START)
            yield tokens, batch.layout.lengths.numpy() + 1
        else:
            yield self.train.tokens, np.array([len(self.train.tokens)])

    # Loss.

    def loss(self, model: Any, batch: TextBatch) -> Tensor:
        if not self.config.carry:
            return model.nats(batch.tokens, batch.labels, batch.layout, self.config.smoothing)
        nats, self.state = model.carried_nats(
            batch.tokens, batch.labels, batch.layout, None if batch.begins else self.state, self.config.smoothing
        )
        return nats

    def plain_loss(self, model: Any, batch: TextBatch) -> Tensor:
        """The loss without smoothing: what learning by heart can bring to zero."""
        return model.nats(batch.tokens, batch.labels, batch.layout, 0.0)

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
        return figures(self.valid, total_nats(model, self.valid, self.config, self.batch_tokens))

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        """What the model writes after the first words of some validation lines."""
        if self.valid is None or not self.config.shown:
            return []
        lines = [line for line in self.valid.text.lines if line.strip()][: self.config.shown]
        prompts = [self.tokenizer.decode(self.tokenizer.encode(line)[:SHOWN_TOKENS]) for line in lines]
        few = replace(self.decoding, beam=1, n_best=1)
        found = write(model, self.tokenizer, prompts, self.config.unit, self.config.sample_length, few)
        return [(prompt, "", best.text) for prompt, (best,) in zip(prompts, found, strict=True)]

    @classmethod
    def measure(
        cls, model: Any, config: LanguageConfig, setup: Setup, files: tuple[str, ...]
    ) -> tuple[str, list[Metric]]:
        """The figures of test files (default: the recipe's, or else its validation text), and what they are of."""
        named = files or setup.data.test
        root, columns = "." if files else setup.data.root, setup.data.columns
        text = PlainText.read(named, root, columns) if named else read(setup.data)[1]
        if text is None:
            raise ConfigError("the recipe names no test files; give one: regard evaluate RUN FILE")
        stream = Stream(text, config.unit, setup.tokenizer, setup.cache)
        nats = total_nats(model, stream, config, setup.data.batch_tokens, n_columns=1)
        unknown = int((stream.lines.ids == setup.tokenizer.unknown_id).sum())
        how = "carried" if config.carry else "lines" if config.unit == "lines" else f"window:{config.window}"
        signature = f"n:{len(stream)}|tok:{setup.tokenizer.kind}|{how}|unknown:{unknown}"
        metrics = [Metric(name=name, value=value, signature=signature) for name, value in figures(stream, nats).items()]
        return ", ".join(named) or "the validation text", metrics

    # For people.

    def inspect(self, data: DataConfig) -> list[Row]:
        """What `regard doctor` says about every part of the data."""
        parts = {"train": self.train.text, "valid": None if self.valid is None else self.valid.text}
        parts["test"] = PlainText.read(data.test, data.root) if data.test else None
        known = set().union(*self.train.text.lines)
        return [
            row
            for name, text in parts.items()
            if text is not None
            for row in text_rows(name, text, tokenise(text.lines, self.tokenizer), self.tokenizer, known)
        ]

    def rows(self) -> list[tuple[str, str]]:
        rows = [("training text", describe(self.train))]
        if self.valid is not None:
            rows.append(("validation text", describe(self.valid)))
        return rows + [("decided", row) for row in self.train.text.notes.rows()]

    def purpose(self) -> str:
        return "learnt to write text, one token after the other"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f'regard generate {folder} "Once upon"', f"regard evaluate {folder}", f"regard score {folder} FILE")


def read(data: DataConfig) -> tuple[PlainText, PlainText | None]:
    train = PlainText.read(data.train, data.root, data.columns)
    if data.valid:
        return train, PlainText.read(data.valid, data.root, data.columns)
    return train.divide(data.valid_share) if data.valid_share else (train, None)


def describe(stream: Stream) -> str:
    return f"{len(stream):,} tokens in {len(stream.text.lines):,} lines, {stream.text.n_bytes:,} bytes"


def line_windows(stream: Stream) -> np.ndarray:
    """(lines, 2): each line with the end before it, which stands for its <s>, and its own end."""
    return np.stack([np.concatenate([[0], stream.ends[:-1]]), stream.ends], 1)


def line_lengths(stream: Stream) -> np.ndarray:
    windows = line_windows(stream)
    return windows[:, 1] - windows[:, 0]


@torch.no_grad()
def total_nats(model: Any, stream: Stream, config: LanguageConfig, batch_tokens: int, n_columns: int = 10) -> float:
    """-log P of the whole text.  Windows do not overlap; where states are carried, the text is read in columns."""
    device = model.device
    total, state = 0.0, None
    if config.carry:
        for i, windows in enumerate(stream.columns(min(n_columns, len(stream)), config.window)):
            batch = make_batch(stream, windows, begins=i == 0).to(device)
            nats, state = model.carried_nats(batch.tokens, batch.labels, batch.layout, state, 0.0)
            total += float(nats)
        rest = len(stream) % min(n_columns, len(stream))
        return total * len(stream) / (len(stream) - rest)  # the few tokens outside of the columns count as the others
    windows = line_windows(stream) if config.unit == "lines" else stream.windows(config.window)
    for part in cut(np.arange(len(windows)), windows[:, 1] - windows[:, 0], batch_tokens):
        batch = make_batch(stream, windows[part]).to(device)
        total += float(model.nats(batch.tokens, batch.labels, batch.layout, 0.0))
    return total


def figures(stream: Stream, nats: float) -> dict[str, float]:
    return {
        "loss": nats / len(stream),
        "perplexity": math.exp(min(nats / len(stream), 700)),
        "word_perplexity": math.exp(min(nats / stream.text.n_words, 700)),
        "bits_per_byte": nats / math.log(2) / stream.text.n_bytes,
    }
