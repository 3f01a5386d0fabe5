"""What all tasks on running text have in common: the text as one stream of tokens, read in windows."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.checks import at_least, expect, one_of
from regard.data.batching.noise import Draws
from regard.data.batching.shards import tokenize
from regard.data.batching.streams import UNITS, LargeStream, Stream, in_batches, offset
from regard.data.config import DataConfig
from regard.data.files.plain import PlainText, text_parts
from regard.data.files.splits import Parts
from regard.data.report import Row, sampled, text_rows
from regard.errors import ConfigError
from regard.evaluation.measured import perplexity
from regard.models.interface import Reader
from regard.tasks.setup import B, M, TaskConfig
from regard.tasks.task import Task
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class StreamConfig(TaskConfig):
    """What every task on running text may set."""

    shortest_window: ClassVar[int] = 1

    # what a text is: `lines`, each line a text of its own, from <s> to </s>; `stream`, all lines in a row, each closed
    # by </s>; `text`, the file as it is, with its line ends among the characters
    unit: str = "stream"
    # the most tokens learned from at once, at most model.max_length (denoising: data.max_length); a longer line is cut
    window: int = 256

    def __post_init__(self) -> None:
        one_of(self, UNITS, "unit")
        at_least(self, self.shortest_window, "window")
        one_of(self, ("loss",), "metric")

    @property
    def is_endless(self) -> bool:
        return self.unit == "text"


class StreamTask(Task[PlainText, Stream, M, B]):
    """A batch is made of windows: (n, 2) places where they begin and end."""

    cut_once = "running text"
    config: StreamConfig

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[PlainText]:
        return text_parts(data, expect(config, StreamConfig).unit)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return (line + "\n" for line in text_parts(data, "text").train.lines)

    def part(self, raw: PlainText, to_learn: bool) -> Stream:
        data, arguments = self.setup.data, (raw, self.config.unit, self.tokenizer, self.setup.cache)
        is_large = to_learn and data.are_many(len(raw.lines), raw.digest)
        return LargeStream(*arguments, data.n_processes) if is_large else Stream(*arguments)

    # Batches.

    latest: tuple[int, Sequence[np.ndarray]] = (-1, [])  # an epoch and its windows

    def plan(self, epoch: int) -> Sequence[np.ndarray]:
        latest = self.latest  # looked at once: another thread may be an epoch ahead
        if latest[0] != epoch:  # the loop asks for one batch after the other of the same epoch
            plan = self.plan_lines if self.config.unit == "lines" else self.plan_text
            latest = self.latest = (epoch, plan(epoch))
        return latest[1]

    def plan_lines(self, epoch: int) -> Sequence[np.ndarray]:
        order, seed = self.setup.data.order, self.setup.seed
        return self.train.line_batches(self.config.window, self.batch_tokens, order, seed, epoch)

    def plan_text(self, epoch: int) -> Sequence[np.ndarray]:
        first = self.first_place(epoch)
        return self.train.text_batches(self.config.window, first, self.batch_tokens, self.setup.seed, epoch)

    def first_place(self, epoch: int) -> int:
        """Where the first window of an epoch begins; of a short text not too much is left out."""
        return min(offset(self.config.window, self.setup.seed, epoch), len(self.train) // 2)

    def small_batch(self, n_tokens: int) -> B:
        return self.collate(self.train, self.train.first_batch(min(self.config.window, n_tokens), n_tokens))

    # Measuring, and for people.

    def signature(self, part: Stream) -> str:
        return f"n:{len(part)}|tok:{self.tokenizer.kind}|unit:{self.config.unit}|{self.how(part)}"

    def how(self, part: Stream) -> str:
        """How it is read: in windows, of which so many tokens are unknown."""
        return f"window:{self.config.window}|unknown:{int((part.lines.ids == self.tokenizer.unknown_id).sum())}"

    def inspect(self) -> list[Row]:
        return inspect_texts({name: part.for_report() for name, part in self.parts().items()}, self.tokenizer)


@dataclass(frozen=True, kw_only=True)
class NoisedConfig(StreamConfig):
    """What every task on text that chance changes may set."""

    shortest_window = 8  # there must be something left to go by

    unit: str = "text"


class NoisedTask(StreamTask[M, B]):
    """What is made of a window depends on (seed, epoch, window) alone."""

    @abstractmethod
    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> B:
        """A batch of these windows' tokens, each changed by its own draws."""

    def collate(self, part: Stream, chosen: np.ndarray, epoch: int | None = None) -> B:
        """Validation draws the same every time."""
        texts = [part.tokens[start + 1 : stop + 1] for start, stop in chosen]
        lines = [part.where(int(start) + 1) for start in chosen[:, 0]]
        number = 0 if epoch is None else epoch + 1
        return self.draw(texts, lines, [Draws(self.setup.seed, number, int(start)) for start in chosen[:, 0]])

    def figures(self, model: M, part: Stream) -> dict[str, float]:
        """Nats for each target, and their exponential."""
        loss = self.mean_loss(model, part, all_batches(part, self.config.window, self.batch_tokens))
        return {"loss": loss, "perplexity": perplexity(loss)}


def all_batches(stream: Stream, width: int, n_tokens: int) -> list[np.ndarray]:
    """The windows of a whole text, in order."""
    windows = stream.all_windows(width)
    return in_batches(windows, np.arange(len(windows)), n_tokens)


def check_window(window: int, reader: Reader) -> None:
    if window > reader.max_length:
        raise ConfigError(
            f"a window of {window} tokens does not fit model.max_length = {reader.max_length}; "
            "lower task.window or raise model.max_length"
        )


def inspect_texts(texts: dict[str, tuple[PlainText, int]], tokenizer: Tokenizer) -> list[Row]:
    """What `regard doctor` says about running text: of each part the lines, or some of them, and how many there are."""
    known = set().union(*texts["train"][0].lines)
    rows = []
    for name, (text, n_all) in texts.items():
        if n_all > len(text.lines):
            rows.append(Row(name, "lines in all", sampled(len(text.lines), n_all)))
        rows += text_rows(name, text, tokenize(text.lines, tokenizer), tokenizer, known)
    return rows
