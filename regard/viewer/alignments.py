"""Which words of a source its translation came from, by cross-attention."""

from typing import Any

from regard.decoding.alignment import NO_WORD, align
from regard.tasks.pairs import Frame
from regard.tasks.translate import Translated
from regard.text.tokenizer import Tokenizer
from regard.viewer.looking import Asked, watch_pair


def alignments(
    model: Any, tokenizer: Tokenizer, frame: Frame, translated: Translated, layer: int | None
) -> list[tuple[int, int]]:
    """(source word, target word) by the mean of the heads of one layer; None: of the last but one."""
    layers = [there for kind, there, _ in model.attentions() if kind == "cross"]
    layer = max(len(layers) - 2, 0) if layer is None else layer
    Asked(layers=[layer]).check(model)
    pairs: list[tuple[int, int]] = []
    source_words = target_words = 0
    for read, hypothesis in translated.parts:
        source = read[len(frame.before) : -1]
        seen = watch_pair(model, frame, source, hypothesis.tokens, Asked(layers=[layer]))
        of_source = [*[NO_WORD] * len(frame.before), *word_indices(tokenizer.tokens(source)), NO_WORD]
        of_target = [*word_indices(tokenizer.tokens(hypothesis.tokens)), NO_WORD]
        weights = seen.of("cross", layer).weights[0].mean(0)
        pairs += [(s + source_words, t + target_words) for s, t in align(weights, of_target, of_source)]
        source_words += max(of_source) + 1
        target_words += max(of_target) + 1
    return pairs


def word_indices(tokens: list[str]) -> list[int]:
    """The word, counted between white space, to which each token belongs."""
    words, current, in_word = [], -1, False
    for token in tokens:
        begins = token[:1].isspace() or not in_word
        if token.strip():
            current += int(begins)
            in_word = not token[-1:].isspace()
            words.append(current)
        else:
            in_word = False
            words.append(max(current, 0))
    return words
