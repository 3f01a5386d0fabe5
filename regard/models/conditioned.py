"""Writing from a label (vec2seq): a vector x is read before the text, or beside each of its tokens."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self, cast

import torch
from torch import Tensor, nn

from regard.checks import expect
from regard.errors import RegardError
from regard.inputs import LabeledWords, Words, paired
from regard.models.heads import LanguageModel
from regard.models.interface import Reader
from regard.nn.layout import Prompt
from regard.nn.state import JointState, S, State


class Conditioned(LanguageModel[S]):
    """P(y_1 .. y_T | x) = prod_t P(y_t | x, y_<t)   (vec2seq), where x is the learned vector of a label."""

    def __init__(self, reader: Reader[S], n_labels: int):
        super().__init__(reader)
        self.n_labels, self.vocab_size = n_labels, len(reader.word_table)

    def first(self, label: int) -> int:
        """The id that a text with this label begins with."""
        if not 0 <= label < self.n_labels:
            raise RegardError(f"there is no label {label}; the model has {self.n_labels}, counted from 0")
        return self.begin(label)

    @abstractmethod
    def begin(self, label: int) -> int: ...


class LabelFirst(Conditioned[S]):
    """The vector is what a causal reader reads first, where another text has <s>.  Of a recurrent net that makes the
    state from which it writes, h_0 = cell(x, 0); others look back at it from every place.  The vectors are rows of the
    embeddings after those of the tokens, as the control codes of Keskar et al. (2019) are, but no label is ever
    written: the output table ends before them.
    """

    def __init__(self, reader: Reader[S], n_labels: int):
        super().__init__(reader, n_labels)
        of_words = reader.word_table.detach()
        d_model = of_words.shape[1]
        of_labels = nn.init.normal_(of_words.new_empty(n_labels, d_model), std=d_model**-0.5)
        reader.embedding.replace_vectors(nn.Parameter(torch.cat([of_words, of_labels])))

    @property
    def output_table(self) -> Tensor:
        return super().output_table[: self.vocab_size]

    def begin(self, label: int) -> int:
        return self.vocab_size + label


class LabelBeside(Conditioned[S]):
    """h_t = f([x; y_{t-1}], h_{t-1}), y_0 = 0: a recurrent net reads the vector at every step and cannot forget it.

    What it reads are pairs of label and word, with one id for both (`LabeledWords`); what it writes are words.
    """

    def __init__(self, reader: Reader[S], n_labels: int, d_vector: int):
        reader.read_rows_of(LabeledWords(expect(reader.embedding, Words), n_labels, d_vector))
        super().__init__(reader, n_labels)
        self.is_capturable = False  # a state has labels besides

    def begin(self, label: int) -> int:
        return paired(self.vocab_size, label, self.vocab_size)

    def start(  # type: ignore[override]  # its states also know the labels
        self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int = 256
    ) -> "tuple[LabeledText, Tensor]":
        """The first id of a prompt says the label, and words may follow it."""
        texts = [[*prompt] or [begin] for prompt in prompts]
        labels = [text[0] // paired(0, 1, self.vocab_size) for text in texts]
        pairs = [
            [text[0], *(paired(word, label, self.vocab_size) for word in text[1:])]
            for text, label in zip(texts, labels, strict=True)
        ]
        read, first = super().start(pairs, begin, copies, room)
        return LabeledText(read, torch.tensor(labels, device=self.device).repeat_interleave(copies)), first

    def step(self, tokens: Tensor, state: State) -> Tensor:
        own = expect(state, LabeledText)
        return super().step(paired(tokens, own.labels[:, None], self.vocab_size), cast(S, own.read))


class LabeledText(JointState):
    """What was read, and the label of each row."""

    def __init__(self, read: State, labels: Tensor):
        super().__init__(read)
        self.read, self.labels = read, labels

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.labels = self.labels[rows]

    def reorder(self, rows: Tensor) -> None:
        super().reorder(rows)
        self.labels = self.labels[rows]

    def join(self, other: Self) -> None:
        super().join(other)
        self.labels = torch.cat([self.labels, other.labels])
