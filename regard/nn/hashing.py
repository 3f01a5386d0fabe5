"""Hashing: rows attend to those like them, which a hash finds without comparing all (Kitaev et al. 2020, Reformer).

Vectors that point the same way likely get the same hash.  Rows are sorted by it and cut into chunks; a row attends to
the rows with its own hash in its chunk and the one before.  In several rounds, with other hashes, few are missed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.attention import Attend, Heads, Memory, MultiHeadAttention, Past, masked_softmax
from regard.nn.layout import Layout
from regard.nn.linear import n_weights, products
from regard.nn.positions import Position
from regard.nn.scores import Score, unit
from regard.nn.sight import Sight, visible

ITSELF = -1e5  # added to a row's score with itself: as query and key are one, it would drown all others


@dataclass(frozen=True)
class Hashing:
    n_rounds: int
    n_buckets: int  # values of a hash, an even number
    chunk: int


class HashedAttend(Attend):
    """softmax(Q K^T / sqrt(d_k)) V over the keys that share a bucket with the query in some round (eq. 3 and 4)."""

    rotations: Tensor

    def __init__(self, score: Score, position: Position, hashing: Hashing, d_head: int):
        super().__init__(score, position)
        self.hashing = hashing
        drawn = torch.randn(hashing.n_rounds, d_head, hashing.n_buckets // 2, generator=seeded(), device="cpu")
        self.register_buffer("rotations", drawn)

    def buckets(self, vectors: Tensor) -> Tensor:
        """h(x) = argmax([x R; -x R]) in every round: (B, H, T, E) -> (rounds, B, H, T)  (section 2)"""
        turned = vectors.detach()[None] @ self.rotations[:, None, None].to(vectors.dtype)
        return torch.cat([turned, -turned], -1).argmax(-1)

    def forward(self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        if layout is not memory.layout:  # new rows after old ones: they are few
            return self.readable(queries, layout, memory, sight)
        q, k, v = (layout.pad(rows).transpose(1, 2) for rows in (queries, memory.keys, memory.values))
        return layout.flatten(self.in_chunks(q, k, v, layout, sight).transpose(1, 2))

    def weights(self, queries: Tensor, layout: Layout, memory: Memory, sight: Sight) -> Tensor:
        padded_queries, keys = layout.pad(queries).transpose(1, 2), memory.layout.pad(memory.keys).transpose(1, 2)
        places = torch.arange(memory.layout.longest, device=queries.device)
        is_itself = layout.places_among(memory.layout)[:, None, :, None] == places
        scores = self.score.compare(padded_queries, keys) + ITSELF * is_itself
        mask = self.found(padded_queries, layout, keys, memory.layout)
        allowed = visible(sight, layout, memory.layout)
        return masked_softmax(scores, mask if allowed is None else mask & allowed[:, None]).to(queries.dtype)

    def found(self, queries: Tensor, layout: Layout, keys: Tensor, key_layout: Layout) -> Tensor:
        """Who shares a bucket in some round (B, H, Q, K), and in whole sequences also a chunk or its neighbor."""
        if layout is not key_layout:
            return (self.buckets(queries)[..., :, None] == self.buckets(keys)[..., None, :]).any(0)
        buckets = self.sorting_keys(queries, layout)
        chunk = buckets.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True) // self.hashing.chunk
        return together(buckets, chunk, buckets, chunk).any(0)

    def sorting_keys(self, queries: Tensor, layout: Layout) -> Tensor:
        """Buckets, in which rows beyond the end of a sequence come last."""
        is_row = torch.arange(layout.longest, device=queries.device) < layout.lengths[:, None]
        return torch.where(is_row[:, None], self.buckets(queries), self.hashing.n_buckets)

    def in_chunks(self, queries: Tensor, keys: Tensor, values: Tensor, layout: Layout, sight: Sight) -> Tensor:
        """The same, never comparing all: each round's softmax by itself, then all rounds by their sizes."""
        n_rounds, length = self.hashing.n_rounds, layout.longest
        size = max(1, min(self.hashing.chunk, length))  # a larger chunk would only be padded
        buckets = self.sorting_keys(queries, layout)  # R B H T
        orders = buckets.argsort(dim=-1, stable=True)
        chunks = orders.argsort(dim=-1, stable=True) // size
        codes = torch.stack([buckets, chunks], -1).permute(1, 2, 3, 0, 4).flatten(-2)  # B H T 2R: of all rounds
        sequences = torch.arange(layout.n_sequences, device=queries.device)[:, None, None, None, None]
        outputs, sizes = [], []
        for i, order in enumerate(orders):
            q_place, k_place = cut(order[..., None], size), with_previous(order[..., None], size, fill=length).mT
            q_codes, k_codes = (f.unflatten(-1, (n_rounds, 2)) for f in (
                cut(take(codes, order), size), with_previous(take(codes, order), size, fill=-1),
            ))  # fmt: skip
            meets = meetings(q_codes, k_codes)  # R B H N C 2C
            n_meetings = meets.sum(0).clamp(min=1)  # a pair that meets in several rounds counts once in all of them
            allowed = sight.allows(q_place, k_place, sequences) & (k_place < layout.lengths.view(-1, 1, 1, 1, 1))
            own, theirs = cut(take(queries, order), size), with_previous(take(keys, order), size)
            scores = self.score.compare(own.flatten(1, 2), theirs.flatten(1, 2)).unflatten(1, own.shape[1:3])
            scores = scores + ITSELF * (q_place == k_place) - n_meetings.log()
            scores = torch.where(allowed & meets[i], scores, torch.finfo(scores.dtype).min)
            mixed = scores.softmax(-1).to(values.dtype) @ with_previous(take(values, order), size)
            back = order.argsort(dim=-1)
            outputs.append(take(mixed.flatten(2, 3)[:, :, :length], back))
            sizes.append(scores.logsumexp(-1).flatten(2, 3)[:, :, :length].gather(-1, back))
        shares = torch.stack(sizes).softmax(0)[..., None]
        return (shares * torch.stack(outputs)).sum(0).to(values.dtype)


class HashedAttention(MultiHeadAttention):
    """One product for queries and keys, which are unit vectors of the queries (Kitaev et al. 2020, section 2)."""

    attend: HashedAttend

    def __init__(self, heads: Heads, score: str, position: Position, hashing: Hashing):
        super().__init__(heads, score, position)
        self.to_keys = torch.nn.Identity()
        self.attend = HashedAttend(self.attend.score, position, hashing, self.d_head)

    def look_at_self(
        self, x: Tensor, layout: Layout, sight: Sight, past: Past | None = None, added: Tensor | None = None
    ) -> Tensor:
        queries, values = products(x, [self.to_queries, self.to_values])
        memory = self.attend.remember(unit(self.split_heads(queries)), self.split_heads(values), layout)
        return self.look(queries, layout, memory if past is None else past(memory), sight, added)

    def multiplications(self, n_keys: float, n_made: float = 1.0) -> float:
        hashing = self.attend.hashing
        n_compared = min(n_keys, hashing.n_rounds * 2 * hashing.chunk)
        of_hashes = hashing.n_rounds * hashing.n_buckets / 2 + 2 * n_compared
        return n_weights(self.to_queries, self.to_values, self.to_output) + self.n_heads * self.d_head * of_hashes


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def together(buckets: Tensor, chunk: Tensor, others: Tensor, other_chunk: Tensor) -> Tensor:
    """Same bucket, and a chunk that is the same or the one before: (..., Q) and (..., K) -> (..., Q, K)"""
    apart = chunk[..., :, None] - other_chunk[..., None, :]
    return (buckets[..., :, None] == others[..., None, :]) & ((apart == 0) | (apart == 1))


def meetings(queries: Tensor, keys: Tensor) -> Tensor:
    """Codes (..., C, R, 2) and (..., 2C, R, 2) -> which rounds bring a pair together (R, ..., C, 2C)"""
    pairs = zip(queries.unbind(-2), keys.unbind(-2), strict=True)
    return torch.stack([together(q[..., 0], q[..., 1], k[..., 0], k[..., 1]) for q, k in pairs])


def take(rows: Tensor, order: Tensor) -> Tensor:
    """Rows (B, H, T, E) in an order (B, H, T)."""
    return rows.gather(2, order[..., None].expand(*order.shape, rows.shape[-1]))


def cut(rows: Tensor, size: int, fill: float = 0) -> Tensor:
    """(B, H, T, E) -> (B, H, N, size, E)"""
    return F.pad(rows, (0, 0, 0, -rows.shape[2] % size), value=fill).unflatten(2, (-1, size))


def with_previous(rows: Tensor, size: int, fill: float = 0) -> Tensor:
    """Each chunk after the one before it: (B, H, T, E) -> (B, H, N, 2 size, E)"""
    chunks = cut(rows, size, fill)
    before = F.pad(chunks, (0, 0, 0, 0, 1, 0), value=fill)[:, :, :-1]
    return torch.cat([before, chunks], 3)
