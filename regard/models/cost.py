"""What a translator costs, from first principles: a product of (a, b) and (b, c) takes 2abc operations."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.models.seq2seq import Seq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.nn.recurrent import CELLS
from regard.nn.scores import SCORES

# Of a score that is no plain product: how often a token meets a matrix of d_head by d_head in it.
SCORE_MAPS = {"general": 1, "additive": 2}
# Of a recurrent cell: how often a token meets matrices from input and state to state.
GATES = {"rnn": 1, "relu_rnn": 1, "lstm": 4, "gru": 3}


@dataclass(frozen=True)
class Cost:
    forward: float  # FLOPs per target token, its share of the source included
    how: str
    is_sequential: bool = False  # one token after the other: a GPU waits, and its rate says little


def transformer_cost(c: TransformerConfig, source: int, target: int) -> Cost:
    """Per target token, for sentences of `source` and `target` tokens.

    Every weight of a matrix is used once a token: 2 FLOPs.  Attention adds 2 products with each key that is looked at;
    the additive score's sum and tanh count as a third.
    """
    feed_forward = (3 if c.feed_forward == "swiglu" else 2) * c.d_model * c.d_ff
    projections = (4 if SCORES[c.score].reads_keys else 3) * c.d_model**2
    attention = projections + SCORE_MAPS.get(c.score, 0) * c.d_model * (c.d_model // c.n_heads)
    looks = 3 if c.score == "additive" else 2
    encoder_weights = c.n_layers * (attention + feed_forward)
    decoder_weights = c.n_layers * (2 * attention + feed_forward)
    encoder_looks = c.n_layers * looks * source * c.d_model
    decoder_looks = c.n_layers * looks * (target / 2 + source) * c.d_model  # on average half the past
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


COSTS: dict[str, Callable[[Any, int, int], Cost]] = {"seq2seq": seq2seq_cost, "transformer": transformer_cost}


def training_cost(cost: Cost, n_tokens: int) -> float:
    """Forward once, backward twice that, on every target token."""
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
