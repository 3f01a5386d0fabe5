"""Texts that are too long to be read at once: questions before windows of their context, several that overlap;
sentences of words in pieces."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.batching.packing import cut
from regard.data.batching.shards import tokenize
from regard.data.files.questions import Answer, Question
from regard.data.notes import Notes
from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer

FRAME = 3  # <s> question </s> context </s>
WordLists = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Lengths:
    """In tokens.  The next window of a context begins `stride` tokens after the one before."""

    window: int
    stride: int
    question: int  # of a longer one, with what was asked before it, the last so many are read


@dataclass(frozen=True)
class Placed:
    """The tokens of a text, and the characters [starts, ends) that each stands for."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_of(self, answer: Answer) -> tuple[int, int]:
        """The first and the last token that hold a character of the answer."""
        first = int(np.searchsorted(self.ends, answer.start, side="right"))
        last = int(np.searchsorted(self.starts, answer.start + len(answer.text), side="left")) - 1
        return first, last

    def characters(self, text: str, first: int, last: int) -> tuple[int, int]:
        """Of the text, where these tokens begin and end; the white space around them is not meant."""
        start, end = int(self.starts[first]), int(self.ends[last])
        start += len(text[start:end]) - len(text[start:end].lstrip())
        return start, start + len(text[start:end].rstrip())


class Windows:
    """Window i belongs to question `owner[i]` and holds `n_context[i]` tokens of its context from `first[i]` on."""

    def __init__(self, questions: Sequence[Question], tokenizer: Tokenizer, lengths: Lengths, history: int):
        self.questions, self.tokenizer = questions, tokenizer
        contexts = {context: i for i, context in enumerate(dict.fromkeys(q.context for q in questions))}
        self.placed = [
            Placed(np.array(ids, np.int64), *np.array(places, np.int64).reshape(-1, 2).T.copy())
            for ids, places in tokenizer.encode_places(list(contexts))
        ]
        self.context = [self.placed[contexts[question.context]] for question in questions]
        asked = tokenizer.encode_batch([with_history(question, history) for question in questions])
        self.asked = [np.array(ids[-lengths.question :], np.int64) for ids in asked]
        self.notes = Notes()
        owners, firsts, sizes = [], [], []
        for i, (question, ids) in enumerate(zip(questions, asked, strict=True)):
            if len(ids) > lengths.question:
                self.notes.add(f"question read by its last {lengths.question} tokens", question.place)
            room, n = lengths.window - FRAME - len(self.asked[i]), len(self.context[i].ids)
            starts = list(range(0, max(n - room, 0) + lengths.stride, lengths.stride))
            if len(starts) > 1:
                self.notes.add(f"context read in windows of {lengths.window} tokens", question.place)
            owners += [i] * len(starts)
            firsts += starts
            sizes += [min(room, n - start) for start in starts]
        self.owner, self.first, self.n_context = (np.array(part, np.int64) for part in (owners, firsts, sizes))
        n_asked = np.array([len(ids) for ids in self.asked], np.int64)
        self.offset = n_asked[self.owner] + FRAME - 1  # the row of each window's first token of context
        self.lengths = self.offset + self.n_context + 1

    def __len__(self) -> int:
        return len(self.owner)

    def tokens(self, i: int) -> np.ndarray:
        """<s> question </s> window </s>"""
        start, end = [self.tokenizer.start_id], [self.tokenizer.end_id]
        first, question = self.first[i], self.owner[i]
        window = self.context[question].ids[first : first + self.n_context[i]]
        return np.concatenate([start, self.asked[question], end, window, end]).astype(np.int64)

    def spans(self) -> np.ndarray:
        """(windows, 2): the rows at which the first of each question's answers begins and ends; 0 and 0, which is <s>,
        where the window does not hold all of it."""
        rows = np.zeros((len(self), 2), np.int64)
        for i, question in enumerate(self.owner):
            answer = self.questions[question].answers[0]
            if not answer.is_found:
                continue
            first, last = self.context[question].span_of(answer)
            if self.first[i] <= first <= last < self.first[i] + self.n_context[i]:
                rows[i] = np.array([first, last]) - self.first[i] + self.offset[i]
        return rows


def with_history(question: Question, history: int) -> str:
    """The last `history` questions of the dialogue, and the one that is asked."""
    earlier = question.earlier[-history:] if history else ()
    return " ".join([*earlier, question.text])


def fit_to_learn(windows: Windows, spans: np.ndarray, max_answer: int) -> tuple[np.ndarray, Notes]:
    """Which windows are learned from: all those of a question, unless nothing could be learned from its answer."""
    notes = Notes()
    reached = np.bincount(windows.owner, weights=spans[:, 1] > 0, minlength=len(windows.questions)) > 0
    fit = np.ones(len(windows.questions), bool)
    for i, question in enumerate(windows.questions):
        answer, context = question.answers[0], windows.context[i]
        reasons = {
            "empty question": not question.text.strip(),
            "empty context": not question.context.strip(),
            "its answer does not stand in its context": answer.text and not answer.is_found,
            "no window holds the whole answer": answer.is_found and not reached[i],
        }
        reason = next((reason for reason, holds in reasons.items() if holds), None)
        if reason is not None:
            fit[i] = False
            notes.add(f"dropped: {reason}", question.place)
        elif answer.is_found:
            first, last = context.span_of(answer)
            start, end = context.characters(question.context, first, last)
            if question.context[start:end] != answer.text:
                notes.add("answer begins or ends inside a token: the whole token is learned", question.place)
            if last - first >= max_answer:
                notes.add(f"answer longer than the {max_answer} tokens that are ever answered", question.place)
    return np.flatnonzero(fit[windows.owner]), notes


@dataclass(frozen=True)
class PieceRows:
    """Some pieces, flat: tokens, how many each piece has, and for each word its last token and its number."""

    tokens: np.ndarray  # N ids
    lengths: np.ndarray  # tokens of each piece
    last: np.ndarray  # of each word, the place of its last token in `tokens`: a causal reader has then read all of it
    words: np.ndarray  # of each word, its place among all words


class WordPieces:
    """Sentences of words, one after the other; a word is read with the space before it.  `framed` pieces stand between
    <s> and </s>, as BERT reads them."""

    def __init__(
        self, sentences: WordLists, places: Sequence[str], tokenizer: Tokenizer, max_length: int, framed: bool = False
    ):
        self.frame = (tokenizer.start_id, tokenizer.end_id) if framed else ()
        room = max_length - len(self.frame)  # for words
        if room < 1:
            raise ConfigError(f"data.max_length = {max_length} leaves no room between <s> and </s>; raise it")
        distinct: dict[str, int] = {}
        self.words = np.array([distinct.setdefault(w, len(distinct)) for words in sentences for w in words], np.int64)
        self.spelling = tokenize([f" {word}" for word in distinct], tokenizer)
        lengths = np.minimum(self.spelling.lengths, room)
        self.word_lengths = lengths[self.words]  # in tokens
        self.notes = Notes()
        bounds: list[tuple[int, int]] = []  # of each piece, its first word and the one after its last
        owners: list[int] = []  # of each piece, its sentence
        start = 0
        for i, words in enumerate(sentences):
            stop = start + len(words)
            groups = cut(np.arange(start, stop), self.word_lengths, room)
            bounds += [(int(group[0]), int(group[-1]) + 1) for group in groups]
            owners += [i] * len(groups)
            if len(groups) > 1:
                self.notes.add(f"read in pieces: longer than {room} tokens", places[i])
            start = stop
        self.bounds, self.sentence = np.array(bounds, np.int64).reshape(-1, 2), np.array(owners, np.int64)
        ends = np.concatenate([[0], np.cumsum(self.word_lengths)])
        self.lengths = np.diff(ends[self.bounds])[:, 0] + len(self.frame)  # tokens of each piece, with its frame
        long_words = np.flatnonzero((self.spelling.lengths > room)[self.words])
        if len(long_words):
            piece = int(np.searchsorted(self.bounds[:, 1], long_words[0], side="right"))
            where = places[self.sentence[piece]]
            self.notes.add(f"word read by its last {room} tokens", where, len(long_words))

    def __len__(self) -> int:
        return len(self.bounds)

    def rows(self, pieces: np.ndarray) -> PieceRows:
        chosen = np.concatenate([np.arange(start, stop) for start, stop in self.bounds[pieces]])
        lengths, words = self.word_lengths[chosen], self.words[chosen]
        last = np.cumsum(lengths) - 1
        # Token j of the batch is as far from its word's last token here as in the spelling of the word.
        from_here = np.repeat(self.spelling.offsets[1:][words] - 1 - last, lengths) + np.arange(last[-1] + 1)
        tokens = self.spelling.ids[from_here].astype(np.int64)
        n_words, whole = np.diff(self.bounds[pieces])[:, 0], self.lengths[pieces]
        if not self.frame:
            return PieceRows(tokens, whole, last, chosen)
        start, end = self.frame
        further = 1 + 2 * np.arange(len(whole))  # so much later comes what a piece holds
        framed = np.full(int(whole.sum()), end, np.int64)
        framed[np.cumsum(whole) - whole] = start
        framed[np.arange(len(tokens)) + np.repeat(further, whole - 2)] = tokens
        return PieceRows(framed, whole, last + np.repeat(further, n_words), chosen)
