"""What is read off a reader's hidden rows: the next word, a label for each sequence, a tag for each token.

A reader is any model of this folder that turns tokens (N,) and their layout into one row each, (N, d_out).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import ConfigError, RegardError
from regard.nn.attention import MultiHeadAttention
from regard.nn.layout import Layout
from regard.nn.linear import logits
from regard.nn.loss import cross_entropy
from regard.nn.pooling import summary

ROWS = 1 << 10  # rows whose logits are there at once
SHORTEST = 0.75  # of the longest prompt, that is read together with it: of four tokens one at most is padding


class Head(nn.Module):
    """What is read off a reader's rows; whoever holds it may also ask for what the reader has."""

    def __init__(self, reader: Any):
        super().__init__()
        self.reader, self.config = reader, reader.config

    @property
    def embedding(self) -> nn.Embedding:
        table: nn.Embedding = self.reader.embedding
        return table

    @property
    def device(self) -> torch.device:
        return self.embedding.weight.device

    @property
    def is_recordable(self) -> bool:
        return getattr(self.reader, "is_recordable", False)

    def attentions(self) -> Iterator[tuple[str, int, MultiHeadAttention]]:
        return attentions_of(self.reader)


class LanguageModel(Head):
    """P(x_t | x_<t) = softmax(E h_{t-1}); E are the embeddings where they are as wide as h (Press and Wolf 2017) and
    the reader's settings do not say tied = false."""

    def __init__(self, reader: Any):
        if sees_future(reader):
            raise ConfigError("a language model must not see the future: it needs causal = true, bidirectional = false")
        super().__init__(reader)
        vocab_size, d_model = reader.embedding.weight.shape
        is_tied = d_model == reader.d_out and getattr(reader.config, "tied", True)
        self.own_table = None if is_tied else nn.Parameter(torch.empty(vocab_size, reader.d_out))
        if self.own_table is not None:
            nn.init.normal_(self.own_table, std=reader.d_out**-0.5)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> the hidden row behind each next token (N, D)."""
        rows: Tensor = self.reader(tokens, layout)
        return rows

    def nats(self, tokens: Tensor, labels: Tensor, layout: Layout, smoothing: float = 0.0) -> Tensor:
        """-log P of all labels, each after its token and those before it."""
        return cross_entropy(self(tokens, layout), self.output_table, labels, smoothing)

    def guesses(self, tokens: Tensor, layout: Layout) -> Tensor:
        """The likeliest next token after each (N)."""
        parts = self(tokens, layout).split(ROWS)
        return torch.cat([logits(rows, self.output_table).argmax(-1) for rows in parts])

    def carried_nats(
        self, tokens: Tensor, labels: Tensor, layout: Layout, state: Any, smoothing: float = 0.0
    ) -> tuple[Tensor, Any]:
        """The same for texts that go on where the state (None: nowhere) was left; with the state after them."""
        rows, after = self.reader.carry(tokens, layout, state)
        return cross_entropy(rows, self.output_table, labels, smoothing), after

    @property
    def output_table(self) -> Tensor:
        table: Tensor = self.reader.embedding.weight
        return table if self.own_table is None else self.own_table

    # Decoding: the interface of `regard.decoding.interface`.

    def start(self, prompts: list[list[int]], copies: int = 1, room: int = 256) -> "Text":
        """Read all of each prompt but its last token, which the first step will read."""
        if not all(prompts):
            raise RegardError("a text must begin with something: a prompt is empty")
        longest = max(map(len, prompts))
        if longest - 1 + room > self.reader.max_length:
            raise RegardError(
                f"a prompt of {longest} tokens and {room} more do not fit the model's {self.reader.max_length}; "
                "shorten the prompt or ask for fewer"
            )
        state: Any = None
        order: list[int] = []
        share = SHORTEST if getattr(self.reader, "can_forget", False) else 1.0
        for rows in alike([len(prompt) - 1 for prompt in prompts], share):
            lengths = torch.tensor([len(prompts[i]) - 1 for i in rows])
            n = int(lengths.max())
            part = self.reader.start(len(rows), longest - 1 + room)
            if n:
                padded = [prompts[i][:-1] + [0] * (n - len(prompts[i]) + 1) for i in rows]
                self.reader.step(torch.tensor(padded, device=self.device), part)
            if int(lengths.min()) < n:
                part.truncate(lengths.to(self.device))  # what a row read too far, nobody has seen
            if state is None:
                state = part
            else:
                state.join(part)
            order += rows
        places = torch.tensor(order).argsort().repeat_interleave(copies)
        state.select(places.to(self.device))
        last = torch.tensor([prompt[-1] for prompt in prompts]).repeat_interleave(copies)
        return Text(state, last.to(self.device))

    def step(self, tokens: Tensor, state: "Text") -> Tensor:
        """The next tokens of each row (rows, n) -> the logits after each of them (rows, n, V).

        A search begins every row with a start token; a text has begun already, and goes on with its prompt's last.
        """
        if state.last is not None:
            tokens = torch.cat([state.last[:, None], tokens[:, 1:]], 1)
            state.last = None
        return logits(self.reader.step(tokens, state.read), self.output_table)


def alike(lengths: list[int], share: float) -> list[list[int]]:
    """Places in groups, the shortest first, in which no length is below `share` of the longest."""
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if groups and lengths[i] >= share * lengths[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups[::-1]


class Text:
    """What a language model has read: the reader's state, and the last token of the prompts until it is stepped."""

    def __init__(self, read: Any, last: Tensor | None):
        self.read, self.last = read, last

    @property
    def n_rows(self) -> int:
        n: int = self.read.n_rows
        return n

    @property
    def lengths(self) -> Tensor:
        lengths: Tensor = self.read.lengths
        return lengths

    def select(self, rows: Tensor) -> None:
        self.read.select(rows)
        self.last = None if self.last is None else self.last[rows]

    def reorder(self, rows: Tensor) -> None:
        self.read.reorder(rows)
        self.last = None if self.last is None else self.last[rows]

    def truncate(self, lengths: Tensor) -> None:
        self.read.truncate(lengths)

    def join(self, other: "Text") -> None:
        if (self.last is None) != (other.last is None):
            raise RegardError("texts that were stepped and texts that were not cannot be joined")
        self.read.join(other.read)
        self.last = None if self.last is None or other.last is None else torch.cat([self.last, other.last])


# What may stand between a summary and the labels: a layer with one of these activations.
POOLERS: dict[str, Callable[[Tensor], Tensor] | None] = {
    "none": None,
    "tanh": torch.tanh,  # BERT and RoBERTa
    "relu": F.relu,  # DistilBERT
    "gelu": F.gelu,  # ELECTRA
}


class Classifier(Head):
    """P(label | x_1 .. x_T) = softmax(W s + b), with one summary s of all rows; with a pooler, s is f(U s' + u) of the
    summary s'  (Devlin et al. 2019: of the first row, and f = tanh)"""

    def __init__(self, reader: Any, n_labels: int, pooling: str, dropout: float, pooler: str = "none"):
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
        found = summary(rows, layout, self.pooling, is_bidirectional(self.reader))
        if self.pooler is not None and self.activation is not None:
            found = self.activation(self.pooler(found))
        answers: Tensor = self.to_labels(self.dropout(found))
        return answers


class Tagger(Head):
    """P(tag_t | x_1 .. x_T) = softmax(W h_t + b)"""

    def __init__(self, reader: Any, n_tags: int, dropout: float):
        super().__init__(reader)
        self.dropout = nn.Dropout(dropout)
        self.to_tags = nn.Linear(reader.d_out, n_tags)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> logits (N, tags)."""
        return self.to_tags(self.dropout(self.reader(tokens, layout)))


class Bare(Head):
    """The reader alone: its rows are what is asked of it."""

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one hidden row each (N, D)."""
        rows: Tensor = self.reader(tokens, layout)
        return rows


def attentions_of(reader: Any) -> Iterator[tuple[str, int, MultiHeadAttention]]:
    """Those of a reader that attends; of the others, none."""
    return reader.attentions() if hasattr(reader, "attentions") else iter(())


def sees_future(reader: Any) -> bool:
    return is_bidirectional(reader) or not getattr(reader.config, "causal", True)


def is_bidirectional(reader: Any) -> bool:
    """Whether the second half of its rows was read from right to left."""
    return getattr(reader, "bidirectional", False)
