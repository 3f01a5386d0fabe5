"""XLNet (Yang et al. 2019): a language model of all orders in which a text can be written, by two-stream attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.checks import at_least, not_negative, positive, share
from regard.choose import choose
from regard.errors import ConfigError
from regard.inputs import Words
from regard.models.config import ModelConfig
from regard.models.heads import WordHead
from regard.models.interface import Reader
from regard.models.stack import count_separators
from regard.models.transformer import initialize_small
from regard.nn.attention import Memory
from regard.nn.blocks import FEED_FORWARDS, Residual
from regard.nn.layout import Layout
from regard.nn.linear import n_weights
from regard.nn.loss import cross_entropy
from regard.nn.relative import RelativeAttention, RelativePlaces
from regard.nn.scores import SCORES
from regard.nn.sight import Sight, everywhere, order


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(ModelConfig):
    """The defaults are the paper's base size."""

    d_model: int = 768  # width of the hidden rows and embeddings; even, and a multiple of n_heads
    n_heads: int = 12  # heads of each attention
    n_layers: int = 12  # how many layers
    d_ff: int = 3072  # width inside the feed-forward networks
    dropout: float = 0.1  # on the embeddings and on the output of each layer
    max_length: int = 512  # tokens that the model can read
    score: str = "scaled_dot"  # of contents, as for the transformer; distances and segments have a product of their own
    feed_forward: str = "gelu"  # as for the transformer
    norm_eps: float = 1e-12  # added to the variance in the norms
    n_segments: int = 0  # parts of a sequence that attention distinguishes (same part or another); 0: it does not
    separator: int = 2  # the token that ends a segment; 2 is </s>

    def __post_init__(self) -> None:
        at_least(self, 1, "vocab_size", "d_model", "n_heads", "n_layers", "d_ff", "max_length")
        not_negative(self, "n_segments", "separator")
        if self.d_model % self.n_heads or self.d_model % 2:
            raise ConfigError(
                f"d_model ({self.d_model}) must be even (distances are sines and cosines) and a multiple of n_heads "
                f"({self.n_heads})"
            )
        share(self, "dropout")
        positive(self, "norm_eps")
        choose(FEED_FORWARDS, self.feed_forward, "feed-forward net")
        choose(SCORES, self.score, "attention score")

    def make_residual(self) -> Residual:
        return Residual(nn.LayerNorm(self.d_model, self.norm_eps), self.dropout, pre_norm=False)


class XLNetBlock(nn.Module):
    """Look at the memory, which is made of contents, then think.  Both streams go through the same weights."""

    def __init__(self, c: XLNetConfig):
        super().__init__()
        self.attention = RelativeAttention(c.d_model, c.n_heads, c.score, c.max_length, c.n_segments)
        self.feed_forward = FEED_FORWARDS[c.feed_forward](c.d_model, c.d_ff, True)
        self.attention_residual = c.make_residual()
        self.feed_forward_residual = c.make_residual()

    def forward(self, x: Tensor, layout: Layout, places: Tensor, memory: Memory, sight: Sight) -> Tensor:
        x = self.attention_residual(x, lambda h, _: self.attention(h, layout, places, memory, sight))
        return self.feed_forward_residual(x, self.feed_forward)

    def multiplications(self, n_keys: float) -> float:
        return self.attention.multiplications(n_keys) + n_weights(self.feed_forward)


class XLNet(Reader):
    """Content h_i knows x_i and what comes before it in the order z; query g_i knows its place, but not x_i:

        h_z(t) = block(Q = h_z(t), KV = h_z(<=t))      g_z(t) = block(Q = g_z(t), KV = h_z(<t))

    Yang et al. 2019, section 2.3.  Read plainly, there is one stream and all see all, as in BERT.
    """

    config: XLNetConfig
    blocks: Sequence[XLNetBlock]
    sees_future = True
    has_two_streams = is_exportable = True

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.config = c = config
        self.embedding = Words(c.vocab_size, c.d_model)
        self.places = RelativePlaces(c.max_length, c.d_model, c.n_segments)
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(XLNetBlock(c) for _ in range(c.n_layers))  # type: ignore[assignment]
        self.unknown = nn.Parameter(torch.randn(c.d_model) * 0.02)  # w: what every query begins with
        self.apply(initialize_small)

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Token ids (N) -> one hidden row each (N, D), which has seen all of its sequence."""
        h = self.dropout(self.embedding(tokens, layout))
        places = self.places(layout.positions, self.segments(tokens, layout))
        for block in self.blocks:
            h = block(h, layout, places, block.attention.remember(h, layout, places), everywhere)
        return h

    def predict_targets(
        self, tokens: Tensor, layout: Layout, ranks: Tensor, targets: Tensor, target_layout: Layout
    ) -> Tensor:
        """Token ids (N) and the turn of each place (B, T) -> what is known of the tokens in the rows `targets` (M),
        which lie as in `target_layout`, before their own turn (M, D).

        Places of one turn see each other's contents, but no query does.
        """
        h = self.dropout(self.embedding(tokens, layout))
        places = self.places(layout.positions, self.segments(tokens, layout))
        g, own_places = self.dropout(self.unknown.expand(len(targets), -1)), places.index_select(0, targets)
        own_ranks = target_layout.pad(layout.flatten(ranks).index_select(0, targets))
        up_to, before = order(ranks), order(ranks, itself=False, of_queries=own_ranks)
        last = self.blocks[-1]
        for block in self.blocks:
            memory = block.attention.remember(h, layout, places)
            g = block(g, target_layout, own_places, memory, before)
            if block is not last:  # the last contents are not looked at
                h = block(h, layout, places, memory, up_to)
        return g

    def segments(self, tokens: Tensor, layout: Layout) -> Tensor:
        return count_separators(tokens, layout, self.config.separator, self.config.n_segments)

    def attentions(self) -> Iterator[tuple[str, int, RelativeAttention]]:
        for i, block in enumerate(self.blocks):
            yield "self", i, block.attention

    def multiplications(self, length: int) -> float:
        """The stream of the few tokens that are predicted is not counted."""
        return sum(block.multiplications(length) for block in self.blocks)


class PermutationModel(WordHead):
    """P(x_z(t) | x_z(<t)) = softmax(E g_z(t) + b)  (Yang et al. 2019, eq. 4)"""

    reader: XLNet

    def __init__(self, reader: XLNet):
        super().__init__(reader)
        self.own_table = None
        self.output_bias = nn.Parameter(torch.zeros(reader.config.vocab_size))

    def forward(  # type: ignore[override]
        self, tokens: Tensor, layout: Layout, ranks: Tensor, targets: Tensor, target_layout: Layout
    ) -> Tensor:
        """The hidden row that predicts each target (M, D)."""
        return self.reader.predict_targets(tokens, layout, ranks, targets, target_layout)

    def nats(self, tokens: Tensor, layout: Layout, ranks: Tensor, targets: Tensor, target_layout: Layout) -> Tensor:
        """-log P of the tokens in the rows `targets`, each after all that comes before its turn."""
        hidden = self(tokens, layout, ranks, targets, target_layout)
        return cross_entropy(hidden, self.output_table, tokens[targets], 0.0, self.output_bias)
