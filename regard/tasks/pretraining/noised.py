"""Running text that chance changes before it is learnt from: what denoising and permutation share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, one_of
from regard.data.batching.noise import Draws
from regard.data.batching.packing import cut
from regard.data.batching.streams import UNITS, Stream
from regard.evaluation.language import perplexity
from regard.evaluation.metric import Metric
from regard.tasks.language.task import Language, evaluated_text
from regard.tasks.setup import Setup

SMALLEST = 8  # tokens of a window: there must be something left to go by


@dataclass(frozen=True, kw_only=True)
class DrawnConfig:
    unit: str = "text"  # lines, stream or text
    window: int = 256  # tokens learnt from at once
    metric: str = "loss"

    # What `Language` also asks, and here is no choice.
    carry: ClassVar[bool] = False  # what chance hides is no state to go on from

    def __post_init__(self) -> None:
        one_of(self, UNITS, "unit")
        at_least(self, SMALLEST, "window")
        one_of(self, ("loss",), "metric")


class Drawn(Language, ABC):
    """The text and the windows of `Language`; what is made of a window depends on (seed, epoch, window) alone."""

    config: Any

    @abstractmethod
    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> Any:
        """A batch of these windows' tokens, each changed by its own draws."""

    @abstractmethod
    def nats(self, model: Any, batch: Any) -> Tensor:
        """-log P of all targets of a batch."""

    def made_of(self, stream: Stream, windows: np.ndarray, epoch: int) -> Any:
        """`epoch` -1 is validation's, which draws the same every time."""
        texts = [stream.tokens[start + 1 : stop + 1] for start, stop in windows]
        lines = [stream.where(int(start) + 1) for start in windows[:, 0]]
        return self.draw(texts, lines, [Draws(self.seed, epoch + 1, int(start)) for start in windows[:, 0]])

    def batch(self, epoch: int, index: int) -> Any:
        return self.made_of(self.train, self.plan(epoch)[index], epoch)

    def small_batch(self, n_tokens: int) -> Any:
        return self.made_of(self.train, self.parts(self.train, min(self.config.window, n_tokens), n_tokens)[0], -1)

    def parts(self, stream: Stream, width: int, n_tokens: int) -> list[np.ndarray]:
        """The windows of a whole text, in batches."""
        windows = stream.all_windows(width)
        return [windows[part] for part in cut(np.arange(len(windows)), windows[:, 1] - windows[:, 0], n_tokens)]

    def plain_loss(self, model: Any, batch: Any) -> Tensor:
        return self.nats(model, batch)

    def loss(self, model: Any, batch: Any) -> Tensor:
        return self.nats(model, batch)

    def validate(self, model: Any) -> dict[str, float]:
        """Nats for each target, and their exponential."""
        return {} if self.valid is None else self.figures(model, self.valid)

    @torch.no_grad()
    def figures(self, model: Any, stream: Stream) -> dict[str, float]:
        device = model.embedding.weight.device
        total, count = 0.0, 0
        for windows in self.parts(stream, self.config.window, self.batch_tokens):
            batch = self.made_of(stream, windows, -1).to(device)
            total += float(self.nats(model, batch))
            count += batch.n_targets
        return {"loss": total / count, "perplexity": perplexity(total / count)}

    @classmethod
    def measure(cls, model: Any, config: Any, setup: Setup, files: tuple[str, ...]) -> tuple[str, list[Metric]]:
        """The figures of test files (default: the recipe's, or else its validation text), and what they are of."""
        what, text = evaluated_text(setup.data, config.unit, files)
        stream = Stream(text, config.unit, setup.tokenizer, setup.cache)
        values = cls(config, stream, None, setup).figures(model, stream)
        signature = f"n:{len(stream)}|tok:{setup.tokenizer.kind}|unit:{config.unit}|{cls.signature(config)}"
        return what, [Metric(name=name, value=value, signature=signature) for name, value in values.items()]

    @staticmethod
    @abstractmethod
    def signature(config: Any) -> str:
        """How the targets were chosen."""
