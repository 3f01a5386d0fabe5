"""Tagged words as tokens, and the batches made of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from regard.data.batching.batch import SequenceBatch
from regard.data.batching.windows import WordPieces
from regard.data.files.labelled import Tagged
from regard.data.notes import Notes
from regard.data.report import Row, note_rows
from regard.nn.layout import Ragged
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TagBatch(SequenceBatch):
    """Flat rows.  The tag of a word is read off the row of its last token."""

    last: Tensor  # the row of each word's last token
    tags: Tensor  # of each word

    @property
    def n_targets(self) -> int:
        return len(self.tags)


class TaggedSet:
    """One split: its sentences as pieces of tokens, and the number of every word's tag."""

    def __init__(self, tagged: Tagged, tags: Sequence[str], tokenizer: Tokenizer, max_length: int, framed: bool):
        tagged.expect(tags)
        self.tagged = tagged
        self.pieces = WordPieces(tagged.words, tagged.places, tokenizer, max_length, framed)
        self.lengths = self.pieces.lengths
        place = {tag: i for i, tag in enumerate(tags)}
        self.tags = np.array([place[tag] for tag in chain.from_iterable(tagged.tags)], np.int64)
        self.notes = Notes()
        self.notes.update(tagged.notes)
        self.notes.update(self.pieces.notes)

    def batch(self, pieces: np.ndarray) -> TagBatch:
        rows = self.pieces.rows(pieces)
        lines = [self.tagged.places[i] for i in self.pieces.sentence[pieces]]
        tokens, last, tags = map(torch.from_numpy, (rows.tokens, rows.last, self.tags[rows.words]))
        return TagBatch(lines, tokens, Ragged(torch.from_numpy(rows.lengths)), last, tags)

    def describe(self) -> str:
        n_tokens = int(self.lengths.sum())
        return f"{len(self.tagged):,} sentences, {len(self.tags):,} words, {n_tokens:,} tokens"

    def report(self, part: str) -> list[Row]:
        """For the doctor: how much there is, how long it is, and how often each tag."""
        counts = Counter(chain.from_iterable(self.tagged.tags))
        n_words, longest = len(self.tags), int(self.lengths.max())
        return [
            Row(part, "sentences, words", f"{len(self.tagged):,}, {n_words:,}"),
            Row(part, "tokens per word", f"{int(self.lengths.sum()) / n_words:.2f}"),
            Row(part, "pieces, tokens of the longest", f"{len(self.pieces):,}, {longest:,}"),
            *(Row(part, f"tag {tag}", f"{n:,} ({100 * n / n_words:.1f} %)") for tag, n in counts.most_common()),
            *note_rows(part, self.notes),
        ]
