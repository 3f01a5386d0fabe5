"""ELMo: two recurrent language models, one in each direction, and the mix of their layers as features of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.checks import at_least, not_negative, share
from regard.inputs import Words
from regard.models.config import ModelConfig
from regard.models.heads import ROWS
from regard.models.interface import Reader
from regard.models.writing import TextModel
from regard.nn.layer_dropout import LayerDropout
from regard.nn.layout import Layout
from regard.nn.linear import logits, n_weights
from regard.nn.loss import cross_entropy
from regard.nn.recurrent import CELLS, LSTM, RecurrentStack, reverse


@dataclass(frozen=True, kw_only=True)
class BiLMConfig(ModelConfig):
    d_model: int = 512  # width of the embeddings and of each layer, in each direction
    n_layers: int = 2  # layers in each direction
    dropout: float = 0.1  # on the embedded tokens and on the output of each layer
    max_length: int = 1_000_000  # tokens that the model can read; a recurrent network has no limit of its own

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "n_layers", "max_length")
        share(self, "dropout")


class BiLM(Reader, TextModel):
    """P(x_{t+1} | x_1 .. x_t) = softmax(E h→_t)  and  P(x_{t-1} | x_t .. x_T) = softmax(E h←_t)

    Two stacks of LSTM that share the embeddings E, on both sides; from the second layer on h^l_t = LSTM^l(h^{l-1})_t +
    h^{l-1}_t  (Peters et al. 2018, section 3.1 and 3.4, whose wider cells are projected to the width of E).
    """

    role = "bidirectional"
    config: BiLMConfig
    embedding: Words
    forwards: Sequence[LSTM]
    backwards: Sequence[LSTM]
    bidirectional = sees_future = True
    is_sequential = True

    def __init__(self, config: BiLMConfig):
        super().__init__()
        self.config = c = config
        self.embedding = Words(c.vocab_size, c.d_model)
        self.forwards = nn.ModuleList(LSTM(c.d_model, c.d_model) for _ in range(c.n_layers))  # type: ignore[assignment]
        self.backwards = nn.ModuleList(LSTM(c.d_model, c.d_model) for _ in range(c.n_layers))  # type: ignore[assignment]
        self.dropout = nn.Dropout(c.dropout)
        nn.init.normal_(self.embedding.weight, std=c.d_model**-0.5)

    @property
    def d_out(self) -> int:
        return 2 * self.config.d_model

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> the last layer's states of both directions (N, 2D)."""
        return self.layers(tokens, layout)[-1]

    def layers(self, tokens: Tensor, layout: Layout) -> Tensor:
        """h_{t,0}, the embedding twice, and h_{t,j} = [h→_{t,j}; h←_{t,j}] of every layer: (layers + 1, N, 2D)."""
        x = self.embedding(tokens, layout)
        both = zip([x, *self.ahead(x, layout)], [x, *self.back(x, layout)], strict=True)
        return torch.stack([torch.cat(states, -1) for states in both])

    def features(self, tokens: Tensor, layout: Layout) -> Tensor:
        """What there is to know of each token when no task has chosen yet: all layers alike (N, 2D)."""
        return self.layers(tokens, layout).mean(0)

    def ahead(self, x: Tensor, layout: Layout) -> list[Tensor]:
        """Embedded tokens (N, D) -> the states of each layer that reads from left to right."""
        return [layout.flatten(h) for h in self.read(layout.pad(x), self.forwards)]

    def back(self, x: Tensor, layout: Layout) -> list[Tensor]:
        """The same from right to left, each sequence from its own last token."""
        turned = self.read(reverse(layout.pad(x), layout), self.backwards)
        return [layout.flatten(reverse(h, layout)) for h in turned]

    def read(self, x: Tensor, cells: Sequence[LSTM]) -> list[Tensor]:
        """(B, T, D) -> the states of each cell, (B, T, D)."""
        if not x.numel():  # the kernels need at least one step
            return [x] * len(cells)
        states: list[Tensor] = []
        for cell in cells:
            h, _ = cell(self.dropout(x), cell.zero_state(len(x), x))
            x = h + x if states else h
            states.append(x)
        return states

    def nats(self, tokens: Tensor, labels: Tensor, layout: Layout, smoothing: float = 0.0) -> Tensor:
        """-log P of a text, the mean of both directions.  `labels` are the tokens one place further: what the forward
        net reads the backward net writes, and the other way round."""
        ahead = self.dropout(self.ahead(self.embedding(tokens, layout), layout)[-1])
        back = self.dropout(self.back(self.embedding(labels, layout), layout)[-1])
        table = self.embedding.weight
        return (cross_entropy(ahead, table, labels, smoothing) + cross_entropy(back, table, tokens, smoothing)) / 2

    def guesses(self, tokens: Tensor, layout: Layout) -> Tensor:
        """The likeliest next token after each (N), by the forward net."""
        parts = self.ahead(self.embedding(tokens, layout), layout)[-1].split(ROWS)
        return torch.cat([logits(rows, self.embedding.weight).argmax(-1) for rows in parts])

    def multiplications(self, length: int) -> float:
        """Both directions compare their rows with the embeddings."""
        return n_weights(*self.forwards, *self.backwards) + 2 * self.embedding.weight.numel()


@dataclass(frozen=True, kw_only=True)
class ElmoConfig(BiLMConfig):
    frozen: bool = True  # both language models stay as they are, without dropout; the mix and the layers above it learn
    d_task: int = 256  # width of the bidirectional LSTM that reads the mix, in each direction; 0: the mix is the output
    n_task_layers: int = 1  # layers of that LSTM
    feature_dropout: float = 0.5  # on the mix and on the output of each layer above it

    @property
    def needs_weights(self) -> bool:
        return self.frozen

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "d_task")
        at_least(self, 1, "n_task_layers")
        share(self, "feature_dropout")


class Elmo(BiLM):
    """ELMo_t = γ Σ_j s_j h_{t,j}   with s = softmax(w)  (Peters et al. 2018, equation 1)

    w and γ are learned with the task, and so is the bidirectional LSTM that reads the mix.  The language models below
    come from another run: `regard train RECIPE --from RUN`.
    """

    role = "reader"
    config: ElmoConfig

    def __init__(self, config: ElmoConfig):
        super().__init__(config)
        c = config
        if c.frozen:
            self.requires_grad_(False)
            self.dropout = nn.Dropout(0.0)  # what does not learn need not be made hard
        self.w = nn.Parameter(torch.zeros(c.n_layers + 1))
        self.gamma = nn.Parameter(torch.ones(()))
        widths = [super().d_out, *[c.d_task] * c.n_task_layers]
        dropouts = LayerDropout.everywhere(c.feature_dropout)
        self.task = RecurrentStack(CELLS["lstm"], widths, True, dropouts) if c.d_task else None
        self.feature_dropout = nn.Dropout(c.feature_dropout)

    @property
    def d_out(self) -> int:
        return 2 * self.config.d_task or super().d_out

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one row each, of the LSTM above the mix or of the mix itself (N, d_out)."""
        mixed = self.features(tokens, layout)
        return self.feature_dropout(mixed) if self.task is None else self.task(mixed, layout)

    def features(self, tokens: Tensor, layout: Layout) -> Tensor:
        """ELMo_t: (N, 2D)."""
        return self.gamma * torch.tensordot(self.weights(), self.layers(tokens, layout), 1)

    def multiplications(self, length: int) -> float:
        return n_weights(*self.forwards, *self.backwards, *([] if self.task is None else [self.task]))

    def weights(self) -> Tensor:
        """s_j of the embeddings and of each layer; they sum to one."""
        return self.w.softmax(0)
