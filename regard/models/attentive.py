"""A recurrent net with attention: every state looks back at the states before it, and one look is one step away."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.checks import at_least, share
from regard.choose import choose
from regard.inputs import InputTable
from regard.models.config import ModelConfig
from regard.models.interface import Reader
from regard.models.recurrent import Recurrent, RecurrentConfig, RecurrentState
from regard.nn.attention import Attention, Heads, MultiHeadAttention
from regard.nn.cache import Cache
from regard.nn.layout import Layout
from regard.nn.linear import Linear, n_weights
from regard.nn.positions import Position, Space
from regard.nn.recurrent import CELLS
from regard.nn.scores import SCORES
from regard.nn.sight import causal
from regard.nn.state import JointState


@dataclass(frozen=True, kw_only=True)
class AttentiveConfig(ModelConfig):
    d_model: int = 256  # width of the embeddings and of the output rows, so that the embeddings are the output table
    d_hidden: int = 512  # width of each recurrent layer, and of queries, keys and values
    n_layers: int = 1  # how many recurrent layers
    cell: str = "lstm"  # `lstm`, `gru`, `rnn` (tanh) or `relu_rnn`
    score: str = "scaled_dot"  # how well a key fits a query, as in the transformer
    dropout: float = 0.2  # on the embedded tokens, on the output of each layer, and on the output rows
    embedding_range: float = 0.1  # embeddings begin within ± this (Merity et al. 2018); in short training, 1 is quicker
    max_length: int = 1024  # tokens that the model can read

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "d_hidden", "n_layers", "max_length")
        share(self, "dropout")
        choose(CELLS, self.cell, "cell")
        choose(SCORES, self.score, "attention score")

    @property
    def kept_per_token(self) -> int:
        return 2 * self.d_hidden  # a key and a value


class Attentive(Reader["AttentiveState"]):
    """y_t = tanh(W [c_t ; h_t]),  c_t = Attention(h_t, h_1 .. h_t)  (Luong et al. 2015, eq. 5, on one text)

    h are the states of a recurrent net, as in Daniluk et al. 2017 ("Frustratingly Short Attention Spans"), section 2;
    unlike Cheng et al. 2016, where what was looked at also goes into the next state.
    """

    config: AttentiveConfig
    is_sequential = True

    def __init__(self, config: AttentiveConfig, inputs: InputTable | None = None):
        super().__init__()
        self.config = c = config
        self.recurrent = Recurrent(
            RecurrentConfig(
                vocab_size=c.vocab_size,
                d_model=c.d_model,
                d_hidden=c.d_hidden,
                n_layers=c.n_layers,
                cell=c.cell,
                dropout=c.dropout,
                embedding_range=c.embedding_range,
            ),
            inputs,
        )
        # A state knows its place, so positions need no encoding.
        self.attention = MultiHeadAttention(Heads(c.d_hidden, 1), c.score, Position(Space(c.d_hidden, 1, c.max_length)))
        self.combine = Linear(2 * c.d_hidden, c.d_model)
        self.dropout = nn.Dropout(c.dropout)

    @property
    def embedding(self) -> InputTable:  # type: ignore[override]
        return self.recurrent.embedding

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        h = self.recurrent(tokens, layout)
        return self.mix(h, self.attention.look_at_self(h, layout, causal))

    def mix(self, h: Tensor, c: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.combine(torch.cat([c, h], -1))))

    def attentions(self) -> Iterator[tuple[str, int, Attention]]:
        yield "self", 0, self.attention

    def multiplications(self, length: int) -> float:
        looking = self.attention.multiplications(length / 2)  # on average half the past
        return self.recurrent.multiplications(length) + looking + n_weights(self.combine)

    def start(self, n_rows: int, room: int) -> "AttentiveState":
        """Nothing read yet, and room to look back at `room` tokens a row."""
        looked_at = Cache.empty(1, n_rows, room, (1, self.config.d_hidden), like=self.attention.to_queries.weight)
        return AttentiveState(self.recurrent.start(n_rows, room), looked_at)

    def step(self, tokens: Tensor, state: "AttentiveState") -> Tensor:
        n = tokens.shape[1]
        layout = state.looked_at.queries(n)
        h = self.recurrent.step(tokens, state.read)
        c = self.attention.look_at_self(h, layout, causal, state.looked_at.layer(0))
        state.looked_at.advance(n)
        return self.mix(h, c)


class AttentiveState(JointState):
    """The last state of the recurrent net, and the keys and values of all states before it."""

    def __init__(self, read: RecurrentState, looked_at: Cache):
        super().__init__(read, looked_at)  # the first refuses to take tokens back
        self.read, self.looked_at = read, looked_at
