"""T5 (Raffel et al. 2020), v1.0 and v1.1: relative positions in buckets, RMS norms, no biases."""

from collections.abc import Iterator

from regard.checks import expect
from regard.interop.families.family import Family, Imported, Weight
from regard.interop.families.settings import SettingsTable, SharedSetting, Theirs, WordSetting
from regard.interop.families.tensor_forms import AS_IS, scaled
from regard.models.transformer import TransformerConfig
from regard.runs.recipe import Recipe
from regard.tasks.exchange import SOURCE_TO_TARGET

FEED_FORWARDS = {  # v1.0 has the first, v1.1 the second
    "relu": "relu",
    "gated-gelu": "geglu",
    "gated-silu": "swiglu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "swish",
}
SETTINGS = SettingsTable(
    model_type="t5",
    classes={SOURCE_TO_TARGET.head: "T5ForConditionalGeneration"},
    shape={
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
    },
    table={
        "d_model": SharedSetting("d_model"),
        "n_heads": SharedSetting("num_heads"),
        "d_head": SharedSetting("d_kv"),
        "n_layers": SharedSetting("num_layers", Theirs.layers),
        "d_ff": SharedSetting("d_ff"),
        "max_length": SharedSetting("n_positions", Theirs.length, 512),
        "n_buckets": SharedSetting("relative_attention_num_buckets", default=32),
        "furthest": SharedSetting("relative_attention_max_distance", Theirs.length, 128),
        "dropout": SharedSetting("dropout_rate", Theirs.number, 0.1),
        "norm_eps": SharedSetting("layer_norm_epsilon", Theirs.number, 1e-6),
        "feed_forward": WordSetting("feed_forward_proj", FEED_FORWARDS, "relu"),
        "vocab_size": SharedSetting("vocab_size"),
        "tied": SharedSetting("tie_word_embeddings", Theirs.flag, True),
    },
)
ATTENTION = {"q": "to_queries", "k": "to_keys", "v": "to_values", "o": "to_output"}
PLAIN_NET = {"wi": "expand", "wo": "contract"}
GATED_NET = {"wi_0": "gate", "wi_1": "expand", "wo": "contract"}


def read_config(theirs: Theirs) -> Imported:
    if theirs.settings.get("num_decoder_layers") is not None:
        theirs.expect(num_decoder_layers=theirs.layers("num_layers"))
    net = theirs.settings.get("feed_forward_proj", "relu")  # the files may also spell out what follows from it
    if isinstance(net, str):
        acts = "gelu_new" if net == "gated-gelu" else net.removeprefix("gated-")
        theirs.expect(dense_act_fn=acts, is_gated_act=net.startswith("gated-"))
    model = SETTINGS.read(theirs)
    # v1.0 scales its last rows by d_model**-0.5 and reads words off the embeddings; v1.1 does neither.
    model["tied"] = theirs.flag("scale_decoder_outputs", model["tied"])
    start = theirs.token("decoder_start_token_id", theirs.token("pad_token_id", 0))
    return Imported(model, "translation", {"target_start": start})


def write_config(recipe: Recipe) -> dict[str, object]:
    c = expect(recipe.model, TransformerConfig)
    sizes = {"d_kv": c.heads.width, "num_decoder_layers": c.n_layers}
    return SETTINGS.write(recipe) | sizes | {"is_encoder_decoder": True}


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, TransformerConfig)
    yield Weight("shared.weight", ("embedding.weight",))
    for side, position in (("encoder", "source_position"), ("decoder", "target_position")):
        # Theirs belongs to the first layer, which lends it to the others.
        buckets = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield Weight(buckets, (f"{position}.table",))
        for i in range(c.n_layers):
            yield from block(f"{side}.block.{i}", f"{side}.{i}", side == "decoder", c.feed_forward)
        # Where words are read off the embeddings, the norm before does the scaling.
        scales = c.tied and side == "decoder"
        form = scaled(c.d_model**-0.5) if scales else AS_IS
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
