"""A language model at work: texts that go on from a prompt, and the probability of given texts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from regard.decoding.config import DecodingConfig
from regard.decoding.forced import score
from regard.decoding.interface import Generator
from regard.decoding.search import generate
from regard.errors import RegardError
from regard.text.special import END, START
from regard.text.tokenizer import Tokenizer

# With what a text begins: a line with <s>; a line of a stream with the end of the one before; a text with itself.
BEGINNINGS: dict[str, list[int]] = {"lines": [START], "stream": [END], "text": []}


@dataclass(frozen=True)
class Written:
    text: str  # what follows the prompt
    whole: str  # with the prompt
    log_prob: float
    finished: bool  # False: the length limit came first


def write(
    model: Generator,
    tokenizer: Tokenizer,
    prompts: list[str],
    unit: str,
    length: int,
    config: DecodingConfig,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[list[Written]]:
    """For each prompt the n best texts that go on from it, by at most `length` tokens."""
    if length < 1:
        raise RegardError(f"a text grows by at least 1 token, got {length}")
    config = replace(config, length_ratio=0.0, extra_length=length)
    begun = [begin(prompt, tokenizer, unit) for prompt in prompts]
    found = generate(model, begun, config, START, END, None, on_progress)
    return [
        [
            Written(tokenizer.decode(best.tokens), tokenizer.decode(ids + best.tokens), best.log_prob, best.finished)
            for best in group
        ]
        for ids, group in zip(begun, found, strict=True)
    ]


def begin(prompt: str, tokenizer: Tokenizer, unit: str) -> list[int]:
    """The tokens that a model has read before it writes.  A text without any begins with a new line."""
    ids = BEGINNINGS[unit] + tokenizer.encode(prompt)
    return ids or tokenizer.encode("\n") or [START]


def score_texts(model: Generator, tokenizer: Tokenizer, texts: list[str], unit: str) -> list[list[float]]:
    """log P of each token of the texts; of lines also, last, of their end."""
    ids = tokenizer.encode_batch(texts)
    if unit != "text":
        return score(model, [list(BEGINNINGS[unit]) for _ in ids], ids, START, END)
    # A text has no end of its own, and what it begins with is given, not predicted.
    for number, each in enumerate(ids, start=1):
        if not each:
            raise RegardError(f"text {number} is empty: nothing to score")
    return [row[:-1] for row in score(model, [each[:1] for each in ids], [each[1:] for each in ids], START, END)]
