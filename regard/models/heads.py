"""What is read off a reader's hidden rows: the next word, a label for each sequence, a tag for each token."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ConfigError, RegardError
from regard.inputs import InputTable
from regard.models.cost import Cost
from regard.models.interface import Glance, Model, Reader
from regard.models.writing import TextWriter
from regard.nn.attention import Attention
from regard.nn.layout import Layout, Prompt
from regard.nn.linear import logits, n_weights
from regard.nn.loss import cross_entropy
from regard.nn.pooling import summary
from regard.nn.recurrent import Cell
from regard.nn.state import S

ROWS = 1 << 10  # rows whose logits are there at once
SHORTEST = 0.75  # of the longest prompt, that is read together with it: of four tokens one at most is padding


class ReaderHead(Model):
    """What is read off a reader's rows, here the rows themselves.  What else is asked of it, the reader answers."""

    reader: Reader

    def __init__(self, reader: Reader):
        super().__init__()
        self.reader, self.config, self.is_recordable = reader, reader.config, reader.is_recordable
        self.bidirectional, self.sees_future = reader.bidirectional, reader.sees_future
        self.dynamic_shapes = reader.dynamic_shapes

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one hidden row each (N, D)."""
        return self.reader(tokens, layout)

    @property
    def embedding(self) -> InputTable:
        return self.reader.embedding

    @property
    def word_vectors(self) -> nn.Parameter | None:
        return self.reader.word_vectors

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        return self.reader.attentions()

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        return self.reader.cells()

    def glance(self, tokens: Tensor) -> Glance:
        return self.reader.glance(tokens)

    def features(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self.reader.features(tokens, layout)

    def layers(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self.reader.layers(tokens, layout)

    def cost(self, length: int) -> Cost:
        return self.reader.cost(length).plus(self.own_multiplications())

    def own_multiplications(self) -> float:
        """For each row; a head that reads one summary off each sequence is counted as if it read every row."""
        return n_weights(*(part for part in self.children() if part is not self.reader))


class WordHead(ReaderHead):
    """A head that compares rows with a vector for each word: the embeddings, or an output table of its own."""

    own_table: nn.Parameter | None

    @property
    def output_table(self) -> Tensor:
        return self.reader.word_table if self.own_table is None else self.own_table

    def own_multiplications(self) -> float:
        return super().own_multiplications() + self.output_table.numel()


class LanguageModel(WordHead, TextWriter[S, S], Generic[S]):
    """P(x_t | x_<t) = softmax(E h_{t-1}); E are the embeddings where they are as wide as h (Press and Wolf 2017) and
    the reader's settings do not say tied = false."""

    reader: Reader[S]

    def __init__(self, reader: Reader[S]):
        if reader.sees_future:
            raise ConfigError("a language model must not see the future: it needs causal = true, bidirectional = false")
        super().__init__(reader)
        self.reads_on, self.is_capturable = not reader.sees_length, reader.is_capturable
        self.can_forget = reader.can_forget and not reader.sees_length
        vocab_size, d_model = reader.word_table.shape
        is_tied = d_model == reader.d_out and reader.config.tied
        self.own_table = None if is_tied else nn.Parameter(torch.empty(vocab_size, reader.d_out))
        if self.own_table is not None:
            nn.init.normal_(self.own_table, std=reader.d_out**-0.5)

    def nats(self, tokens: Tensor, labels: Tensor, layout: Layout, smoothing: float = 0.0) -> Tensor:
        return cross_entropy(self(tokens, layout), self.output_table, labels, smoothing)

    def compile_passes(self) -> None:
        super().compile_passes()
        eager = self.reader.penalized_carry
        compiled = torch.compile(eager, dynamic=False)
        longest = 0  # tokens of the windows that are compiled

        def read_on(tokens: Tensor, layout: Layout, state: S | None) -> tuple[Tensor, S, Tensor]:
            """The first windows of an epoch have less before them, and the last ones are shorter: a graph for each of
            them would take minutes."""
            nonlocal longest
            if state is None or not self.reader.has_settled(state):
                return eager(tokens, layout, state)
            n = layout.n_sequences * layout.longest
            longest = max(longest, n)
            return (compiled if n == longest else eager)(tokens, layout, state)

        self.reader.penalized_carry = read_on  # type: ignore[method-assign]

    def guesses(self, tokens: Tensor, layout: Layout) -> Tensor:
        parts = self(tokens, layout).split(ROWS)
        return torch.cat([logits(rows, self.output_table).argmax(-1) for rows in parts])

    def carried_nats(
        self, tokens: Tensor, labels: Tensor, layout: Layout, state: S | None, smoothing: float = 0.0
    ) -> tuple[Tensor, S]:
        rows, after = self.reader.carry(tokens, layout, state)
        return cross_entropy(rows, self.output_table, labels, smoothing), after

    def carried_loss(
        self, tokens: Tensor, labels: Tensor, layout: Layout, state: S | None, smoothing: float
    ) -> tuple[Tensor, S]:
        """`carried_nats` and what the reader adds to them in training."""
        rows, after, penalty = self.reader.penalized_carry(tokens, layout, state)
        return cross_entropy(rows, self.output_table, labels, smoothing) + len(labels) * penalty, after

    # Decoding: the interface of `regard.decoding.interface`.

    def start(self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int = 256) -> tuple[S, Tensor]:
        """A text goes on from its prompt; where that is empty, it begins with `begin`."""
        texts = [[*prompt] or [begin] for prompt in prompts]
        longest = max(map(len, texts))
        if longest - 1 + room > self.max_length:
            raise RegardError(
                f"a prompt of {longest} tokens and {room} more do not fit the model's {self.max_length}; "
                "shorten the prompt or ask for fewer"
            )
        state: S | None = None
        order: list[int] = []
        last_rows: list[Tensor] = []
        share = SHORTEST if self.can_forget else 1.0
        for places in alike(list(map(len, texts)), share):
            lengths = torch.tensor([len(texts[i]) for i in places], device=self.device)
            n = max(len(texts[i]) for i in places)
            part = self.reader.start(len(places), longest - 1 + room)
            padded = [texts[i] + [0] * (n - len(texts[i])) for i in places]
            rows = self.reader.step(torch.tensor(padded, device=self.device), part)
            last_rows.append(rows[torch.arange(len(places), device=self.device), lengths - 1])
            if min(len(texts[i]) for i in places) < n:
                part.truncate(lengths)  # what a row read too far was not used yet
            if state is None:
                state = part
            else:
                state.join(part)
            order += places
        assert state is not None
        asked = torch.tensor(order).argsort().to(self.device)  # the texts as they were asked for
        if copies > 1 or len(order) > 1:
            state.select(asked.repeat_interleave(copies))
        return state, logits(torch.cat(last_rows)[asked], self.output_table)

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """The next tokens of each row (rows, n) -> the logits after each of them (rows, n, V)."""
        return logits(self.reader.step(tokens, state), self.output_table)


def alike(lengths: list[int], share: float) -> list[list[int]]:
    """Places in groups, the shortest first, in which no length is below `share` of the longest."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if groups and lengths[i] >= share * lengths[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups[::-1]


# What may stand between a summary and the labels: a layer with one of these activations.
POOLERS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "none": None,
    "tanh": torch.tanh,  # BERT and RoBERTa
    "relu": F.relu,  # DistilBERT
    "gelu": F.gelu,  # ELECTRA
}


class Classifier(ReaderHead):
    """P(label | x_1 .. x_T) = softmax(W s + b), with one summary s of all rows; with a pooler, s is f(U s' + u) of the
    summary s'  (Devlin et al. 2019: of the first row, and f = tanh)"""

    def __init__(self, reader: Reader, n_labels: int, pooling: str, dropout: float, pooler: str = "none"):
        super().__init__(reader)
        self.pooling = pooling
        self.activation = POOLERS[pooler]
        self.pooler = None if self.activation is None else nn.Linear(reader.d_out, reader.d_out)
        self.dropout = nn.Dropout(dropout)
        self.to_labels = nn.Linear(reader.d_out, n_labels)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> logits (B, labels)."""
        return self.label_logits(self.reader(tokens, layout), layout)

    def label_logits(self, rows: Tensor, layout: Layout) -> Tensor:
        """Hidden rows (N, D) -> logits (B, labels)."""
        summaries = summary(rows, layout, self.pooling, self.bidirectional)
        if self.pooler is not None and self.activation is not None:
            summaries = self.activation(self.pooler(summaries))
        return self.to_labels(self.dropout(summaries))


class Tagger(ReaderHead):
    """P(tag_t | x_1 .. x_T) = softmax(W h_t + b)"""

    def __init__(self, reader: Reader, n_tags: int, dropout: float):
        super().__init__(reader)
        self.dropout = nn.Dropout(dropout)
        self.to_tags = nn.Linear(reader.d_out, n_tags)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> logits (N, tags)."""
        return self.to_tags(self.dropout(self.reader(tokens, layout)))
