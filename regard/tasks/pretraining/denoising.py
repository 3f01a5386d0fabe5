"""Denoising: a spoilt text in, the text as it was out (BART), or only what is missing (T5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.checks import at_least, not_negative, proper_share, share
from regard.choose import choose
from regard.data.batching.noise import NOISES, Draws, Noise, corrupt_spans, n_sentinels
from regard.data.batching.streams import Stream
from regard.decoding.search import generate
from regard.errors import ConfigError
from regard.models.translator import Translator
from regard.tasks.pretraining.noised import Drawn, DrawnConfig
from regard.tasks.setup import Setup
from regard.tasks.translation.batches import Frame, PairBatch, make_batch
from regard.tasks.translation.task import pair_loss
from regard.text.tokenizer import Tokenizer

MASK = "<mask>"
ENDS = ".!?"  # the marks that end a sentence
SHOWN_TOKENS = 40  # of a validation window

Pair = tuple[np.ndarray, np.ndarray]


def whole_text(tokens: np.ndarray, draws: Draws, noise: Noise, names: tuple[str, ...]) -> Pair:
    """Source: the text through all noises, one after the other, cut where masks between words made it longer than it
    was.  Target: the text  (Lewis et al. 2020)"""
    spoilt = tokens
    for name in names:
        spoilt = NOISES[name](spoilt, draws, noise)
    return spoilt[: len(tokens)], tokens


def missing_spans(tokens: np.ndarray, draws: Draws, noise: Noise, names: tuple[str, ...]) -> Pair:
    """Source: the text with numbered gaps.  Target: what stood in each  (Raffel et al. 2020)"""
    return corrupt_spans(tokens, draws, noise)


OBJECTIVES: dict[str, Callable[[np.ndarray, Draws, Noise, tuple[str, ...]], Pair]] = {
    "text": whole_text,
    "spans": missing_spans,
}


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(DrawnConfig):
    """The defaults are BART's: sentences permuted, 30 % of the tokens hidden in spans of three on average."""

    objective: str = "text"  # what is to be written: the text, or the spans that are missing
    noises: tuple[str, ...] = ("permute", "infill")  # for "text": mask, delete, infill, permute, rotate, in this order
    share: float = 0.3  # of the tokens that are hidden
    mean_span: float = 3.0  # tokens
    smoothing: float = 0.0
    shown: int = 2  # samples at each validation

    def __post_init__(self) -> None:
        super().__post_init__()
        choose(OBJECTIVES, self.objective, "objective")
        for name in self.noises:
            choose(NOISES, name, "noise")
        if self.objective == "text" and not self.noises:
            raise ConfigError(f"objective = 'text' needs noises: some of {', '.join(NOISES)}")
        if self.objective == "spans" and self.noises:
            raise ConfigError("objective = 'spans' is a noise by itself; set noises = []")
        proper_share(self, "share")
        at_least(self, 1, "mean_span")
        share(self, "smoothing")
        not_negative(self, "shown")

    def frame(self, tokenizer: Tokenizer) -> Frame:
        return Frame(tokenizer.start_id, tokenizer.end_id)


class Denoising(Drawn):
    """The task as the training loop knows it (`regard.training.task`)."""

    roles = ("translator",)

    def __init__(self, config: DenoisingConfig, train: Stream, valid: Stream | None, setup: Setup):
        super().__init__(config, train, valid, setup)  # type: ignore[arg-type]
        if config.window > setup.data.max_length:
            raise ConfigError(
                f"a window of {config.window} tokens is longer than data.max_length = {setup.data.max_length}"
            )
        self.noise = noise_of(config, setup.tokenizer)

    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> PairBatch:
        spoil = OBJECTIVES[self.config.objective]
        if self.config.unit == "lines":  # their ends are the frame's
            texts = [text[:-1] if text[-1] == self.tokenizer.end_id else text for text in texts]
        pairs = [spoil(text, d, self.noise, self.config.noises) for text, d in zip(texts, draws, strict=True)]
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return make_batch(sources, targets, lines, self.config.frame(self.tokenizer))

    def nats(self, model: Translator, batch: PairBatch) -> Tensor:
        return pair_loss(model, batch, 0.0)

    def loss(self, model: Translator, batch: Any) -> Tensor:
        return pair_loss(model, batch, self.config.smoothing)

    def samples(self, model: Any) -> list[tuple[str, str, str]]:
        """The beginning of some validation windows: spoilt, what should be written, and what the model writes."""
        if self.valid is None or not self.config.shown:
            return []
        windows = self.valid.all_windows(self.config.window)[: self.config.shown]
        batch = self.made_of(self.valid, np.minimum(windows, windows[:, :1] + SHOWN_TOKENS), -1)
        lengths = batch.source_layout.lengths.tolist(), batch.target_layout.lengths.tolist()
        sources = [part.tolist() for part in batch.source.split(lengths[0])]
        targets = [part.tolist()[:-1] for part in batch.labels.split(lengths[1])]
        few = replace(self.decoding, beam=1, n_best=1, sample=False, extra_length=SHOWN_TOKENS // 2)
        few = few.within(model.config.max_length)
        found = generate(model, sources, few, self.tokenizer.start_id, self.tokenizer.end_id)
        written = [best.tokens for best, *_ in found]
        return [
            (self.spelt(source[:-1]), self.spelt(target), self.spelt(ids))
            for source, target, ids in zip(sources, targets, written, strict=True)
        ]

    def spelt(self, ids: list[int]) -> str:
        """With the special tokens, which `decode` leaves out."""
        return "".join(self.tokenizer.tokens(ids))

    @staticmethod
    def signature(config: DenoisingConfig) -> str:
        how = "+".join(config.noises) or f"spans:{config.mean_span:g}"
        return f"window:{config.window}|{how}|share:{config.share:g}"

    def purpose(self) -> str:
        what = "the text" if self.config.objective == "text" else "what is missing"
        return f"learnt to read a spoilt text and to write {what}"

    def usage(self, folder: Path) -> tuple[str, ...]:
        return (f"regard train RECIPE --from {folder}", f"regard embed {folder} FILE", f"regard evaluate {folder}")


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
    spelt = tokenizer.tokens(range(tokenizer.vocab_size))
    return Noise(
        config.share,
        config.mean_span,
        tokenizer.special_id(MASK) if needs_mask else tokenizer.unknown_id,
        np.array([token.strip()[-1:] in tuple(ENDS) for token in spelt]),
        np.array([tokenizer.special_id(name) for name in names], np.int64),
    )
