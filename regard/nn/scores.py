"""How well a key fits a query: six scores, each in three steps.

    score(q, k) = compare(of_queries(q), of_keys(k))

Both sides are prepared first, one row at a time, so that a key is prepared once however often it is looked at; then
every query is compared with every key.  Five of the six compare by a scaled product, which the fused kernels do.

What a score learns is shared by all heads: each head has its own projections to queries and keys, and with them its own
score.  So a score does not know how many heads there are, and a recurrent net uses it with one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.errors import RegardError
from regard.nn.linear import Linear

CHUNK = {"cpu": 2**20, "cuda": 2**26}  # numbers at a time: what fits a CPU's cache, or keeps a GPU busy


class Score(nn.Module, ABC):
    """For vectors of `d_head` numbers and keys at the places 0 .. max_length - 1."""

    scale: float | None = None  # what a fused kernel multiplies the prepared q . k with; None: no product
    reads_keys = True  # or only their places
    n_products = 2  # of a head's width for each key: one for its score, one for its value
    n_query_weights = n_key_weights = 0  # multiplications that prepare a query, and a key

    def __init__(self, d_head: int, max_length: int):
        super().__init__()

    def of_queries(self, queries: Tensor) -> Tensor:
        """Queries (..., E), prepared."""
        return queries

    def of_keys(self, keys: Tensor, places: Tensor) -> Tensor:
        """Keys (..., E) and their places, which broadcast to (...): prepared."""
        return keys

    @abstractmethod
    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Prepared queries (B, H, Q, E) and keys (B, H, K, E) -> (B, H, Q, K)."""

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The whole equation, for keys that begin at place 0: (B, H, Q, E) and (B, H, K, E) -> (B, H, Q, K)."""
        places = torch.arange(keys.shape[-2], device=keys.device)
        return self.compare(self.of_queries(queries), self.of_keys(keys, places))


class Product(Score):
    """A score that ends in a product, scale * q . k."""

    scale: float = 1.0

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        return (queries * self.scale) @ keys.mT


class Cosine(Product):
    """beta q . k / (|q| |k|), beta > 0 learned  (content-based addressing, Graves et al. 2014, eq. 5 and 6)

    The paper's net gives a new beta at every step; here it is one number.  It begins at sqrt(d_head), where vectors of
    d_head numbers of size one get the weights that the scaled product gives them.
    """

    def __init__(self, d_head: int, max_length: int):
        super().__init__(d_head, max_length)
        self.log_sharpness = nn.Parameter(torch.tensor(math.log(d_head) / 2))

    def of_queries(self, queries: Tensor) -> Tensor:
        return unit(queries) * self.log_sharpness.exp().to(queries.dtype)

    def of_keys(self, keys: Tensor, places: Tensor) -> Tensor:
        return unit(keys)


class Additive(Score):
    """v . tanh(W q + U k)  (Bahdanau et al. 2015, appendix A.1.2)

    Written W [q; k] elsewhere, with W and U side by side in one matrix.
    """

    n_products = 3  # a sum and its tanh count as one more

    def __init__(self, d_head: int, max_length: int):
        super().__init__(d_head, max_length)
        self.query_to_hidden = Linear(d_head, d_head, bias=False)  # W
        self.key_to_hidden = Linear(d_head, d_head, bias=False)  # U
        self.hidden_to_score = nn.Parameter(torch.randn(d_head) / math.sqrt(d_head))  # v
        self.n_query_weights = self.n_key_weights = d_head**2

    def of_queries(self, queries: Tensor) -> Tensor:
        return self.query_to_hidden(queries)

    def of_keys(self, keys: Tensor, places: Tensor) -> Tensor:
        return self.key_to_hidden(keys)

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        return additive(queries, keys, self.hidden_to_score)


class Location(Product):
    """(W q)_j for the key at place j, whatever the key is: softmax(W q)  (Luong et al. 2015, section 3.1, eq. 9)

    W has one row per place, so there is a longest input.  A row of W is in effect a learned key: the product with it
    goes where every product goes, and the key's own place decides which row it is, in a cache too.
    """

    reads_keys = False

    def __init__(self, d_head: int, max_length: int):
        super().__init__(d_head, max_length)
        self.rows = nn.Parameter(torch.randn(max_length, d_head) / math.sqrt(d_head))  # W

    def of_keys(self, keys: Tensor, places: Tensor) -> Tensor:
        # While a graph is being made for later tensors, the numbers of this one cannot be read.
        is_graph = torch.compiler.is_compiling() or (places.is_cuda and torch.cuda.is_current_stream_capturing())
        if not is_graph and places.numel() and int(places.max()) >= len(self.rows):
            raise RegardError(
                f"the location-based score has one row per key, {len(self.rows)}; got {int(places.max()) + 1} keys: "
                "shorten the input, or train with a larger model.max_length or another model.score"
            )
        return F.embedding(places, self.rows).expand_as(keys).contiguous()


class General(Product):
    """q . W k  (Luong et al. 2015, eq. 8): computed as (W^T q) . k

    W begins as the identity over sqrt(d_head), so that a model starts with the scaled product.
    """

    def __init__(self, d_head: int, max_length: int):
        super().__init__(d_head, max_length)
        self.weight = nn.Parameter(torch.eye(d_head) / math.sqrt(d_head))  # W
        self.n_query_weights = d_head**2

    def of_queries(self, queries: Tensor) -> Tensor:
        return queries @ self.weight


class Dot(Product):
    """q . k  (Luong et al. 2015, eq. 8)"""


class ScaledDot(Product):
    """q . k / sqrt(d_head)  (Vaswani et al. 2017, eq. 1)"""

    def __init__(self, d_head: int, max_length: int):
        super().__init__(d_head, max_length)
        self.scale = 1 / math.sqrt(d_head)


SCORES: dict[str, type[Score]] = {
    "cosine": Cosine,
    "additive": Additive,
    "location": Location,
    "general": General,
    "dot": Dot,
    "scaled_dot": ScaledDot,
}


def unit(x: Tensor) -> Tensor:
    """x / |x|; zeros, as in the empty room of a cache, stay zeros."""
    return F.normalize(x, dim=-1, eps=1e-6)  # the usual 1e-12 is zero in float16


def plain_additive(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """The equation, v . tanh(q + k): queries (..., Q, E), keys (..., K, E) and v (E) -> (..., Q, K)."""
    return (queries[..., :, None, :] + keys[..., None, :, :]).tanh() @ v


@torch.compiler.disable  # a loop whose length is data would be compiled again for every batch
def additive(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """The same in chunks, never holding queries x keys x width; the tanh is made again on the way back."""
    together = queries.shape[:-2]  # sequences and heads, alike on both sides
    out = ChunkedAdditive.apply(queries.flatten(0, -3), keys.flatten(0, -3), v.to(queries.dtype))
    return out.unflatten(0, together)


class ChunkedAdditive(torch.autograd.Function):
    """s_qk = sum_e v_e t_qke with t = tanh(q + k).  With the gradient g of s:

    dv_e = sum_qk g_qk t_qke,   dq_qe = v_e sum_k g_qk (1 - t_qke^2),   dk_ke = v_e sum_q g_qk (1 - t_qke^2)
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, v)
        out = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for chunk in chunks(queries, keys):
            out[:, chunk] = hidden(queries[:, chunk], keys) @ v
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v = ctx.saved_tensors
        exact = torch.promote_types(v.dtype, torch.float32)  # half precision would lose what many chunks add
        of_queries = torch.empty_like(queries)
        of_keys = torch.zeros_like(keys, dtype=exact)
        of_v = torch.zeros_like(v, dtype=exact)
        for chunk in chunks(queries, keys):
            g = gradient[:, chunk]
            t = hidden(queries[:, chunk], keys)
            of_v += g.flatten() @ t.flatten(0, 2)
            slope = t.square_().neg_().add_(1).mul_(g[..., None])
            of_queries[:, chunk] = slope.sum(2)
            of_keys += slope.sum(1)
        return of_queries * v, (of_keys * v).to(keys.dtype), of_v.to(v.dtype)


def hidden(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries[:, :, None] + keys[:, None]).tanh_()  # all sequences and heads, some queries, K, E


def chunks(queries: Tensor, keys: Tensor) -> Iterator[slice]:
    """As many queries at a time as fit into a chunk with all their keys; at least one."""
    size = max(1, CHUNK[queries.device.type] // max(1, keys.numel()))
    for begin in range(0, queries.shape[1], size):
        yield slice(begin, begin + size)
