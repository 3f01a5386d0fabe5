"""Lines in, lines out: every line gets an answer, what happened to it is said, and which words came from which."""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Protocol

import numpy as np

from regard.decoding.alignment import NO_WORD, align
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.decoding.outputs import Hypothesis
from regard.models.interface import Model
from regard.tasks.framing import Frame
from regard.tasks.translation.framed import watch_pair
from regard.tasks.translation.verbs import Translated
from regard.text.sentences import Token, beginning, split
from regard.text.tokenizer import Tokenizer
from regard.text.unicode import all_well_formed
from regard.viewer.looking import Focus

PER_TOKEN = "log_prob_per_token"  # in expected.json
CERTAIN = math.log(0.9)  # a token: a model that is as sure as this is never said to be unsure


def translate(
    engine: Engine,
    tokenizer: Tokenizer,
    lines: list[str],
    config: DecodingConfig,
    max_length: int,
    frame: Frame,
    prefixes: list[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Translated]:
    """A line longer than `max_length` tokens is split, at sentences if it can be, and put together again; or cut, if
    the frame says so.  Words that the tokenizer does not know, also those of a prefix, are noted."""
    lines = all_well_formed(lines)  # in which the tokens have their places
    prefixes = prefixes or [""] * len(lines)
    parts_of = beginning if frame.cut else split
    parts_of_lines = [parts_of(line, tokenizer, max_length) for line in lines]
    sources = [frame.source([token.id for token in part]) for parts in parts_of_lines for part in parts]
    forced = [
        tokenizer.of_targets.encode(prefix) if i == 0 and prefix else []
        for parts, prefix in zip(parts_of_lines, prefixes, strict=True)
        for i in range(len(parts))
    ]
    hypotheses = engine.generate(sources, config, frame.start, frame.end, forced, on_progress)
    translated = iter(zip(sources, hypotheses, strict=True))
    answers = []
    for line, parts, prefix in zip(lines, parts_of_lines, prefixes, strict=True):
        answer = gather(line, parts, list(islice(translated, len(parts))), tokenizer)
        if frame.cut and parts and len(parts[0]) == max_length < len(tokenizer.encode(line)):
            answer.notes.append(f"cut after {max_length} tokens")
        answer.notes.extend(unknown_words(answer, prefix, tokenizer) if parts else [])
        answers.append(answer)
    return answers


def unknown_words(answer: Translated, prefix: str, tokenizer: Tokenizer) -> list[str]:
    """A note on what the tokenizer did not know of what was read, and of the prefix, each once."""
    tokens = [token for part in answer.tokens for token in part]
    words = [answer.line[token.start : token.end] for token in tokens if token.id == tokenizer.unknown_id]
    unknown = dict.fromkeys(words + tokenizer.of_targets.unknown(prefix))
    return [f"unknown: {' '.join(map(repr, unknown))}"] if unknown else []


class LikelyAnswer(Protocol):
    """An answer of which a model knows how likely it is."""

    @property
    def log_prob_per_token(self) -> float | None: ...


def least_expected(answers: Iterable[LikelyAnswer]) -> dict[str, float]:
    """The log-probability a token that 99 % of these answers are above."""
    values = [answer.log_prob_per_token for answer in answers if answer.log_prob_per_token is not None]
    finite = [value for value in values if math.isfinite(value)]
    return {PER_TOKEN: float(np.percentile(finite, 1))} if finite else {}


def unusual(answer: LikelyAnswer, expected: Mapping[str, float]) -> list[str]:
    """A note on an answer that is less likely than almost all that were given in validation, and not nearly certain."""
    value, least = answer.log_prob_per_token, expected.get(PER_TOKEN, -math.inf)
    if value is None or value >= min(least, CERTAIN):
        return []
    figures = f"log P per token {value:.3g}, above {least:.3g} in 99 % of the validation lines"
    return [f"unusual: the model is unsure, perhaps because it was not trained on such input ({figures})"]


def gather(
    line: str, tokens: list[list[Token]], parts: list[tuple[list[int], list[Hypothesis]]], tokenizer: Tokenizer
) -> Translated:
    if not parts:
        return Translated("", notes=["empty"])
    notes = [f"split into {len(parts)}"] if len(parts) > 1 else []
    if len(parts) > 1 and any(len(hypotheses) > 1 for _, hypotheses in parts):
        notes.append("no n_best of a split line")
    best = [hypotheses[0] for _, hypotheses in parts]
    unfinished = sum(not hypothesis.finished for hypothesis in best)
    if unfinished:
        notes.append("hit the length limit" + (f" in {unfinished} parts" if len(parts) > 1 else ""))
    texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in best]
    n_best = [(tokenizer.decode(h.tokens), h.score) for h in parts[0][1]] if len(parts) == 1 else []
    return Translated(
        text=" ".join(texts),
        score=sum(h.score for h in best),
        log_prob=sum(h.log_prob for h in best),
        n_best=n_best,
        notes=notes,
        parts=[(source, h) for (source, _), h in zip(parts, best, strict=True)],
        line=line,
        tokens=tokens,
    )


def alignments(
    model: Model, tokenizer: Tokenizer, frame: Frame, translated: Translated, layer: int | None
) -> list[tuple[int, int]]:
    """Which words of a source its translation came from: (source word, target word) by the mean of the cross-attention
    heads of one layer; None: of the last but one."""
    layers = [number for kind, number, _ in model.attentions() if kind == "cross"]
    layer = max(len(layers) - 2, 0) if layer is None else layer
    pairs: list[tuple[int, int]] = []
    n_before = 0  # words of the target, in earlier parts
    for (read, hypothesis), tokens in zip(translated.parts, translated.tokens, strict=True):
        source = read[len(frame.before) : -1]
        seen = watch_pair(model, frame, source, hypothesis.tokens, Focus(layers=[layer]))
        of_source = [*[NO_WORD] * len(frame.before), *source_words(translated.line, tokens), NO_WORD]
        of_target = [*target_words(hypothesis.tokens, tokenizer), NO_WORD]
        weights = seen.of("cross", layer).weights[0].mean(0)
        pairs += [(s, t + n_before) for s, t in align(weights, of_target, of_source)]
        n_before += max(of_target) + 1
    return pairs


def source_words(line: str, tokens: list[Token]) -> list[int]:
    """The word of the line, counted between white space, in which each token ends."""
    starts = [word.start() for word in re.finditer(r"\S+", line)]
    return [bisect_right(starts, token.end - 1) - 1 for token in tokens]


def target_words(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """The same of a text that is written as these tokens: the last word when it has been written so far."""
    n_words = [len(tokenizer.decode(ids[: i + 1]).split()) for i in range(len(ids))]
    return [min(n, n_words[-1]) - 1 for n in n_words]  # half of a character may look like a word
