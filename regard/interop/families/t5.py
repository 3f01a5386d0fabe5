"""T5 (Raffel et al. 2020), v1.0 and v1.1: relative positions in buckets, RMS norms, no biases."""

from collections.abc import Iterator
from typing import Any

from regard.interop.families.family import TRANSLATORS, Family, Imported, Theirs, Weight, require, word_for
from regard.interop.families.forms import AS_IS, Scaled
from regard.runs.recipe import Recipe

FEED_FORWARDS = {  # v1.0 has the first, v1.1 the second
    "relu": "relu",
    "gated-gelu": "geglu",
    "gated-silu": "swiglu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "swish",
}
SHAPE = {
    "score": "dot",
    "position": "buckets",
    "norm": "rms",
    "pre_norm": True,
    "bias": "none",
    "scale_embedding": False,
    "embedding_norm": False,
    "output_bias": False,
    "n_key_heads": 0,
    "norm_heads": False,
}
ATTENTION = {"q": "to_queries", "k": "to_keys", "v": "to_values", "o": "to_output"}
PLAIN_NET = {"wi": "expand", "wo": "contract"}
GATED_NET = {"wi_0": "gate", "wi_1": "expand", "wo": "contract"}


def read_config(theirs: Theirs) -> Imported:
    if theirs.settings.get("num_decoder_layers") is not None:
        theirs.expect(num_decoder_layers=theirs.layers("num_layers"))
    net = theirs.settings.get("feed_forward_proj", "relu")  # what follows from it can also be said apart
    if isinstance(net, str):
        acts = "gelu_new" if net == "gated-gelu" else net.removeprefix("gated-")
        theirs.expect(dense_act_fn=acts, is_gated_act=net.startswith("gated-"))
    # v1.0 scales its last rows by d_model**-0.5 and reads words off the embeddings; v1.1 does neither.
    scales = theirs.flag("scale_decoder_outputs", theirs.flag("tie_word_embeddings", True))
    model = SHAPE | {
        "d_model": theirs.width("d_model"),
        "n_heads": theirs.width("num_heads"),
        "d_head": theirs.width("d_kv"),
        "n_layers": theirs.layers("num_layers"),
        "d_ff": theirs.width("d_ff"),
        "max_length": theirs.length("n_positions", 512),
        "n_buckets": theirs.width("relative_attention_num_buckets", 32),
        "furthest": theirs.length("relative_attention_max_distance", 128),
        "dropout": theirs.number("dropout_rate", 0.1),
        "norm_eps": theirs.number("layer_norm_epsilon", 1e-6),
        "feed_forward": theirs.choice("feed_forward_proj", FEED_FORWARDS, "relu"),
        "vocab_size": theirs.width("vocab_size"),
        "tied": scales,
    }
    start = theirs.token("decoder_start_token_id", theirs.token("pad_token_id", 0))
    return Imported("transformer", model, "translation", {"target_start": start})


def write_config(recipe: Recipe) -> dict[str, Any]:
    c = recipe.model
    require(recipe, "t5", TRANSLATORS, SHAPE)
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": c.d_model,
        "num_heads": c.n_heads,
        "d_kv": c.heads.width,
        "num_layers": c.n_layers,
        "num_decoder_layers": c.n_layers,
        "d_ff": c.d_ff,
        "n_positions": c.max_length,
        "relative_attention_num_buckets": c.n_buckets,
        "relative_attention_max_distance": c.furthest,
        "dropout_rate": c.dropout,
        "layer_norm_epsilon": c.norm_eps,
        "feed_forward_proj": word_for(FEED_FORWARDS, c.feed_forward, "t5"),
        "vocab_size": c.vocab_size,
        "tie_word_embeddings": c.tied,
        "is_encoder_decoder": True,
    }


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = recipe.model
    yield Weight("shared.weight", ("embedding.weight",))
    for side, position in (("encoder", "source_position"), ("decoder", "target_position")):
        # Theirs belongs to the first layer, which lends it to the others.
        buckets = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Weight(buckets, (f"{position}.table",))
        for i in range(c.n_layers):
            yield from block(f"{side}.block.{i}", f"{side}.{i}", side == "decoder", c.feed_forward)
        # Where words are read off the embeddings, the norm before does the scaling.
        scales = c.tied and side == "decoder"
        form = Scaled(c.d_model**-0.5) if scales else AS_IS
        yield Weight(f"{side}.final_layer_norm.weight", (f"{side}_norm.weight",), form)
    if not c.tied:
        yield Weight("lm_head.weight", ("own_table",))


def block(theirs: str, ours: str, is_decoder: bool, feed_forward: str) -> Iterator[Weight]:
    net = GATED_NET if feed_forward in ("geglu", "swiglu") else PLAIN_NET
    sublayers = [("SelfAttention", "attention", ATTENTION), ("DenseReluDense", "feed_forward", net)]
    if is_decoder:
        sublayers.insert(1, ("EncDecAttention", "cross_attention", ATTENTION))
    for i, (name, own, products) in enumerate(sublayers):
        for product, own_product in products.items():
            yield Weight(f"{theirs}.layer.{i}.{name}.{product}.weight", (f"{ours}.{own}.{own_product}.weight",))
        yield Weight(f"{theirs}.layer.{i}.layer_norm.weight", (f"{ours}.{own}_residual.norm.weight",))


T5 = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    architecture="transformer",
    copies=(
        ("encoder.embed_tokens.weight", "shared.weight"),
        ("decoder.embed_tokens.weight", "shared.weight"),
        ("lm_head.weight", "shared.weight"),
    ),
    old_endings=(("lm_head.weight", "shared.weight"),),  # v1.1 without a table of its own: unscaled embeddings
)
