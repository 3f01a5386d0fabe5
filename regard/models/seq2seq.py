"""The recurrent encoder-decoder, with attention (Bahdanau et al. 2015) or without (Sutskever et al. 2014).

By default the order of computation is Luong's: the decoder reads the target first, all of it in one fused kernel, and
then all its states look at the source at once.  Where what was seen enters the next state (`look`: Luong's input
feeding, Bahdanau's own order), nothing can be computed ahead: training, too, goes through the target step by step.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.checks import at_least, one_of, share
from regard.choose import choose
from regard.errors import ConfigError
from regard.inputs import Words
from regard.models.config import ModelConfig
from regard.models.cost import Cost, translator_cost
from regard.models.interface import Translator
from regard.models.recurrent import RecurrentState
from regard.models.transformer import initialize
from regard.nn.attention import Attention, GlobalAttention, Memory
from regard.nn.cache import Cache, TranslatorState
from regard.nn.layer_dropout import LayerDropout
from regard.nn.layout import Layout, Moment, Prompt
from regard.nn.linear import Linear, logits, n_weights
from regard.nn.pooling import summary
from regard.nn.recurrent import CELLS, RecurrentStack
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, everywhere

LOOKS = ("after", "feed", "before")


@dataclass(frozen=True, kw_only=True)
class RecurrentTranslatorConfig(ModelConfig, ABC):
    """How a recurrent net writes, whatever reads the source."""

    d_model: int = 256  # width of the embeddings, and of the rows that are compared with the output table
    d_hidden: int = 512  # width of each layer
    n_layers: int = 1  # layers of the decoder
    cell: str = "lstm"  # `lstm`, `gru`, `rnn` (tanh) or `relu_rnn`
    # of attention: `additive`, `general`, `dot`, `scaled_dot`, `cosine`, `location`; `none`: no attention, only one
    # summary of the source reaches the decoder
    score: str = "additive"
    # when the decoder looks at the source: `after` a step, which then changes no state (Luong, the fastest); `feed`:
    # after it, and h̃ of the last step is part of the next input (Luong's input feeding); `before` a step, with the
    # state so far, and the context is part of its input (Bahdanau)
    look: str = "after"
    dropout: float = 0.2  # on the embedded tokens, on the output of each layer, and before the output table
    recurrent_dropout: float = 0.0  # on the weights from state to state (DropConnect)
    tied: bool = True  # the embeddings are the output table
    max_length: int = 1024  # tokens written

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "d_hidden", "n_layers", "max_length")
        share(self, "dropout", "recurrent_dropout")
        choose(CELLS, self.cell, "cell")
        choose({**SCORES, "none": None}, self.score, "attention score")
        one_of(self, LOOKS, "look")
        if self.look != "after" and self.score == "none":
            raise ConfigError(
                f'look = "{self.look}" needs attention: set score to other than "none", or look = "after"'
            )

    @property
    @abstractmethod
    def d_encoder(self) -> int:
        """The width of what is read."""

    @property
    def n_source_places(self) -> int:
        """Places that a row of the source may have: the location-based score has weights for each."""
        return self.max_length

    @abstractmethod
    def make_encoder(self) -> nn.Module:
        """What reads the source."""

    @property
    def d_fed(self) -> int:
        """The width of what stands beside each embedded token: nothing, h̃_{t-1} or c_t."""
        return {"after": 0, "feed": self.d_model, "before": self.d_hidden}[self.look]

    def make_stack(self, bidirectional: bool, d_fed: int = 0) -> RecurrentStack:
        widths = [self.d_model + d_fed, *[self.d_hidden] * self.n_layers]
        dropouts = LayerDropout.everywhere(self.dropout)
        return RecurrentStack(CELLS[self.cell], widths, bidirectional, dropouts, self.recurrent_dropout)


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(RecurrentTranslatorConfig):
    d_hidden: int = 512  # width of each layer; in the encoder, in each direction
    n_layers: int = 1  # layers of the encoder, and as many of the decoder
    bidirectional: bool = True  # the encoder also reads from right to left; the decoder always reads from left to right
    max_length: int = 1024  # tokens read or written: rows of the location-based score; the others have no limit

    @property
    def d_encoder(self) -> int:
        return (1 + self.bidirectional) * self.d_hidden

    def make_encoder(self) -> RecurrentStack:
        return self.make_stack(self.bidirectional)


class NoAttention(nn.Module):
    """Nothing is remembered, and the context is empty: c_t has no numbers at all."""

    def remember(self, x: Tensor, layout: Layout) -> Memory:
        nothing = x[..., None, :0]
        return Memory(nothing, nothing, layout)

    def forward(self, x: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        return x[..., :0]

    def multiplications(self, n_keys: float, n_made: float = 1.0) -> float:
        return 0.0


class DecodedTargets(NamedTuple):
    """What the decoder made of targets, and what it can look at."""

    hidden: Tensor  # h_t, for every target token (N, M)
    queries: Tensor  # with which it looks: h_t or, before a step, h_{t-1} (N, M)
    seen: Tensor | None  # h̃_t (N, D), where the next step needed it; None: all can look at once, now
    memory: Memory


class RecurrentTranslator(Translator[TranslatorState[RecurrentState]]):
    """m_s = W_m x_s                  what was read: the memory
    h_0 = tanh(W_b x̄ + b)          the bridge, from a summary, for every layer of the decoder and for an LSTM's C_0
    h_t = f(y_t, h_{t-1})          the decoder
    c_t = sum_s a_ts m_s           where it looks, a_t = softmax(score(h_t, m_1 .. m_S))
    h̃_t = tanh(W_c [c_t; h_t])     P(y_{t+1}) = softmax(E h̃_t)

    (Luong et al. 2015, section 3, eq. 5 and 6).  With what was seen in the next state, the decoder is one of

    h_t = f([y_t; h̃_{t-1}], h_{t-1})                                          input feeding (section 3.3), h̃_0 = 0
    h_t = f([y_t; c_t], h_{t-1}), a_t = softmax(score(h_{t-1}, m_1 .. m_S))    (Bahdanau et al. 2015, section A.2.2)
    """

    config: RecurrentTranslatorConfig
    embedding: Words
    is_sequential = is_capturable = True

    def __init__(self, config: RecurrentTranslatorConfig):
        super().__init__()
        self.config = c = config
        attends, n_states = c.score != "none", c.n_layers * CELLS[c.cell].n_states
        # Scaled as the Transformer's: gates need numbers of size one, the output table small ones.
        self.embedding = Words(c.vocab_size, c.d_model, math.sqrt(c.d_model))
        self.encoder, self.decoder = c.make_encoder(), c.make_stack(False, c.d_fed)
        is_projected = attends and c.d_encoder != c.d_hidden
        self.to_memory = Linear(c.d_encoder, c.d_hidden, bias=False) if is_projected else nn.Identity()  # W_m
        self.bridge = Linear(c.d_encoder, n_states * c.d_hidden)  # W_b
        self.attention = GlobalAttention(c.d_hidden, c.score, c.n_source_places) if attends else NoAttention()
        self.combine = Linear((1 + attends) * c.d_hidden, c.d_model, bias=False)  # W_c
        self.dropout = nn.Dropout(c.dropout)
        self.own_table = None if c.tied else nn.Parameter(torch.empty(c.vocab_size, c.d_model))
        self.apply(initialize)
        nn.init.normal_(self.output_table, std=c.d_model**-0.5)
        self.output_bias = None

    def forward(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> Tensor:
        read = self.read_both(source, source_layout, target, target_layout)
        return self.look(read.hidden, target_layout, read.memory) if read.seen is None else self.dropout(read.seen)

    def read_both(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> DecodedTargets:
        memory, states = self.hand_over(self.encode(source, source_layout), source_layout)
        rows = self.embedding(target, target_layout)
        if self.config.look == "after":
            hidden, _ = self.decoder.carry(rows, target_layout, states)
            return DecodedTargets(hidden, hidden, None, memory)
        beside = Cache.holding([memory]).memory(0)  # padded once, and not at each step
        layouts = [Moment(target_layout.n_sequences, t, rows.device) for t in range(target_layout.longest)]
        steps, _ = self.unroll(target_layout.pad(rows), states, beside, layouts)
        hidden, queries, seen = map(target_layout.flatten, steps)
        return DecodedTargets(hidden, queries, seen, memory)

    @abstractmethod
    def summarize(self, rows: Tensor, layout: Layout) -> Tensor:
        """What was read (N, d_encoder) -> x̄ for each source (B, d_encoder)."""

    @abstractmethod
    def reading_cost(self, n_source: int) -> float:
        """Multiplications of the encoder, for each of so many rows."""

    def hand_over(self, rows: Tensor, layout: Layout) -> tuple[Memory, list[Tensor]]:
        """The encoder's rows -> what can be looked at, and the states (S, B, M) of the decoder before it begins; with
        input feeding, the last of them is h̃_0."""
        c = self.config
        states = torch.tanh(self.bridge(self.summarize(rows, layout)))
        layers = list(states.unflatten(-1, (c.n_layers, -1, c.d_hidden)).permute(1, 2, 0, 3))
        if c.look == "feed":
            layers.append(states.new_zeros(1, len(states), c.d_model))
        return self.attention.remember(self.to_memory(rows), layout), layers

    @torch.compiler.disable  # a graph would have all its steps, and be made anew for each length
    def unroll(
        self, rows: Tensor, states: list[Tensor], memory: Memory, layouts: Sequence[Layout]
    ) -> tuple[tuple[Tensor, Tensor, Tensor], list[Tensor]]:
        """Embedded tokens (B, T, D), read one after the other; the layouts say how each step lies against the memory.

        Gives h_t, what looked and h̃_t, each (B, T, ...), and the states after the last step.
        """
        weights, steps = self.decoder.weights(), []
        for y, layout in zip(rows.unbind(1), layouts, strict=True):
            if self.config.look == "before":
                query = states[-1][0]
                context = self.see(query, layout, memory)
                hidden, states = self.decoder.step(torch.cat([y, context], -1), states, weights)
                seen = self.conclude(hidden, context)
            else:
                *layers, fed = states
                hidden, layers = self.decoder.step(torch.cat([y, fed[0]], -1), layers, weights)
                query, seen = hidden, self.conclude(hidden, self.see(hidden, layout, memory))
                states = [*layers, seen[None].to(fed.dtype)]
            steps.append((hidden, query, seen))
        hiddens, queries, seens = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
        return (hiddens, queries, seens), states

    def see(self, queries: Tensor, across: Layout, memory: Memory) -> Tensor:
        """What looks -> c_t, in the same shape.  `across` is how the decoder's states lie against the memory."""
        context = self.attention(across.arrange(queries), across, memory, everywhere)
        return context.reshape(*queries.shape[:-1], context.shape[-1])

    def look(self, hidden: Tensor, across: Layout, memory: Memory) -> Tensor:
        """h_t -> h̃_t, with dropout."""
        return self.dropout(self.conclude(hidden, self.see(hidden, across, memory)))

    def conclude(self, hidden: Tensor, context: Tensor) -> Tensor:
        """h_t and c_t -> h̃_t"""
        return torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        if isinstance(self.attention, GlobalAttention):
            yield "cross", 0, self.attention

    def cost(self, length: int) -> Cost:
        """The bridge is crossed once a sentence."""
        n_source = self.n_source_rows(length)
        reading = n_source * (self.reading_cost(n_source) + n_weights(self.to_memory)) + n_weights(self.bridge)
        writing = n_weights(self.decoder, self.combine) + self.output_table.numel()
        looking = self.attention.multiplications(n_source, n_source / length)
        n_products = max((layer.attend.score.n_products for _, _, layer in self.attentions()), default=0)
        return translator_cost(reading / length + writing + looking, n_products, n_source, length, self.is_sequential)

    # Decoding: the interface of `regard.decoding.interface`.

    def start(
        self, prompts: Sequence[Prompt], begin: int, copies: int = 1, room: int | None = None
    ) -> tuple[TranslatorState[RecurrentState], Tensor]:
        """A state takes no room, however long the target grows."""
        sources, layout = self.inputs.join(prompts, self.device)
        memory, states = self.hand_over(self.encode(sources, layout), layout)
        own = RecurrentState(list(states), torch.zeros(len(prompts), dtype=torch.long, device=self.device))
        state = TranslatorState(own, Cache.holding([memory]), 1)
        first = self.first_logits(begin, state)
        state.spread(copies)
        return state, first

    def step(self, tokens: Tensor, state: TranslatorState[RecurrentState]) -> Tensor:
        own, n = state.own, tokens.shape[1]
        layout, memory = own.queries(n), state.source.memory(0)
        rows = self.embedding(tokens, layout)
        if self.config.look == "after":
            hidden, layers = self.decoder.carry(rows, layout, own.layers)
            seen = self.look(hidden, state.across(n), memory)
        else:
            (_, _, seen), layers = self.unroll(rows, own.layers, memory, [state.across(1)] * n)
        own.become(layers, own.lengths + n)
        return logits(seen, self.output_table)


class Seq2Seq(RecurrentTranslator):
    """x_s = [h→_s; h←_s], the encoder's states, and x̄ = [h→_S; h←_1], its last ones.

    Luong's decoder begins with the encoder's states as they are; the bridge here is Bahdanau's, from the top layer's.
    """

    config: Seq2SeqConfig
    encoder: RecurrentStack

    def __init__(self, config: Seq2SeqConfig):
        super().__init__(config)
        self.bidirectional = self.sees_future = config.bidirectional  # of the encoder, whose rows are its features

    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        """[h→_s; h←_s], one row a token (N, 2M); (N, M) in one direction."""
        return self.encoder(self.embedding(source, layout), layout)

    def summarize(self, rows: Tensor, layout: Layout) -> Tensor:
        return summary(rows, layout, "last", self.config.bidirectional)

    def reading_cost(self, n_source: int) -> float:
        return n_weights(self.encoder)
