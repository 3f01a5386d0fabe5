"""A language model at work: texts that go on from a prompt, and the probability of given texts."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from regard.data.streams import UNITS
from regard.decoding.config import DecodingConfig
from regard.decoding.forced import score
from regard.decoding.search import generate
from regard.errors import RegardError
from regard.text.special import END, START
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Written:
    text: str  # what follows the prompt
    whole: str  # with the prompt
    log_prob: float
    finished: bool  # False: the length limit came first
    notes: tuple[str, ...] = ()  # what happened to the prompt


def write(
    model: Any,
    tokenizer: Tokenizer,
    prompts: list[str],
    unit: str,
    length: int,
    config: DecodingConfig,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[list[Written]]:
    """For each prompt the n best texts that go on from it, by at most `length` tokens.

    Of a prompt that is too long for the model the end is read.  A line ends by itself; a text has no end of its own.
    """
    if length < 1:
        raise RegardError(f"a text grows by at least 1 token, got {length}")
    most = model.config.max_length - length + 1  # tokens of a prompt: the last one written is not read
    if most < 1:
        raise RegardError(f"{length} tokens do not fit the model's {model.config.max_length}; ask for fewer")
    least = length if unit == "text" else config.min_length
    config = replace(config, length_ratio=0.0, extra_length=length, min_length=least)
    begun = [begin(prompt, tokenizer, unit) for prompt in prompts]
    found = generate(model, [ids[-most:] for ids in begun], config, START, END, None, on_progress)
    return [
        [
            Written(
                tokenizer.decode(best.tokens),
                tokenizer.decode(ids[1:] + best.tokens),
                best.log_prob,
                best.finished,
                notes_on(prompt, ids, most, tokenizer),
            )
            for best in group
        ]
        for prompt, ids, group in zip(prompts, begun, found, strict=True)
    ]


def begin(prompt: str, tokenizer: Tokenizer, unit: str) -> list[int]:
    """The tokens that a model has read before it writes: what stands before every text, then the prompt."""
    return [UNITS[unit](tokenizer), *tokenizer.encode(prompt)]


def notes_on(prompt: str, ids: list[int], most: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    notes = []
    unknown = list(dict.fromkeys(tokenizer.unknown(prompt)))
    if unknown:
        notes.append(f"unknown: {' '.join(map(repr, unknown))}")
    if len(ids) > most:
        notes.append(f"too long: only its last {most:,} of {len(ids) - 1:,} tokens were read")
    return tuple(notes)


def score_texts(model: Any, tokenizer: Tokenizer, texts: list[str], unit: str) -> list[list[float]]:
    """log P of each token of the texts; of lines also, last, of their end.

    A text that is too long for the model is read in pieces, each knowing only the last token of the one before.
    """
    most = max(model.config.max_length - 1, 1)
    end = [] if unit == "text" else [END]
    owners, prompts, targets, n_wanted = [], [], [], []
    for i, text in enumerate(texts):
        tokens = [*begin(text, tokenizer, unit), *end]
        for start in range(0, len(tokens) - 1, most):
            piece = tokens[start + 1 : start + most + 1]
            owners.append(i)
            prompts.append([tokens[start]])
            targets.append(piece[:-1] if piece[-1] == END else piece)  # the search adds an end to each
            n_wanted.append(len(piece))
    found: list[list[float]] = [[] for _ in texts]
    for i, row, n in zip(owners, score(model, prompts, targets, START, END), n_wanted, strict=True):
        found[i] += row[:n]
    return found
