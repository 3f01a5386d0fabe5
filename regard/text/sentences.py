"""Texts that are too long to be read at once, split at sentences, or else between words."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from regard.text.tokenizer import Tokenizer

CLOSING = "」』）”’"  # what may follow the end of a Chinese or Japanese sentence, and belongs to it
SENTENCE_END = re.compile(  # the place before white space; after 。！？ none is needed
    rf"(?<=[.!?…])(?=\s)|(?<=[。！？])(?=[^。！？{CLOSING}])|(?<=[。！？][{CLOSING}])(?=[^。！？{CLOSING}])"
)


class Token(NamedTuple):
    """A token, and from which character to after which one of its line it stands."""

    id: int
    start: int
    end: int


def read(text: str, tokenizer: "Tokenizer", at: int = 0) -> list[Token]:
    """The tokens of a text that begins at character `at` of its line."""
    pieces = tokenizer.vocabulary.cut(text)
    places = zip(tokenizer.vocabulary.ids(pieces), pieces.offsets, strict=True)
    return [Token(n, at + start, at + end) for n, (start, end) in places]


def split(line: str, tokenizer: "Tokenizer", max_length: int) -> list[list[Token]]:
    """The tokens of a line, in parts of at most `max_length`: none for a blank line, mostly one."""
    if not line.strip():
        return []
    whole = read(line, tokenizer)
    if len(whole) <= max_length:
        return [whole]
    groups: list[str] = []  # sentences that fit together, with the white space that is between them, if any
    for sentence in SENTENCE_END.split(line.strip()):
        if groups and len(tokenizer.encode(groups[-1] + sentence)) <= max_length:
            groups[-1] += sentence
        else:
            groups.append(sentence.lstrip())
    parts: list[list[Token]] = []
    at = 0
    for group in groups:
        at = line.index(group, at)  # only white space is before it
        part = read(group, tokenizer, at)
        parts += [part] if len(part) <= max_length else split_words(group, tokenizer, max_length, at)
        at += len(group)
    return parts


def beginning(line: str, tokenizer: "Tokenizer", max_length: int) -> list[list[Token]]:
    """The first `max_length` tokens of a line, as its only part; none for a blank line."""
    return [read(line, tokenizer)[:max_length]] if line.strip() else []


def split_words(sentence: str, tokenizer: "Tokenizer", max_length: int, at: int) -> list[list[Token]]:
    """A sentence, at character `at` of its line, that is too long by itself: as many words as fit; a word that does
    not fit is cut."""
    parts: list[list[Token]] = [[]]
    for match in re.finditer(r"\s*\S+", sentence):
        word = read(match[0], tokenizer, at + match.start())
        if len(parts[-1]) + len(word) > max_length:
            parts += [word[i : i + max_length] for i in range(0, len(word), max_length)]
        else:
            parts[-1] = parts[-1] + word
    return [part for part in parts if part]


def texts_that_fit(text: str, tokenizer: "Tokenizer", encode: Callable[[str], list[int]], most: int) -> list[str]:
    """The text in parts, each of at most `most` tokens with what `encode` puts around it; whole, where it fits or
    nothing of it would."""
    room = most - len(encode("")) if len(encode(text)) > most else 0
    while room > 0:
        parts = [text[part[0].start : part[-1].end].strip() for part in split(text, tokenizer, room)]
        parts = [part for part in parts if part]
        if parts and all(len(encode(part)) <= most for part in parts):
            return parts
        room //= 2  # a piece of a word may have more tokens than in its word
    return [text]
