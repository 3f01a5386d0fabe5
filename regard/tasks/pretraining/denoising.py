"""Denoising: a corrupted text in, the text as it was out (BART), or only what is missing (T5)."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from regard.data.batching.noise import NOISES, Draws, Noise, corrupt_spans, n_sentinels
from regard.data.batching.streams import Stream
from regard.data.files.plain import PlainText
from regard.data.files.splits import Parts
from regard.decoding.search import generate
from regard.errors import ConfigError, RegardError
from regard.models.interface import Translator
from regard.tasks.exchange import SOURCE_TO_TARGET
from regard.tasks.learnable import Sample
from regard.tasks.pretraining.noised import NoisedTask
from regard.tasks.pretraining.settings import DenoisingConfig
from regard.tasks.setup import Setup
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.tasks.translation.looking import look_at_pair
from regard.tasks.translation.task import pair_loss
from regard.tasks.use import Use
from regard.text.tokenizer import Tokenizer
from regard.viewer.capture import Capture
from regard.viewer.looking import Asked

MASK = "<mask>"
ENDS = ".!?"  # the marks that end a sentence
SHOWN_TOKENS = 40  # of a validation window

Pair = tuple[np.ndarray, np.ndarray]


def whole_text(tokens: np.ndarray, draws: Draws, noise: Noise, names: tuple[str, ...]) -> Pair:
    """Source: the text through all noises, one after the other, cut where masks between words made it longer than it
    was.  Target: the text  (Lewis et al. 2020)"""
    corrupted = tokens
    for name in names:
        corrupted = NOISES[name](corrupted, draws, noise)
    return corrupted[: len(tokens)], tokens


def missing_spans(tokens: np.ndarray, draws: Draws, noise: Noise, names: tuple[str, ...]) -> Pair:
    """Source: the text with numbered gaps.  Target: what stood in each  (Raffel et al. 2020)"""
    return corrupt_spans(tokens, draws, noise)


OBJECTIVES: dict[str, Callable[[np.ndarray, Draws, Noise, tuple[str, ...]], Pair]] = {
    "text": whole_text,
    "spans": missing_spans,
}


class Denoising(NoisedTask[Translator[Any], PairBatch]):
    """BART's and T5's: a corrupted text is read, the text or what is missing of it is written."""

    settings = DenoisingConfig
    roles = ("translator",)
    exchange = SOURCE_TO_TARGET
    commands = ("regard train RECIPE --from RUN", "regard embed RUN FILE", "regard evaluate RUN")
    config: DenoisingConfig

    def __init__(self, config: DenoisingConfig, setup: Setup):
        super().__init__(config, setup)
        self.frame = config.frame(self.tokenizer)

    def read(self, parts: Parts[PlainText]) -> None:
        if self.config.window > self.max_length:
            raise ConfigError(
                f"a window of {self.config.window} tokens is longer than data.max_length = {self.max_length}"
            )
        super().read(parts)
        noise_of(self.config, self.tokenizer)  # an error comes before the first batch

    @cached_property
    def noise(self) -> Noise:
        return noise_of(self.config, self.tokenizer)

    def encode(self, text: str) -> list[int]:
        return self.frame.source(self.tokenizer.encode(text))

    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> PairBatch:
        corrupt = OBJECTIVES[self.config.objective]
        if self.config.unit == "lines":  # their ends are the frame's
            texts = [text[:-1] if text[-1] == self.tokenizer.end_id else text for text in texts]
        pairs = [corrupt(text, d, self.noise, self.config.noises) for text, d in zip(texts, draws, strict=True)]
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return make_batch(sources, targets, lines, self.frame)

    def loss(self, model: Translator[Any], batch: PairBatch) -> Tensor:
        return pair_loss(model, batch, self.config.smoothing)

    def plain_loss(self, model: Translator[Any], batch: PairBatch) -> Tensor:
        return pair_loss(model, batch, 0.0)

    def samples(self, model: Translator[Any]) -> list[Sample]:
        """The beginning of some validation windows: corrupted, what should be written, and what the model writes."""
        if self.valid is None or not self.config.shown:
            return []
        windows = self.valid.all_windows(self.config.window)[: self.config.shown]
        batch = self.collate(self.valid, np.minimum(windows, windows[:, :1] + SHOWN_TOKENS))
        sources = [part.tolist() for part in batch.source.split(batch.source_layout.lengths.tolist())]
        targets = [part.tolist()[:-1] for part in batch.labels.split(batch.target_layout.lengths.tolist())]
        few = replace(self.setup.decoding, beam=1, n_best=1, sample=False, extra_length=SHOWN_TOKENS // 2)
        hypotheses = generate(
            model, sources, few.within(model.max_length), self.tokenizer.start_id, self.tokenizer.end_id
        )
        return [
            (self.spelled(source[:-1]), self.spelled(target), self.spelled(best.tokens))
            for source, target, (best, *_) in zip(sources, targets, hypotheses, strict=True)
        ]

    def spelled(self, ids: list[int]) -> str:
        """With the special tokens, which `decode` leaves out."""
        return "".join(self.tokenizer.tokens(ids))

    def how(self, part: Stream) -> str:
        c = self.config
        return f"window:{c.window}|{'+'.join(c.noises) or f'spans:{c.mean_span:g}'}|share:{c.share:g}"

    def purpose(self) -> str:
        what = "the text" if self.config.objective == "text" else "what is missing"
        return f"was trained to read a corrupted text and to write {what}"

    def look(self, use: Use, source: str, target: str | None, asked: Asked) -> Capture:
        asked.check(use.model)
        if target is None:
            raise RegardError("this run restores corrupted texts: say what it is to write, as the target (--target)")
        return look_at_pair(use.model, self.tokenizer, self.frame, source, target, asked)


def noise_of(config: DenoisingConfig, tokenizer: Tokenizer) -> Noise:
    """The tokens that a noise needs; an error says which of them `tokenizer.extra` must name."""
    needs_mask = bool({"mask", "infill"} & set(config.noises))
    n = n_sentinels(config.window, config.share, config.mean_span) if config.objective == "spans" else 0
    names = [f"<extra_{i}>" for i in range(n)]
    missing = [name for name in [MASK] * needs_mask + names if name not in tokenizer.special]
    if missing:
        raise ConfigError(
            f"this noise needs the special tokens {missing[0]} to {missing[-1]}: name these {len(missing)} in "
            "tokenizer.extra"
        )
    spelled = tokenizer.tokens(range(tokenizer.vocab_size))
    return Noise(
        config.share,
        config.mean_span,
        tokenizer.special_id(MASK) if needs_mask else tokenizer.unknown_id,
        np.array([token.strip()[-1:] in tuple(ENDS) for token in spelled]),
        np.array([tokenizer.special_id(name) for name in names], np.int64),
    )
