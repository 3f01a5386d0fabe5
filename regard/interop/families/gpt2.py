"""GPT-2 (Radford et al. 2019): a causal stack with learnt positions and norms before its sublayers."""

from collections.abc import Iterator
from typing import Any

from regard.interop.families.family import PLAIN, WRITERS, Family, Imported, Theirs, Weight, product, require, word_for
from regard.interop.families.forms import TURNED, Stacked
from regard.runs.recipe import Recipe

ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "swish",
}


def read_config(theirs: Theirs) -> Imported:
    theirs.expect(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    d_model = theirs.width("n_embd")
    model: dict[str, Any] = {
        "d_model": d_model,
        "n_heads": theirs.width("n_head"),
        "n_layers": theirs.layers("n_layer"),
        "d_ff": theirs.width("n_inner", 4 * d_model),
        "max_length": theirs.width("n_positions"),
        "dropout": theirs.number("resid_pdrop", 0.1),
        "norm_eps": theirs.number("layer_norm_epsilon", 1e-5),
        "feed_forward": theirs.choice("activation_function", ACTIVATIONS, "gelu_new"),
        "vocab_size": theirs.width("vocab_size"),
        "tied": theirs.flag("tie_word_embeddings", True),
        "scale_embedding": False,
    }
    return Imported("stack", model, "language", {"window": min(1024, model["max_length"])})


def write_config(recipe: Recipe) -> dict[str, Any]:
    c = recipe.model
    shape = {"causal": True, "pre_norm": True, "position": "learned", "norm": "layer"}
    require(recipe, "gpt2", WRITERS, PLAIN | shape)
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": c.d_model,
        "n_head": c.n_heads,
        "n_layer": c.n_layers,
        "n_inner": c.d_ff,
        "n_positions": c.max_length,
        "embd_pdrop": c.dropout,
        "resid_pdrop": c.dropout,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": c.norm_eps,
        "activation_function": word_for(ACTIVATIONS, c.feed_forward, "gpt2"),
        "vocab_size": c.vocab_size,
        "tie_word_embeddings": c.tied,
    }


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = recipe.model
    yield Weight("transformer.wte.weight", ("reader.embedding.weight",))
    yield Weight("transformer.wpe.weight", ("reader.position.table",))
    for i in range(c.n_layers):
        theirs, ours = f"transformer.h.{i}", f"reader.blocks.{i}"
        for part in ("weight", "bias"):
            stacked = tuple(f"{ours}.attention.{name}.{part}" for name in ("to_queries", "to_keys", "to_values"))
            yield Weight(f"{theirs}.attn.c_attn.{part}", stacked, Stacked((c.d_model,) * 3, turned=part == "weight"))
        yield from product(f"{theirs}.attn.c_proj", f"{ours}.attention.to_output", TURNED)
        yield from product(f"{theirs}.mlp.c_fc", f"{ours}.feed_forward.expand", TURNED)
        yield from product(f"{theirs}.mlp.c_proj", f"{ours}.feed_forward.contract", TURNED)
        yield from product(f"{theirs}.ln_1", f"{ours}.attention_residual.norm")
        yield from product(f"{theirs}.ln_2", f"{ours}.feed_forward_residual.norm")
    yield from product("transformer.ln_f", "reader.norm")
    if not c.tied:
        yield Weight("lm_head.weight", ("own_table",))


GPT2 = Family(
    read_config=read_config,
    write_config=write_config,
    weights=weights,
    prefix="transformer.",
    spare=(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",),
    copies=(("lm_head.weight", "transformer.wte.weight"),),
)
