"""Words as tokens: a word may be several, and a sentence that is too long is read in pieces of whole words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.batching.packing import cut
from regard.data.batching.shards import tokenize
from regard.data.notes import Notes
from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Rows:
    """Some pieces, flat: tokens, how many each piece has, and for each word its last token and its number."""

    tokens: np.ndarray  # N ids
    lengths: np.ndarray  # tokens of each piece
    last: np.ndarray  # of each word, the place of its last token in `tokens`: a causal reader has then read all of it
    words: np.ndarray  # of each word, its place among all words


class WordPieces:
    """Sentences of words, one after the other; a word is read with the space before it.  `framed` pieces stand between
    <s> and </s>, as BERT reads them."""

    def __init__(
        self, sentences: Sentences, places: Sequence[str], tokenizer: Tokenizer, max_length: int, framed: bool = False
    ):
        self.frame = (tokenizer.start_id, tokenizer.end_id) if framed else ()
        self.max_length = max_length
        max_length -= len(self.frame)
        if max_length < 1:
            raise ConfigError(f"data.max_length = {self.max_length} leaves no room between <s> and </s>; raise it")
        distinct: dict[str, int] = {}
        self.words = np.array([distinct.setdefault(w, len(distinct)) for words in sentences for w in words], np.int64)
        self.spelling = tokenize([f" {word}" for word in distinct], tokenizer)
        lengths = np.minimum(self.spelling.lengths, max_length)
        self.word_lengths = lengths[self.words]  # in tokens
        self.notes = Notes()
        bounds: list[tuple[int, int]] = []  # of each piece, its first word and the one after its last
        owners: list[int] = []  # of each piece, its sentence
        start = 0
        for i, words in enumerate(sentences):
            stop = start + len(words)
            groups = cut(np.arange(start, stop), self.word_lengths, max_length)
            bounds += [(int(group[0]), int(group[-1]) + 1) for group in groups]
            owners += [i] * len(groups)
            if len(groups) > 1:
                self.notes.add(f"read in pieces: longer than {max_length} tokens", places[i])
            start = stop
        self.bounds, self.sentence = np.array(bounds, np.int64).reshape(-1, 2), np.array(owners, np.int64)
        long_words = np.flatnonzero((self.spelling.lengths > max_length)[self.words])
        if len(long_words):
            piece = int(np.searchsorted(self.bounds[:, 1], long_words[0], side="right"))
            where = places[self.sentence[piece]]
            self.notes.add(f"word read by its last {max_length} tokens", where, len(long_words))

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each piece, with its frame."""
        ends = np.concatenate([[0], np.cumsum(self.word_lengths)])
        return ends[self.bounds[:, 1]] - ends[self.bounds[:, 0]] + len(self.frame)

    def rows(self, pieces: np.ndarray) -> Rows:
        chosen = np.concatenate([np.arange(start, stop) for start, stop in self.bounds[pieces]])
        lengths, words = self.word_lengths[chosen], self.words[chosen]
        last = np.cumsum(lengths) - 1
        # Token j of the batch is as far from its word's last token here as in the spelling of the word.
        from_here = np.repeat(self.spelling.offsets[1:][words] - 1 - last, lengths) + np.arange(last[-1] + 1)
        tokens = self.spelling.ids[from_here].astype(np.int64)
        n_words, whole = np.diff(self.bounds[pieces])[:, 0], self.lengths[pieces]
        if not self.frame:
            return Rows(tokens, whole, last, chosen)
        start, end = self.frame
        further = 1 + 2 * np.arange(len(whole))  # so much later comes what a piece holds
        framed = np.full(int(whole.sum()), end, np.int64)
        framed[np.cumsum(whole) - whole] = start
        framed[np.arange(len(tokens)) + np.repeat(further, whole - 2)] = tokens
        return Rows(framed, whole, last + np.repeat(further, n_words), chosen)
