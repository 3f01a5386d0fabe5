"""XLNet (Yang et al. 2019): matrices with a dimension for the heads, and segments that attention tells apart."""

from collections.abc import Iterator
from typing import Any

from regard.errors import ConfigError
from regard.interop.families.family import Family, Imported, Theirs, Weight, product, require, word_for
from regard.interop.families.forms import AS_IS, Form, FromHeads, Shaped, ToHeads, Zeros
from regard.runs.recipe import Recipe

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "silu": "swish"}
N_SEGMENTS = 3  # a text, a second one, and the <cls> behind them
LENGTH = 512  # of its pre-training; distances have no table, so the settings do not say
INPUTS = {"q": "to_queries", "k": "to_keys", "v": "to_values", "r": "to_distances"}
BIASES = {"r_w_bias": "content_bias", "r_r_bias": "distance_bias"}
SEGMENTS = {"r_s_bias": "segment_bias", "seg_embed": "segment_keys"}


def read_config(theirs: Theirs) -> Imported:
    theirs.expect(attn_type="bi", bi_data=False, clamp_len=-1, same_length=False, tie_word_embeddings=True)
    model = {
        "d_model": theirs.width("d_model"),
        "n_heads": theirs.width("n_head"),
        "n_layers": theirs.layers("n_layer"),
        "d_ff": theirs.width("d_inner"),
        "dropout": theirs.number("dropout", 0.1),
        "norm_eps": theirs.number("layer_norm_eps", 1e-12),
        "feed_forward": theirs.choice("ff_activation", ACTIVATIONS, "gelu"),
        "vocab_size": theirs.width("vocab_size"),
        "max_length": LENGTH,
        "n_segments": N_SEGMENTS,
    }
    kind = "permutation" if theirs.heads == "XLNetLMHeadModel" else "reading"
    return Imported("xlnet", model, kind, {})


def write_config(recipe: Recipe) -> dict[str, Any]:
    c = recipe.model
    if recipe.architecture != "xlnet":
        raise ConfigError(f"xlnet has no place for a model of architecture {recipe.architecture!r}")
    require(recipe, "xlnet", ("permutation", "reading"), {"score": "scaled_dot"})
    return {
        "model_type": "xlnet",
        "architectures": ["XLNetLMHeadModel" if recipe.kind == "permutation" else "XLNetModel"],
        "d_model": c.d_model,
        "n_head": c.n_heads,
        "n_layer": c.n_layers,
        "d_inner": c.d_ff,
        "d_head": c.d_model // c.n_heads,
        "dropout": c.dropout,
        "layer_norm_eps": c.norm_eps,
        "ff_activation": word_for(ACTIVATIONS, c.feed_forward, "xlnet"),
        "vocab_size": c.vocab_size,
        "tie_word_embeddings": True,
    }


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = recipe.model
    heads = (c.n_heads, c.d_model // c.n_heads)
    yield Weight("transformer.word_embedding.weight", ("reader.embedding.weight",))
    yield Weight("transformer.mask_emb", ("reader.unknown",), Shaped((1, 1, c.d_model), (c.d_model,)))
    for i in range(c.n_layers):
        theirs, ours = f"transformer.layer.{i}", f"reader.blocks.{i}"
        for name, own in INPUTS.items():
            yield Weight(f"{theirs}.rel_attn.{name}", (f"{ours}.attention.{own}.weight",), ToHeads(heads))
        yield Weight(f"{theirs}.rel_attn.o", (f"{ours}.attention.to_output.weight",), FromHeads(heads))
        for name, own in BIASES.items():
            yield Weight(f"{theirs}.rel_attn.{name}", (f"{ours}.attention.{own}",))
        for name, own in SEGMENTS.items():
            shape = heads if name == "r_s_bias" else (2, *heads)
            form: Form = AS_IS if c.n_segments else Zeros(shape)
            yield Weight(f"{theirs}.rel_attn.{name}", (f"{ours}.attention.{own}",) if c.n_segments else (), form)
        yield from product(f"{theirs}.rel_attn.layer_norm", f"{ours}.attention_residual.norm")
        yield from product(f"{theirs}.ff.layer_1", f"{ours}.feed_forward.expand")
        yield from product(f"{theirs}.ff.layer_2", f"{ours}.feed_forward.contract")
        yield from product(f"{theirs}.ff.layer_norm", f"{ours}.feed_forward_residual.norm")
    if recipe.kind == "permutation":
        yield Weight("lm_loss.bias", ("output_bias",))


XLNET = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    architecture="xlnet",
    prefix="transformer.",
    heads=(r"(logits_proj|qa_outputs|sequence_summary|start_logits|end_logits|answer_class|classifier)\..*",),
    copies=(("lm_loss.weight", "transformer.word_embedding.weight"),),
)
