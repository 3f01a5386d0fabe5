"""Attention: softmax(score(Q, K)) V, with many heads.

The readable path below is the paper's equation and works with every rule, score and position.  `paths.py` has the
fused kernels that give the same answer faster.  The mask is applied in `masked_softmax`, and nowhere else here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.checks import one_of
from regard.choose import choose
from regard.errors import ConfigError
from regard.nn import paths
from regard.nn.case import Case
from regard.nn.layout import Layout, Rectangle
from regard.nn.linear import Linear, n_weights, onto, products
from regard.nn.norms import RMSNorm
from regard.nn.positions import Position, Space
from regard.nn.scores import SCORES, Score
from regard.nn.sight import Sight, visible


@dataclass
class Memory:
    """What can be looked at: keys (prepared for the score) and values (rows, H, E), and how their rows lie."""

    keys: Tensor
    values: Tensor
    layout: Layout
    ancestors: Tensor | None = None  # (B, T): in which sequence each place of a sequence was written; None: in its own
    new: tuple[Tensor, Tensor] | None = None  # key and value (B, H, E) of each sequence's last place, not written yet

    def in_place(self) -> "Memory":
        """Each sequence where it lies, and whole."""
        if self.new is None and self.ancestors is None:
            return self
        if self.new is not None:
            rows, last = torch.arange(len(self.keys), device=self.keys.device), self.layout.lengths - 1
            for written, newest in zip((self.keys, self.values), self.new, strict=True):
                written[rows, last] = newest.to(written.dtype)
        if self.ancestors is None:
            return replace(self, new=None)
        places = torch.arange(self.keys.shape[1], device=self.keys.device)
        return Memory(self.keys[self.ancestors, places], self.values[self.ancestors, places], self.layout)

    def for_heads(self, n_heads: int) -> "Memory":
        """A head of keys for each head of queries: where several of them share one, it is repeated."""
        n_each = n_heads // self.keys.shape[-2]
        if n_each == 1:
            return self
        return Memory(self.keys.repeat_interleave(n_each, -2), self.values.repeat_interleave(n_each, -2), self.layout)


Past = Callable[[Memory], Memory]  # puts new keys and values after the old ones and gives all of them


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys; a key that may not be looked at gets weight 0, and so does all of a blind query's row."""
    if mask is None:
        return scores.softmax(dim=-1)
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row with no visible key must not become NaN
    return scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask


def takes_groups(case: Case) -> bool:
    """Whether heads of queries that share a head of keys can be so many queries of one head: in a step of decoding on a
    CPU, where each sequence has one row."""
    is_step = case.queries.is_cpu and isinstance(case.layout, Rectangle) and case.layout.longest == 1
    is_plain = paths.fits_padded(case) and not case.position.has_bias
    return is_step and is_plain and not torch.compiler.is_compiling()


class Attend(nn.Module):
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V  (Vaswani et al. 2017, eq. 1), per head.

    The queries and keys come prepared for the score, which then compares them (see `Score`).  A module of its own so
    that a watcher can stand beside it: `watch` sees the queries and keys go by.
    """

    def __init__(self, score: Score, position: Position):
        super().__init__()
        self.score = score
        self.position = position

    def prepare(self, queries: Tensor, layout: Layout) -> Tensor:
        """Queries (rows, H, E), turned to their places and prepared for the score."""
        return self.score.of_queries(self.position.rotate(queries, layout))

    def remember(self, keys: Tensor, values: Tensor, layout: Layout) -> Memory:
        """Keys, likewise prepared, and values (rows, H, E)."""
        keys = self.position.rotate(keys, layout)
        places = layout.positions[..., None]  # a place is the same for every head
        return Memory(self.score.of_keys(keys, places), values, layout)

    def forward(self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        """Prepared queries (rows, H, E) -> the mixed values (rows, H, E), by the first path that fits."""
        case = Case(queries, layout, memory.keys, memory.values, memory.layout, sight, self.score.scale, self.position)
        if paths.fits_step(case):
            return paths.run_step(case, memory.ancestors, memory.new)
        memory = memory.in_place()
        if not takes_groups(case):
            memory = memory.for_heads(queries.shape[-2])
        if memory.keys is not case.keys:
            case = replace(case, keys=memory.keys, values=memory.values)
        for fits, run in paths.FAST_PATHS.values():
            if fits(case):
                return run(case)
        return self.readable(queries, layout, memory, sight)

    def readable(self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        return self.mix(self.weights(queries, layout, memory, sight), layout, memory)

    def mix(self, weights: Tensor, layout: Layout, memory: Memory) -> Tensor:
        """The values (rows, H, E), in these shares (B, H, Q, K)."""
        values = memory.in_place().for_heads(weights.shape[1]).values
        padded = memory.layout.pad(values).transpose(1, 2)  # B H K E
        return layout.flatten((weights @ padded).transpose(1, 2))

    def weights(self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        """How much each query looks at each key: (B, H, Q, K), every row summing to one (or zero, when blind)."""
        memory = memory.in_place().for_heads(queries.shape[-2])
        padded_queries = layout.pad(queries).transpose(1, 2)  # B H Q E
        padded_keys = memory.layout.pad(memory.keys).transpose(1, 2)  # B H K E
        scores = self.score.compare(padded_queries, padded_keys)
        if self.position.has_bias:
            places = torch.arange(memory.layout.longest, device=scores.device)
            scores = scores + self.position.bias(layout.places_among(memory.layout), places).to(scores.dtype)
        mask = visible(sight, layout, memory.layout)
        return masked_softmax(scores, None if mask is None else mask[:, None])


# Which products have a bias: those to queries, keys and values; all others.
BIASES = {"all": (True, True), "inputs": (True, False), "outputs": (False, True), "none": (False, False)}


@dataclass(frozen=True)
class Heads:
    """How rows of d_model numbers become heads of d_head numbers, and what is learned besides the products.

    Several heads of queries may share one of keys and values (grouped heads; Ainslie et al. 2023).
    """

    d_model: int
    n_heads: int
    n_key_heads: int = 0  # 0: as many
    d_head: int = 0  # 0: d_model / n_heads
    bias: str = "all"
    norm_eps: float | None = None  # of the RMS norm of every head's queries and keys; None: no such norm

    def __post_init__(self) -> None:
        if not self.d_head and self.d_model % self.n_heads:
            raise ConfigError(f"d_model ({self.d_model}) must be a multiple of n_heads ({self.n_heads})")
        if self.n_key_heads and self.n_heads % self.n_key_heads:
            raise ConfigError(f"n_heads ({self.n_heads}) must be a multiple of n_key_heads ({self.n_key_heads})")
        one_of(self, BIASES, "bias")

    @property
    def width(self) -> int:
        """Of one head."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def shared(self) -> int:
        """How many heads of keys and values there are."""
        return self.n_key_heads or self.n_heads


class Attention(nn.Module):
    """A layer of attention, of any form: it has heads, which look where its `Attend` says (see `watch`)."""

    n_heads: int
    d_head: int
    attend: Attend

    def split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_head))  # rows D -> rows H E


class MultiHeadAttention(Attention):
    """MultiHead(Q, K, V) = Concat(head_1 .. head_h) W_O  (Vaswani et al. 2017, section 3.2.2)

    Self-attention when the memory is made of x itself, cross-attention when it is made of another sequence.
    """

    def __init__(self, heads: Heads, score: str, position: Position):
        super().__init__()
        self.n_heads, self.d_head = heads.n_heads, heads.width
        chosen = choose(SCORES, score, "attention score")(self.d_head, position.max_length)
        d_model, d_queries, d_keys = heads.d_model, heads.n_heads * self.d_head, heads.shared * self.d_head
        bias, bias_out = BIASES[heads.bias]
        self.to_queries = Linear(d_model, d_queries, bias)
        # Where a score reads places alone, keys need no weights.
        self.to_keys = Linear(d_model, d_keys, bias) if chosen.reads_keys else nn.Identity()
        self.to_values = Linear(d_model, d_keys, bias)
        self.to_output = Linear(d_queries, d_model, bias_out)
        self.norm_queries, self.norm_keys = head_norm(heads), head_norm(heads)
        self.attend = Attend(chosen, position)

    def forward(self, x: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        return self.look(self.to_queries(x), layout, memory, sight)

    def remember(self, x: Tensor, layout: Layout) -> Memory:
        """The keys and values of every row of x."""
        keys, values = products(x, [self.to_keys, self.to_values])
        return self.keep(keys, values, layout)

    def look_at_self(
        self, x: Tensor, layout: Layout, sight: Sight, past: Past | None = None, added: Tensor | None = None
    ) -> Tensor:
        """Over x alone, or over the past and x; what it finds is added to rows, where there are any."""
        queries, keys, values = products(x, [self.to_queries, self.to_keys, self.to_values])
        memory = self.keep(keys, values, layout)
        return self.look(queries, layout, memory if past is None else past(memory), sight, added)

    def keep(self, keys: Tensor, values: Tensor, layout: Layout) -> Memory:
        return self.attend.remember(self.norm_keys(self.split_heads(keys)), self.split_heads(values), layout)

    def look(
        self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight, added: Tensor | None = None
    ) -> Tensor:
        queries = self.attend.prepare(self.norm_queries(self.split_heads(queries)), layout)
        heads = self.attend(queries, layout, memory, sight)  # rows H E
        return onto(added, self.to_output, heads.flatten(-2))

    def multiplications(self, n_keys: float, n_made: float = 1.0) -> float:
        """For a row that looks at so many keys; `n_made` keys are made for each row, which often is itself a key."""
        score, n_key_heads = self.attend.score, self.to_values.out_features // self.d_head
        making = n_weights(self.to_keys, self.to_values) + n_key_heads * score.n_key_weights
        asking = n_weights(self.to_queries, self.to_output) + self.n_heads * score.n_query_weights
        return n_made * making + asking + score.n_products * n_keys * self.n_heads * self.d_head


def pads(model: nn.Module) -> bool:
    """Whether some attention of a model makes rectangles of its sequences, also where rows could stay flat."""
    return any(
        layer.attend.score.scale is None or layer.attend.position.has_bias or layer.d_head % 8 or layer.d_head > 256
        for layer in model.modules()
        if isinstance(layer, MultiHeadAttention)
    )


def head_norm(heads: Heads) -> nn.Module:
    return nn.Identity() if heads.norm_eps is None else RMSNorm(heads.width, heads.norm_eps)


class GlobalAttention(Attention):
    """c_t = sum_s softmax_s(score(h_t, m_s)) m_s  (Bahdanau et al. 2015, eq. 5 and 6; Luong et al. 2015, section 3.1)

    One head, as recurrent nets have it: the rows of the memory are keys and values as they are.
    """

    def __init__(self, d_memory: int, score: str, max_length: int):
        super().__init__()
        self.n_heads, self.d_head = 1, d_memory
        chosen = choose(SCORES, score, "attention score")(d_memory, max_length)
        self.attend = Attend(chosen, Position(Space(d_memory, self.n_heads, max_length)))

    def remember(self, x: Tensor, layout: Layout) -> Memory:
        head = self.split_heads(x)
        return self.attend.remember(head, head, layout)

    def forward(self, x: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        return self.attend(self.attend.prepare(self.split_heads(x), layout), layout, memory, sight).squeeze(-2)

    def weighed(self, x: Tensor, layout: Layout, memory: Memory, sight: Sight) -> tuple[Tensor, Tensor]:
        """The same, and the weights a_ts (B, Q, K) that made it."""
        weights = self.attend.weights(self.attend.prepare(self.split_heads(x), layout), layout, memory, sight)
        return self.attend.mix(weights, layout, memory).squeeze(-2), weights.squeeze(1)

    def multiplications(self, n_keys: float, n_made: float = 1.0) -> float:
        """For a row that looks at so many keys; `n_made` keys are prepared for each row."""
        score = self.attend.score
        return score.n_query_weights + n_made * score.n_key_weights + score.n_products * n_keys * self.d_head
