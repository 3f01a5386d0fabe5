"""What models are: what all of them, readers and translators answer."""

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, RegardError
from regard.inputs import InputTable, Words
from regard.memory import check_memory
from regard.models.config import ModelConfig
from regard.models.cost import Cost
from regard.nn.attention import Attention
from regard.nn.layout import Layout, Prompt, Ragged
from regard.nn.recurrent import Cell
from regard.nn.state import S


class Glance(NamedTuple):
    """A pass over one text whose attention can be watched."""

    read: Callable[[], object]
    begin: int  # the token whose row looks first
    # of each row that is looked at: the first of the tokens that it was made of, and the one after the last
    made_of: list[tuple[int, int]]


class Model(nn.Module, ABC):
    """What the rest of the library may ask of any model, with the answer that most give."""

    role: ClassVar[str]  # "reader": a task reads off its rows; otherwise what it is by itself
    is_counted: ClassVar[bool] = False  # trained by counting, without gradients, by its `count`
    is_exportable: ClassVar[bool] = False  # to tools that run it without its code: ONNX, CTranslate2
    is_fitted: ClassVar[bool] = False  # chooses its features from all documents before training

    config: ModelConfig
    is_capturable = False  # by CUDA graphs in decoding: the tensors of a state stay in place
    reads_on = False  # in decoding: a prompt can be read in pieces
    can_forget = False  # in decoding: tokens can be taken back (its states can be truncated)
    is_recordable = False  # by CUDA graphs in training: batches of one shape take the same kernels
    is_sequential = False  # it computes one token after the other, in training too
    learns_by_carrying = False  # some weights learn only where texts are carried on from batch to batch
    # How it is compiled, as in torch.compile: once for batches of all shapes (True), anew for each shape (False), or
    # anew when something changes that did not change before (None)
    dynamic_shapes: bool | None = True
    bidirectional = False  # the second half of its rows was read from right to left
    sees_future = False  # a row depends on what comes after its token

    @property
    def max_length(self) -> int:
        """Tokens of the longest sequence that it takes."""
        return self.config.longest_text

    @property
    def read_at_once(self) -> int:
        """Tokens of a text that are made one vector of together."""
        return min(self.max_length, self.config.read_at_once)

    @property
    def learned_at_once(self) -> int:
        """Tokens of a text through which gradients go back."""
        return self.max_length

    def glance(self, tokens: Tensor) -> Glance:
        """How one text (N), or the last part of one without end, is read, so that attention can be watched."""
        layout = Ragged([len(tokens)], self.device)
        return Glance(lambda: self(tokens, layout), 0, [(i, i + 1) for i in range(len(tokens))])

    @property
    def device(self) -> torch.device:
        return next(itertools.chain(self.parameters(), self.buffers())).device

    def halved(self) -> Self:
        """A copy whose weights are in bfloat16."""
        return copy.deepcopy(self).bfloat16()

    def check_room(self, n_rows: int, room: int) -> None:
        """Raise where a search of so many rows, each of up to `room` tokens, takes more memory than there is.

        A row has what it keeps of its tokens, twice while rows change places, its logits with their order, and a
        record of its steps.
        """
        n_kept = self.config.most_kept if self.config.allocated_at_once else min(room, self.config.most_kept)
        n_numbers = 2 * n_kept * self.config.kept_per_token + 4 * self.config.vocab_size + 25 * room
        what = f"a search of {n_rows:,} rows of up to {room:,} tokens"
        n_bytes = 4 * n_rows * n_numbers
        free = None if self.device.type == "cpu" else free_on(self.device, n_bytes)
        check_memory(n_bytes, what, "lower beam, n_best, the length or batch_tokens", free)

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

    def cells(self) -> Iterator[tuple[int, int, Cell]]:
        """(layer, direction, cell) of each recurrent layer that reads a text, direction 1 being from right to left."""
        return iter(())

    def compile_passes(self) -> None:
        """Compile what a training calls, in place."""
        self.compile(dynamic=self.dynamic_shapes)

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
    sees_length = False  # a row depends on how long its text is by then (rotary_scaling = "dynamic")
    can_carry = False  # it can go on from the state in which another text left it
    can_fill = False  # it can learn to predict masked words from both sides
    has_two_streams = False  # it can predict tokens in any order (`XLNet.predict_targets`)
    takes_inputs = False  # it can read what another table makes rows of, in place of words

    def take_inputs(self, inputs: InputTable) -> None:
        """Read these, in place of words."""
        if not self.takes_inputs:
            raise ConfigError("this model reads words alone; stack, recurrent and convolutional can read other inputs")
        if self.config.n_segments:
            raise ConfigError("segments end with a token: n_segments must be 0 where a model does not read words")
        if inputs.d_out != self.embedding.d_out:
            raise ConfigError(f"the inputs become rows of {inputs.d_out} numbers, and this model reads other ones")
        self.embedding = inputs

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

    def read_rows_of(self, inputs: InputTable) -> None:
        """Take another input table, whose rows may be wider."""
        raise ConfigError("only a recurrent model reads a vector beside every token: set task.d_vector = 0")

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

    def penalized_carry(self, tokens: Tensor, layout: Layout, state: S | None) -> tuple[Tensor, S, Tensor]:
        """`carry`, and what training adds to the loss of every token; most models add nothing."""
        rows, after = self.carry(tokens, layout, state)
        return rows, after, rows.new_zeros(())

    def has_settled(self, state: S) -> bool:
        """Whether what comes before a window is as large as it will ever be: reading on from there is worth compiling,
        as all windows that follow take the same graph."""
        return False

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
    def start(
        self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int | None = None
    ) -> tuple[S, Tensor]:
        """Read the sources, and write after the token `begin`: the logits (prompts, V) of the first token.  Every
        source then has `copies` rows that write their own target and share its memory."""

    @abstractmethod
    def step(self, tokens: Tensor, state: S) -> Tensor:
        """The next tokens of each row (rows, n) -> the logits after each of them (rows, n, V)."""

    def first_logits(self, begin: int, state: S) -> Tensor:
        """After the token with which every target begins: (rows, V)."""
        return self.step(torch.full((state.n_rows, 1), begin, device=self.device), state)[:, -1]


def free_on(device: torch.device, enough: int) -> int:
    """Bytes of a GPU that are free, or, unless that is enough, that PyTorch holds besides and does not use."""
    free = torch.cuda.mem_get_info(device)[0]
    if free >= enough:
        return free
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


AnyReader = Reader[Any]  # whatever its state
AnyTranslator = Translator[Any]
