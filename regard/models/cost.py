"""What a Transformer costs, from first principles: a product of (a, b) and (b, c) takes 2abc operations."""

from dataclasses import dataclass

from regard.models.transformer import TransformerConfig
from regard.nn.scores import SCORES

# Of a score that is no plain product: how often a token meets a matrix of d_head by d_head in it.
SCORE_MAPS = {"general": 1, "additive": 2}


@dataclass(frozen=True)
class Cost:
    forward: float  # FLOPs per target token, its share of the source included
    how: str


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


def training_cost(c: TransformerConfig, steps: int, batch_tokens: int) -> float:
    """Forward once, backward twice that, on every target token."""
    return 3 * transformer_cost(c, source=30, target=30).forward * steps * batch_tokens


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
