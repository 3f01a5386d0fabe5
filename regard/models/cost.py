"""What a model costs, from first principles: a product of (a, b) and (b, c) takes 2abc operations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.models.heads import attentions_of
from regard.models.seq2seq import Seq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.nn.positions import Position
from regard.nn.recurrent import CELLS, Cell
from regard.nn.scores import SCORES, Score

# Of a score that is no plain product: how often a token meets a matrix of d_head by d_head in it.
SCORE_MAPS = {"general": 1, "additive": 2}
GATED = ("swiglu", "geglu")  # feed-forward nets of three matrices
# Of a recurrent cell: how often a token meets matrices from input and state to state.
GATES = {"rnn": 1, "relu_rnn": 1, "lstm": 4, "gru": 3}


@dataclass(frozen=True)
class Cost:
    forward: float  # FLOPs per token that is read or, of a translator, written, its share of the source included
    how: str
    is_sequential: bool = False  # one token after the other: a GPU waits, and its rate says little


def transformer_cost(c: TransformerConfig, source: int, target: int) -> Cost:
    """Per target token, for sentences of `source` and `target` tokens.

    Every weight of a matrix is used once a token: 2 FLOPs.  Attention adds 2 products with each key that is looked at;
    the additive score's sum and tanh count as a third.
    """
    feed_forward = (3 if c.feed_forward in GATED else 2) * c.d_model * c.d_ff
    d_queries, d_keys = c.n_heads * c.heads.width, c.heads.shared * c.heads.width
    projections = c.d_model * (2 * d_queries + (2 if SCORES[c.score].reads_keys else 1) * d_keys)
    attention = projections + SCORE_MAPS.get(c.score, 0) * d_queries * c.heads.width
    looks = 3 if c.score == "additive" else 2
    encoder_weights = c.n_layers * (attention + feed_forward)
    decoder_weights = c.n_layers * (2 * attention + feed_forward)
    encoder_looks = c.n_layers * looks * source * d_queries
    decoder_looks = c.n_layers * looks * (target / 2 + source) * d_queries  # on average half the past
    output = c.vocab_size * c.d_model
    per_source = 2 * (encoder_weights + encoder_looks)
    per_target = 2 * (decoder_weights + decoder_looks + output)
    # The keys and values of the memory are made per source token: counted in the decoder as if both sides were equal.
    forward = per_target + per_source * source / target
    return Cost(
        forward, f"2 per weight and token, {looks} products per key looked at; {source} source, {target} target tokens"
    )


def seq2seq_cost(c: Seq2SeqConfig, source: int, target: int) -> Cost:
    """Likewise.  The bridge is crossed once a sentence."""
    d, m, attends = c.d_model, c.d_hidden, c.score != "none"
    ways = 2 if c.bidirectional else 1

    def cells(d_in: int) -> int:
        return GATES[c.cell] * m * (d_in + m)

    encoder = ways * (cells(d) + (c.n_layers - 1) * cells(ways * m))
    decoder = cells(d) + (c.n_layers - 1) * cells(m)
    bridge = ways * m * c.n_layers * CELLS[c.cell].n_states * m
    to_memory = ways * m**2 if attends and c.bidirectional else 0
    looks = 0 if not attends else 3 if c.score == "additive" else 2
    of_keys, of_queries = (m**2 if c.score in named else 0 for named in (("additive",), ("additive", "general")))
    per_source = 2 * (encoder + to_memory + of_keys)
    per_target = 2 * (decoder + of_queries + looks * source * m + (1 + attends) * m * d + c.vocab_size * d)
    forward = per_target + (per_source * source + 2 * bridge) / target
    how = f"2 per weight and token, {looks} products per key looked at; {source} source, {target} target tokens"
    return Cost(forward, how, is_sequential=True)


def reader_cost(model: Any, length: int) -> Cost:
    """Per token of a sequence of `length`: 2 FLOPs for every weight of its matrices, and what attention looks at.

    Tables that are looked up cost nothing; the one that is compared with every row does.  A head that reads one summary
    off each sequence is counted as if it read every row.
    """
    is_looked_up = {
        id(p) for m in model.modules() if isinstance(m, nn.Embedding | Position | Score) for p in m.parameters()
    }
    used = [p for p in model.parameters() if p.ndim > 1 and id(p) not in is_looked_up]
    compared = getattr(model, "output_table", None)
    if compared is not None and all(compared is not p for p in used):
        used.append(compared)
    attentions = [attention for _, _, attention in attentions_of(model)]
    seen = length / 2 if getattr(model.config, "causal", True) else length  # on average half the past
    looks = sum(looks_per_key(a.attend.score) * seen * a.to_values.out_features for a in attentions)
    maps = sum(a.n_heads * map_weights(a.attend.score) for a in attentions)
    how = (
        f"2 per weight and token, 2 or 3 products per key looked at; {length} tokens" if attentions else "2 per weight"
    )
    is_sequential = any(isinstance(m, Cell) for m in model.modules())
    return Cost(2 * (sum(p.numel() for p in used) + maps + looks), how, is_sequential)


def looks_per_key(score: Score) -> int:
    """Products with each key: for the score and for its value; a score that is no product counts as two."""
    return 3 if score.scale is None else 2


def map_weights(score: Score) -> int:
    """Weights that a head's part of a row meets; the rows of a location-based score are looked up."""
    return sum(p.numel() for p in score.parameters() if p.ndim > 1) if score.reads_keys else 0


def bilm_cost(model: Any, length: int) -> Cost:
    """Both directions compare their rows with the embeddings."""
    cost = reader_cost(model, length)
    return replace(cost, forward=cost.forward + 2 * 2 * model.embedding.weight.numel())


def bag_cost(model: Any, length: int) -> Cost:
    """Every n-gram that ends at a token votes once for each label."""
    c = model.config
    return Cost(2 * c.ngrams * c.n_labels, f"2 per n-gram and label; {c.ngrams} n-grams end at a token")


def xlnet_cost(model: Any, length: int) -> Cost:
    """A query also meets what each key shows of its place, d_model numbers.  The stream of the few tokens that are
    foretold is not counted."""
    c, cost = model.config, reader_cost(model, length)
    places = c.n_layers * length * c.n_heads * c.d_model
    added = sum(p.numel() for _, _, attention in attentions_of(model) for p in attention.parameters(recurse=False))
    return replace(cost, forward=cost.forward + 2 * (places - added))


# All others are readers.
COSTS: dict[str, Callable[[Any, int], Cost]] = {
    "bag": bag_cost,
    "bilm": bilm_cost,
    "seq2seq": lambda model, length: seq2seq_cost(model.config, length, length),
    "transformer": lambda model, length: transformer_cost(model.config, length, length),
    "xlnet": xlnet_cost,
}


def training_cost(cost: Cost, n_tokens: int) -> float:
    """Forward once, backward twice that, on every token."""
    return 3 * cost.forward * n_tokens


# The documents' table (Vaswani et al. 2017, table 2) and how its authors counted: time x GPUs x sustained rate.
PUBLISHED = {
    "transformer-base": (3.3e18, 12 / 24, 8),
    "transformer-big": (2.3e19, 3.5, 8),
}
P100 = 9.5e12  # FLOP/s that the paper takes for a P100, single precision


def published(name: str) -> list[tuple[str, str, str]]:
    if name not in PUBLISHED:
        return []
    flops, days, n_gpus = PUBLISHED[name]
    counted = days * 86400 * n_gpus * P100
    return [
        ("the documents say", f"{flops:.2g} FLOPs", "Vaswani et al. 2017, table 2"),
        (
            "as they counted",
            f"{counted:.2g} FLOPs",
            f"{days:g} days × {n_gpus} P100 × 9.5 TFLOP/s: capacity, not work done",
        ),
    ]
