"""Denoising: a corrupted text in, the text as it was out (BART), or only what is missing (T5)."""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from regard.checks import at_least, not_negative, one_of, proper_share, share
from regard.choose import choose
from regard.data.batching.noise import NOISES, Draws, Noise, corrupt_spans, n_sentinels
from regard.data.batching.streams import Stream
from regard.data.files.plain import PlainText
from regard.data.files.splits import Parts
from regard.decoding.engine import generate
from regard.errors import ConfigError, RegardError
from regard.models.interface import AnyTranslator
from regard.tasks.exchange import SOURCE_TO_TARGET
from regard.tasks.language.running_text import NoisedConfig, NoisedTask
from regard.tasks.pretraining.repair import repair
from regard.tasks.setup import Sample, Use, Verbs
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.tasks.translation.framed import FramedTask, SourceTargetConfig, pair_loss
from regard.text.tokenizer import Tokenizer

OBJECTIVES = ("text", "spans")
MASK = "<mask>"
ENDS = ".!?"  # the marks that end a sentence
SHOWN_TOKENS = 40  # of a validation window


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig(NoisedConfig, SourceTargetConfig):
    """The defaults are BART's: sentences permuted, 30 % of the tokens masked in spans of three on average."""

    objective: str = "text"  # what is to be written: `text`, all of it (BART), or `spans`, what stood in each gap (T5)
    # for `text`, one after the other: `mask` tokens, `delete` tokens, `infill` (one mask for a span of Poisson length),
    # `permute` sentences, `rotate` the text; for `spans`, `[]`
    noises: tuple[str, ...] = ("permute", "infill")
    share: float = 0.3  # of the tokens that are masked or deleted: in every validation the same ones
    mean_span: float = 3.0  # tokens of a span, on average
    # for `spans`: any token may be hidden, and the number of hidden tokens varies around the share. T5 itself always
    # keeps the first token, hides the last, and hides equally many in texts of equal length: short texts teach little
    anywhere: bool = False
    smoothing: float = 0.0  # label smoothing
    shown: int = 2  # samples shown at each validation

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, OBJECTIVES, "objective")
        for name in self.noises:
            choose(NOISES, name, "noise")
        if self.objective == "text" and not self.noises:
            raise ConfigError(f"objective = 'text' needs noises: some of {', '.join(NOISES)}")
        if self.anywhere and self.objective != "spans":
            raise ConfigError("anywhere = true is for objective = 'spans'; the other noises choose any tokens")
        if self.objective == "spans" and self.noises:
            raise ConfigError("objective = 'spans' is a noise by itself; set noises = []")
        proper_share(self, "share")
        at_least(self, 1, "mean_span")
        share(self, "smoothing")
        not_negative(self, "shown")


class Denoising(FramedTask[PlainText, Stream, AnyTranslator, PairBatch], NoisedTask[AnyTranslator, PairBatch]):
    """BART's and T5's: a corrupted text is read, the text or what is missing of it is written."""

    settings = DenoisingConfig
    roles = ("translator",)
    exchange = SOURCE_TO_TARGET
    commands = (
        'regard fill RUN "Paris is the [MASK] of France."',
        "regard train RECIPE --from RUN",
        "regard embed RUN FILE",
        "regard evaluate RUN",
    )
    config: DenoisingConfig

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

    def draw(self, texts: list[np.ndarray], lines: list[str], draws: list[Draws]) -> PairBatch:
        if self.config.unit == "lines":  # their ends are the frame's
            texts = [text[:-1] if text[-1] == self.tokenizer.end_id else text for text in texts]
        pairs = [self.corrupted(text, own) for text, own in zip(texts, draws, strict=True)]
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        return make_batch(sources, targets, lines, self.frame)

    def corrupted(self, tokens: np.ndarray, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """Source: the text with numbered gaps; target: what stood in each  (Raffel et al. 2020).  Or source: the text
        through all noises, one after the other, cut where masks between words made it longer than it was; target: the
        text  (Lewis et al. 2020)."""
        if self.config.objective == "spans":
            return corrupt_spans(tokens, draws, self.noise)
        corrupted = tokens
        for name in self.config.noises:
            corrupted = NOISES[name](corrupted, draws, self.noise)
        return corrupted[: len(tokens)], tokens

    nats = staticmethod(pair_loss)

    def first_samples(self, model: AnyTranslator, valid: Stream) -> list[Sample]:
        """The beginning of some validation windows: corrupted, what should be written, and what the model writes."""
        windows = valid.all_windows(self.config.window)[: self.config.shown]
        batch = self.collate(valid, np.minimum(windows, windows[:, :1] + SHOWN_TOKENS))
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
        noise = "+".join(c.noises) or f"spans:{c.mean_span:g}{' anywhere' * c.anywhere}"
        return f"window:{c.window}|{noise}|share:{c.share:g}"

    @property
    def purpose(self) -> str:
        what = "the text" if self.config.objective == "text" else "what is missing"
        return f"was trained to read a corrupted text and to write {what}"

    @property
    def verbs(self) -> Verbs:
        writes_gaps = self.config.objective == "spans"
        return {"fill": partial(repair, self.tokenizer, self.frame, writes_gaps), **super().verbs}

    def own_target(self, use: Use[AnyTranslator], source: str) -> str:
        raise RegardError("this run restores corrupted texts: say what it is to write, as the target (--target)")


def noise_of(config: DenoisingConfig, tokenizer: Tokenizer) -> Noise:
    """The tokens that a noise needs; an error says which of them `tokenizer.extra` must name."""
    needs_mask = bool({"mask", "infill"} & set(config.noises))
    sizes = config.window, config.share, config.mean_span, config.anywhere
    n = n_sentinels(*sizes) if config.objective == "spans" else 0
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
        config.anywhere,
    )
