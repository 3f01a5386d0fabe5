"""Which words of a source its translation came from, by cross-attention."""

import re
from bisect import bisect_right
from typing import Any

from regard.decoding.alignment import NO_WORD, align
from regard.tasks.framing import Frame
from regard.tasks.translation.looking import watch_pair
from regard.tasks.translation.verbs import Token, Translated
from regard.text.tokenizer import Tokenizer
from regard.viewer.looking import Asked


def alignments(
    model: Any, tokenizer: Tokenizer, frame: Frame, translated: Translated, layer: int | None
) -> list[tuple[int, int]]:
    """(source word, target word) by the mean of the heads of one layer; None: of the last but one."""
    layers = [number for kind, number, _ in model.attentions() if kind == "cross"]
    layer = max(len(layers) - 2, 0) if layer is None else layer
    pairs: list[tuple[int, int]] = []
    n_before = 0  # words of the target, in earlier parts
    for (read, hypothesis), tokens in zip(translated.parts, translated.tokens, strict=True):
        source = read[len(frame.before) : -1]
        seen = watch_pair(model, frame, source, hypothesis.tokens, Asked(layers=[layer]))
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
