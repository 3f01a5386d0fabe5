"""Tasks that read a source and write a target, each in its frame; and a translator watched while it does both."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.checks import at_least, at_most
from regard.errors import RegardError
from regard.models.interface import Model, Translator
from regard.nn.loss import cross_entropy
from regard.nn.watch import Seen, watch
from regard.tasks.framing import Frame
from regard.tasks.setup import B, M, P, R, Setup, TaskConfig, Use
from regard.tasks.task import Task
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.text.sentences import texts_that_fit
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, capture, check_length, look_in_parts


def pair_loss(model: Translator, batch: PairBatch, smoothing: float) -> Tensor:
    """The summed cross-entropy of the labels, in nats."""
    hidden = model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return cross_entropy(hidden, model.output_table, batch.labels, smoothing, model.output_bias)


@dataclass(frozen=True, kw_only=True)
class FramedConfig(TaskConfig, ABC):
    @abstractmethod
    def frame(self, tokenizer: Tokenizer) -> Frame:
        """The tokens around a source and a target."""


@dataclass(frozen=True, kw_only=True)
class SourceTargetConfig(FramedConfig):
    """Of an encoder-decoder: a source is read as x1 .. xn </s>, a target written as <s> y1 .. yn </s>."""

    source_start: int = -1  # the id of a token that every source begins with (an imported BART has one); -1: none
    target_start: int = -1  # the id of the token that every target begins with; -1: the tokenizer's <s>
    of_run: ClassVar[tuple[str, ...]] = ("source_start", "target_start")

    def check_tokens(self, vocab_size: int) -> None:
        at_least(self, -1, "source_start", "target_start")
        at_most(self, vocab_size - 1, "source_start", "target_start")

    def frame(self, tokenizer: Tokenizer) -> Frame:
        before = () if self.source_start < 0 else (self.source_start,)
        start = tokenizer.start_id if self.target_start < 0 else self.target_start
        return Frame(start, tokenizer.end_id, before)


class FramedTask(Task[R, P, M, B]):
    """Its settings say what its frame is."""

    def __init__(self, config: FramedConfig, setup: Setup):
        super().__init__(config, setup)
        self.frame = config.frame(self.tokenizer)

    def encode(self, text: str) -> list[int]:
        return self.frame.source(self.tokenizer.encode(text))

    @abstractmethod
    def own_target(self, use: Use[M], source: str) -> str:
        """What a run writes by itself."""

    def look(self, use: Use[M], source: str, target: str | None, focus: Focus) -> Capture:
        focus.check(use.model)
        texts = self.pieces(use.model, source)
        if target is not None and len(texts) > 1:
            raise RegardError(
                f"this text is too long for the model, which reads it in {len(texts)} parts: give one part with its "
                "target, or leave out the target (--target)"
            )
        return look_in_parts(texts, focus, lambda text: self.look_at_one(use, text, target, focus))

    def pieces(self, model: M, source: str) -> list[str]:
        """What the model reads one after the other."""
        return texts_that_fit(source, self.tokenizer, self.encode, model.max_length)

    def look_at_one(self, use: Use[M], source: str, target: str | None, focus: Focus) -> Capture:
        written = self.own_target(use, source) if target is None else target
        ids = self.tokenizer.of_targets.encode(written)
        if target is None:  # bytes that are no text have more tokens as the text that stands for them
            ids = ids[: self.room_beside(use.model, source)]
        return self.look_at_pair(use.model, source, ids, f"{source} → {written}", focus)

    def room_beside(self, model: M, source: str) -> int:
        """Tokens of a target that the model has room for, beside its start."""
        return model.max_length - 1

    def look_at_pair(self, model: M, source: str, target_ids: list[int], title: str, focus: Focus) -> Capture:
        source_ids = self.tokenizer.encode(source)
        seen = watch_pair(model, self.frame, source_ids, target_ids, focus)
        read, written = (self.tokenizer.tokens(ids) for ids in (self.frame.source(source_ids), target_ids))
        start, end = self.tokenizer.tokens([self.frame.start, self.frame.end])
        names = {  # across, a query is named by the token that it writes
            "encoder": (read, read),
            "decoder": ([start, *written], [start, *written]),
            "cross": ([*written, end], read),
        }
        return capture(title, seen, names)


@torch.no_grad()
def watch_pair(model: Model, frame: Frame, source: list[int], target: list[int], focus: Focus) -> Seen:
    """Every attention layer while a translator reads the source and writes the target."""
    focus.check(model)
    check_length(model, source, max(len(frame.source(source)), len(target) + 1))
    batch = make_batch([np.array(source)], [np.array(target, np.int64)], [""], frame).to(model.device)
    with watch(model, focus.layers, focus.heads, focus.vectors) as seen:
        model(batch.source, batch.source_layout, batch.target, batch.target_layout)
    return seen
