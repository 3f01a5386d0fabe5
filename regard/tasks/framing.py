"""Texts as one sequence: a text as it is, or as BERT has it, <s> a </s> and, of a pair, <s> a </s> b </s>."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer

MASK, SEPARATOR, BEGINNING = ("[MASK]", "<mask>"), ("[SEP]", "</s>"), ("[CLS]", "<s>")
BETWEEN = "\t"  # stands between the two texts of a pair that is written as one line

# What stays of a text that is too long.
KEEPS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "first": lambda ids, n: ids[:n],
    "last": lambda ids, n: ids[max(len(ids) - n, 0) :],
}


@dataclass(frozen=True)
class Frame:
    """The tokens around a pair: a source is read as `before` x1 .. xn `after`, a target as `start` y1 .. yn `end`."""

    start: int
    end: int
    before: tuple[int, ...] = ()
    after: int | None = None  # None: `end`
    cut: bool = False  # of a source that is too long the beginning is read; otherwise it is dropped, or split

    @property
    def closing(self) -> int:
        return self.end if self.after is None else self.after

    @property
    def n_around(self) -> int:
        """Tokens that a source gets."""
        return len(self.before) + 1

    def source(self, ids: Sequence[int]) -> list[int]:
        return [*self.before, *ids, self.closing]


@dataclass(frozen=True)
class Framing:
    """`max_length` counts the special tokens too.  Of a pair that is too long, the longer text is cut first."""

    tokenizer: Tokenizer
    framed: bool
    keep: str
    max_length: int
    n_texts: int = 1

    def __post_init__(self) -> None:
        if self.n_texts > 1 and not self.framed:
            raise ConfigError(
                "two columns of texts are read as <s> a </s> b </s>: set task.framed = true, "
                "or name one column of texts and then that of the labels"
            )
        if self.max_length <= self.n_special:
            raise ConfigError(
                f"data.max_length = {self.max_length} leaves no room beside {self.n_special} special tokens; raise it"
            )

    @property
    def n_special(self) -> int:
        return 1 + self.n_texts if self.framed else 0

    def texts(self, line: str) -> list[str]:
        """The text of a line, or of a pair both; a line without a tab has no second text."""
        return [*line.split(BETWEEN, 1), ""][: self.n_texts] if self.n_texts > 1 else [line]

    def encode(self, lines: Sequence[str]) -> list[list[np.ndarray]]:
        """For each line the tokens of its texts."""
        texts = [text for line in lines for text in self.texts(line)]
        ids = [np.array(text, np.int64) for text in self.tokenizer.encode_batch(texts)]
        return [ids[i : i + self.n_texts] for i in range(0, len(ids), self.n_texts)]

    def length(self, parts: Sequence[np.ndarray]) -> int:
        """Tokens of the whole before it is cut."""
        return sum(map(len, parts)) + self.n_special

    def lengths(self, of_parts: Sequence[np.ndarray]) -> np.ndarray:
        """The same of many: for each of the texts its lengths in all examples."""
        return np.sum(of_parts, 0) + self.n_special

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """One sequence of at most `max_length` tokens."""
        room, cut = self.max_length - self.n_special, KEEPS[self.keep]
        if self.n_texts == 2:
            first = min(len(parts[0]), max(room - len(parts[1]), room - room // 2))
            parts = [cut(parts[0], first), cut(parts[1], room - first)]
        else:
            parts = [cut(parts[0], room)]
        return self.whole(parts)

    def cut_notes(self, parts: Sequence[np.ndarray]) -> tuple[str, ...]:
        """What there is to say where `join` leaves something out."""
        length = self.length(parts)
        is_cut = length > self.max_length
        return (f"cut to the {self.keep} {self.max_length:,} of {length:,} tokens",) if is_cut else ()

    def whole(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """One sequence, however long."""
        if not self.framed:
            return parts[0]
        closed = [np.append(part, self.tokenizer.end_id) for part in parts]
        return np.concatenate([[self.tokenizer.start_id], *closed])


class MarkedTexts:
    """Texts in which [MASK], [SEP] and [CLS] mean tokens; [MASK] is text where the tokenizer has no such token."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        masks = MASK if "<mask>" in tokenizer.vocabulary.special else ()
        self.marks = re.compile("(" + "|".join(map(re.escape, (*masks, *SEPARATOR, *BEGINNING))) + ")")

    def encode(self, text: str) -> list[int]:
        """<s> text </s>; a [CLS] or [SEP] at the ends may be left out.

        Where a word brings the space before it, so does the one in place of a [MASK]; with another tool's tokenizer,
        where its own mask does.
        """
        tokenizer = self.tokenizer
        ids = [tokenizer.start_id]
        parts = self.marks.split(text)
        for part, mark in zip(parts[::2], [*parts[1::2], ""], strict=True):
            if mark in SEPARATOR or (mark in MASK and self.mask_takes_space):
                part = part.rstrip()
            ids += tokenizer.encode(part)
            if mark in MASK:
                ids.append(tokenizer.special_id("<mask>"))
            elif mark in SEPARATOR:
                ids.append(tokenizer.end_id)
        return ids if ids[-1] == tokenizer.end_id else [*ids, tokenizer.end_id]

    @cached_property
    def mask_takes_space(self) -> bool:
        """Whether the space before a word is part of its token, and so of the mask's."""
        if self.tokenizer.vocabulary.mask_takes_space is not None:
            return self.tokenizer.vocabulary.mask_takes_space
        names = (self.tokenizer.token(n) for n in range(self.tokenizer.vocab_size))
        return any(name.startswith(" ") and len(name) > 1 for name in names)
