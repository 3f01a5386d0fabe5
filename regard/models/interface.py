"""What models are: their settings, their cost, and what all of them, readers and translators answer."""

import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self

import torch
from torch import Tensor, nn

from regard.checks import at_most
from regard.errors import ConfigError, RegardError
from regard.inputs import InputTable, Words
from regard.memory import check_memory
from regard.models.cost import Cost
from regard.nn.attention import Attention
from regard.nn.grid import GridForm
from regard.nn.layout import Layout, Prompt
from regard.nn.state import S

LARGEST = 2**31 - 1  # of a size
MOST = {"n_layers": 300, "n_task_layers": 300, "order": 100}  # of what is made one by one


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings of an architecture: it adds its own, and what is asked here of one without such a setting has an
    answer too."""

    vocab_size: int  # left out: taken from the tokenizer

    max_length = sys.maxsize  # tokens of a sequence; where a model has no limit, a number that no text reaches
    d_model = 1  # the width of a row, by which the paper's schedule divides; 1: the model has no rows
    score = "none"  # by which its attention compares; "none": it does not attend
    n_segments = 0  # parts of a sequence that it tells apart; 0: it does not
    tied = True  # whether the embeddings are also the output table, where they are as wide as rows

    def check_sizes(self) -> None:
        """Raise where one is larger than any machine could use: a recipe may come from elsewhere."""
        sizes = [field.name for field in fields(self) if field.type is int]
        for name in sizes:
            at_most(self, MOST.get(name, LARGEST), name)

    @property
    def kept_per_token(self) -> int:
        """Numbers that a state keeps of every token that was read, so as to look back at it."""
        return 0

    @property
    def position(self) -> str | None:
        """The name of the position encoding that the input meets first; None: there is none."""
        return None

    @property
    def steady_length(self) -> int:
        """The longest text whose rows do not depend on how long it is; what stands beside it never counts."""
        return self.max_length

    @property
    def grid(self) -> GridForm | None:
        """How an image becomes rows; None: the model reads text."""
        return None

    @property
    def needs_weights(self) -> bool:
        """Whether a part stays as another run has learned it, so that training cannot begin without that run."""
        return False

    @property
    def separator(self) -> int | None:
        """The token that ends a segment; None: segments are not told apart."""
        return None

    def with_labels(self, n_labels: int) -> Self:
        """As the data have them, where the model is a classifier itself."""
        return self

    def as_imported(self, other: "ModelConfig") -> Self:
        """With what belongs to the tokenizer of an imported model: its table may have more rows than there are tokens,
        and another token may end a segment."""
        changes = {"vocab_size": other.vocab_size}
        if self.separator is not None and other.separator is not None:
            changes["separator"] = other.separator
        return replace(self, **changes)


class Model(nn.Module, ABC):
    """What the rest of the library may ask of any model, with the answer that most give."""

    role: ClassVar[str]  # "reader": a task reads off its rows; otherwise what it is by itself
    is_counted: ClassVar[bool] = False  # trained by counting, without gradients, by its `count`
    is_exportable: ClassVar[bool] = False  # to tools that run it without its code: ONNX, CTranslate2
    is_fitted: ClassVar[bool] = False  # chooses its features from all documents before training

    config: ModelConfig
    is_capturable = False  # by CUDA graphs in decoding: the tensors of a state stay in place
    is_recordable = False  # by CUDA graphs in training: batches of one shape take the same kernels
    has_fixed_shapes = False  # it is compiled anew for batches of another shape; else once for all of them
    bidirectional = False  # the second half of its rows was read from right to left
    sees_future = False  # a row depends on what comes after its token

    @property
    def max_length(self) -> int:
        """Tokens of the longest sequence that it takes."""
        return self.config.max_length

    @property
    def device(self) -> torch.device:
        return next(itertools.chain(self.parameters(), self.buffers())).device

    def check_room(self, n_rows: int, room: int) -> None:
        """Raise where a search of so many rows, each of up to `room` tokens, takes more memory than there is.

        A row has what it keeps of its tokens, twice while rows change places, its logits with their order, and a
        record of its steps.  A GPU says by itself when it is full.
        """
        if self.device.type == "cpu":
            n_numbers = 2 * room * self.config.kept_per_token + 4 * self.config.vocab_size + 25 * room
            what = f"a search of {n_rows:,} rows of up to {room:,} tokens"
            check_memory(4 * n_rows * n_numbers, what, "lower beam, n_best, the length or batch_tokens")

    def fit(self, tokens: Sequence[str], batches: Iterable[tuple[Tensor, Layout, Tensor]]) -> None:
        """Choose features from all documents, where it `is_fitted`."""

    def name_in_reader(self, name: str) -> str | None:
        """Of a model whose source some reader could read: what that reader calls this weight, where it has it."""
        return None

    @property
    def word_vectors(self) -> nn.Parameter | None:
        """(V, D): the embeddings; None: it has none."""
        return None

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        """(kind, layer, module) of each layer of attention, kind being "encoder", "decoder", "cross" or "self"."""
        return iter(())

    def features(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> what the model knows of each, (N, D)."""
        raise RegardError("this model makes no hidden rows: it cannot embed a text")

    def layers(self, tokens: Tensor, layout: Layout) -> Tensor:
        """The features of every layer, the embeddings being layer 0: (layers + 1, N, D)."""
        raise RegardError("this model gives the rows of its last layer only; leave out the layer")

    @abstractmethod
    def cost(self, length: int) -> Cost:
        """Per token of sequences of `length`."""


class Reader(Model, Generic[S]):
    """Token ids (N) and their layout -> one hidden row each (N, d_out), off which a head reads what a task asks.

    With other inputs than tokens, an `InputTable` of its own makes the rows that its layers read.
    """

    role = "reader"
    embedding: InputTable
    can_forget = False  # its states can be truncated
    sees_length = False  # a row depends on how long its text is by then (rotary_scaling = "dynamic")
    can_carry = False  # it can go on from the state in which another text left it
    can_fill = False  # it can learn to predict masked words from both sides
    has_two_streams = False  # it can predict tokens in any order (`XLNet.predict_targets`)
    is_sequential = False  # it computes one token after the other

    @property
    def d_out(self) -> int:
        return self.config.d_model

    @property
    def word_vectors(self) -> nn.Parameter | None:
        return self.embedding.vectors

    @property
    def word_table(self) -> nn.Parameter:
        """The embeddings (V, D), for callers that need them."""
        if self.word_vectors is None:
            raise ConfigError("this task predicts words, so it needs a model that reads words")
        return self.word_vectors

    @abstractmethod
    def forward(self, tokens: Tensor, layout: Layout) -> Tensor: ...

    def segments(self, tokens: Tensor, layout: Layout) -> Tensor:
        """The part of its sequence that each token is in (N)."""
        return torch.zeros_like(tokens)

    def features(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self(tokens, layout)

    @abstractmethod
    def multiplications(self, length: int) -> float:
        """For each row of a sequence of `length`: one for every weight of its matrices, and what attention looks at.

        Tables that are looked up cost nothing.
        """

    def cost(self, length: int) -> Cost:
        looks = f" and token, 2 or 3 products per key looked at; {length} tokens" if any(self.attentions()) else ""
        return Cost(2 * self.multiplications(length), f"2 per weight{looks}", self.is_sequential)

    def carry(self, tokens: Tensor, layout: Layout, state: S | None) -> tuple[Tensor, S]:
        """Read on from a state (None: nothing was read), whose past gets no gradient; with the state after it."""
        raise ConfigError("this model cannot go on from a state: set carry = false, or take a recurrent model")

    def state_of(self, tensors: dict[str, Tensor]) -> S:
        """A state from what its `tensors` gave."""
        raise ConfigError("this model has no state that could be restored")

    # Decoding: the interface of `regard.decoding.interface`, with hidden rows in place of logits.

    def start(self, n_rows: int, room: int) -> S:
        """Nothing read yet, and room for `room` tokens a row."""
        raise RegardError("this model reads whole texts and cannot write")

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """The next tokens of each row (rows, n) -> the hidden row of each (rows, n, d_out).  The state advances."""
        raise RegardError("this model reads whole texts and cannot write")


class Translator(Model, Generic[S]):
    """Reads a source, then writes a target: P(next token) = softmax(table h + bias)."""

    role = "translator"
    embedding: Words  # of targets, and of sources where these are words
    own_table: nn.Parameter | None  # None: the embeddings are the output table
    output_bias: nn.Parameter | None

    @abstractmethod
    def forward(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> Tensor:
        """Inputs (N), such as token ids, of both sides -> the hidden row that predicts each next token (N, D)."""

    @abstractmethod
    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        """Inputs (N) of sources -> one row each (N, D)."""

    def penalized(
        self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout
    ) -> tuple[Tensor, Tensor]:
        """`forward`, and what training adds to the loss of all targets together; most models add nothing."""
        hidden = self(source, source_layout, target, target_layout)
        return hidden, hidden.new_zeros(())

    @property
    def inputs(self) -> InputTable:
        """Of sources."""
        return self.embedding

    def n_source_rows(self, length: int) -> int:
        """Rows of the source of a target of `length` tokens, for which costs are given."""
        return length

    def features(self, tokens: Tensor, layout: Layout) -> Tensor:
        return self.encode(tokens, layout)

    @property
    def word_vectors(self) -> nn.Parameter | None:
        return self.embedding.vectors

    @property
    def output_table(self) -> Tensor:
        """(V, D)"""
        return self.embedding.vectors if self.own_table is None else self.own_table

    @abstractmethod
    def start(self, prompts: Sequence[Prompt], copies: int = 1, room: int | None = None) -> S:
        """Read the sources; every source then has `copies` rows that write their own target and share its memory."""

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> Tensor:
        """The next tokens of each row (rows, n) -> the logits after each of them (rows, n, V)."""


AnyReader = Reader[Any]  # whatever its state
AnyTranslator = Translator[Any]
