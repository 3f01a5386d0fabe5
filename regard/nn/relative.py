"""Attention by content, distance and segment: a score of three parts that is one product, so every kernel serves it."""

import math

import torch
from torch import Tensor, nn

from regard.choose import choose
from regard.nn.attention import Attend, Attention, Memory
from regard.nn.layout import Layout
from regard.nn.linear import Linear, n_weights
from regard.nn.positions import Position, Space
from regard.nn.scores import SCORES, Score
from regard.nn.sight import Sight


class RelativePlaces(nn.Module):
    """What a key shows of its place: [sin(j f), cos(j f)] for every frequency f, and its segment as one of n bits."""

    sines: Tensor
    cosines: Tensor

    def __init__(self, max_length: int, d_model: int, n_segments: int):
        super().__init__()
        self.n_segments = n_segments
        exponents = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
        # In float64, so that angles are rounded once, at the end.
        angles = torch.arange(max_length, dtype=torch.float64)[:, None] * 10000.0**-exponents
        self.register_buffer("sines", angles.sin().float(), persistent=False)
        self.register_buffer("cosines", angles.cos().float(), persistent=False)

    def forward(self, positions: Tensor, segments: Tensor) -> Tensor:
        """Places and segments (...) -> (..., D + S)."""
        parts = [self.sines[positions], self.cosines[positions]]
        if self.n_segments:
            parts.append(nn.functional.one_hot(segments, self.n_segments).to(self.sines.dtype))
        return torch.cat(parts, -1)


class WithPlaces(Score):
    """A score of contents plus the product of what is asked and shown of places, over sqrt(d_head).

    Queries and keys are those of the contents, prepared, followed by those of the places.
    """

    def __init__(self, contents: Score, d_head: int, max_length: int):
        super().__init__(d_head, max_length)
        self.contents, self.d_head = contents, d_head
        self.scale, self.reads_keys, self.n_products = contents.scale, contents.reads_keys, contents.n_products
        self.n_query_weights, self.n_key_weights = contents.n_query_weights, contents.n_key_weights
        self.places_scale = 1 / math.sqrt(d_head)

    def of_queries(self, contents: Tensor, places: Tensor) -> Tensor:  # type: ignore[override]
        """A product is one for both, so that what is asked of places takes the scale of the contents."""
        scale = 1.0 if self.scale is None else self.places_scale / self.scale
        return torch.cat([self.contents.of_queries(contents), places if scale == 1 else places * scale], -1)

    def compare(self, queries: Tensor, keys: Tensor) -> Tensor:
        if self.scale is not None:
            return (queries * self.scale) @ keys.mT
        by_contents = self.contents.compare(queries[..., : self.d_head], keys[..., : self.d_head])
        return by_contents + (queries[..., self.d_head :] * self.places_scale) @ keys[..., self.d_head :].mT


class RelativeAttention(Attention):
    """score(i, j) = [(q_i + u) k_j + (q_i + v) W_r R_(i-j) + (q_i + s) g_(same or other segment)] / sqrt(d_head)

    Dai et al. 2019, section 3.3; the segments of Yang et al. 2019, section 2.5.  The first part, of contents, is
    theirs with the score "scaled_dot", and can be any other.  R_d = [sin(d f), cos(d f)] says how far.
    The sine and cosine of a difference are sums of products, so that with z = W_r' (q_i + v)

        z R_(i-j) = (z_c sin(i f) - z_s cos(i f)) sin(j f) + (z_s sin(i f) + z_c cos(i f)) cos(j f)

    is a product of a longer query with what key j shows of its place.  The papers' code shifts a table of distances.
    """

    def __init__(self, d_model: int, n_heads: int, score: str, max_length: int, n_segments: int):
        super().__init__()
        d_head = d_model // n_heads
        contents = choose(SCORES, score, "attention score")(d_head, max_length)
        self.n_heads, self.d_head, self.n_segments = n_heads, d_head, n_segments
        d_heads = n_heads * d_head
        self.to_queries = Linear(d_model, d_heads, bias=False)
        self.to_keys = Linear(d_model, d_heads, bias=False) if contents.reads_keys else nn.Identity()
        self.to_values = Linear(d_model, d_heads, bias=False)
        self.to_distances = Linear(d_model, d_heads, bias=False)  # W_r
        self.to_output = Linear(d_heads, d_model, bias=False)
        self.content_bias = nn.Parameter(torch.randn(n_heads, d_head) * 0.02)  # u
        self.distance_bias = nn.Parameter(torch.randn(n_heads, d_head) * 0.02)  # v
        if n_segments:
            self.segment_bias = nn.Parameter(torch.randn(n_heads, d_head) * 0.02)  # s
            self.segment_keys = nn.Parameter(torch.randn(2, n_heads, d_head) * 0.02)  # g: of the same, of another
        both = WithPlaces(contents, d_head, max_length)
        self.attend = Attend(both, Position(Space(d_model, n_heads, max_length)))

    @property
    def score(self) -> WithPlaces:
        assert isinstance(self.attend.score, WithPlaces)
        return self.attend.score

    def remember(self, x: Tensor, layout: Layout, places: Tensor) -> Memory:
        """The keys and values of every row of x, at these places (rows, D + S)."""
        keys = self.score.contents.of_keys(self.split_heads(self.to_keys(x)), layout.positions[..., None])
        shown = places.to(keys.dtype).unsqueeze(-2).expand(*keys.shape[:-1], -1)  # the same for every head
        return Memory(torch.cat([keys, shown], -1), self.split_heads(self.to_values(x)), layout)

    def forward(self, x: Tensor, layout: Layout, places: Tensor, memory: Memory, sight: Sight) -> Tensor:
        heads = self.attend(self.queries(x, places), layout, memory, sight)  # rows H E
        return self.to_output(heads.flatten(-2))

    def queries(self, x: Tensor, places: Tensor) -> Tensor:
        """What every head asks of contents, of places and of segments: (rows, H, E + D + S)."""
        queries = self.split_heads(self.to_queries(x))
        places = places.to(queries.dtype).unsqueeze(-2)
        of_places = [self.of_places(queries + self.distance_bias, places)]
        if self.n_segments:
            same, other = ((queries + self.segment_bias) * g for g in self.segment_keys)
            own = places[..., -self.n_segments :]
            of_places.append(other.sum(-1, keepdim=True) * (1 - own) + same.sum(-1, keepdim=True) * own)
        return self.score.of_queries(queries + self.content_bias, torch.cat(of_places, -1))

    def of_places(self, queries: Tensor, places: Tensor) -> Tensor:
        d_model = self.to_distances.in_features
        by_head = self.to_distances.weight.unflatten(0, (self.n_heads, self.d_head))  # H E D
        z_s, z_c = torch.einsum("...he,hed->...hd", queries, by_head).chunk(2, -1)
        sines, cosines = places[..., :d_model].chunk(2, -1)
        return torch.cat([z_c * sines - z_s * cosines, z_s * sines + z_c * cosines], -1)

    def multiplications(self, n_keys: float) -> float:
        """For a row that looks at so many keys and is itself a key.  What a key shows of its place is d_model wide."""
        score, d_model = self.score, self.to_distances.in_features
        products = n_weights(self.to_queries, self.to_keys, self.to_values, self.to_distances, self.to_output)
        prepared = self.n_heads * (score.n_query_weights + score.n_key_weights)
        return products + prepared + n_keys * self.n_heads * (score.n_products * self.d_head + d_model)
