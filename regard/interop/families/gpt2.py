"""GPT-2 (Radford et al. 2019): a causal stack with learned positions and norms before its sublayers."""

from collections.abc import Iterator

from regard.checks import expect
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.settings import PLAIN, SettingsTable, SharedSetting, Theirs, WordSetting
from regard.interop.families.tensor_forms import TURNED, stacked
from regard.models.stack import StackConfig
from regard.runs.recipe import Recipe
from regard.tasks.exchange import CAUSAL

TANH = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
ACTIVATIONS = TANH | {"gelu": "gelu", "relu": "relu", "silu": "swish"}
SETTINGS = SettingsTable(
    model_type="gpt2",
    classes={CAUSAL.head: "GPT2LMHeadModel"},
    shape=PLAIN | {"causal": True, "pre_norm": True, "position": "learned", "norm": "layer"},
    table={
        "d_model": SharedSetting("n_embd"),
        "n_heads": SharedSetting("n_head"),
        "n_layers": SharedSetting("n_layer", Theirs.layers),
        "max_length": SharedSetting("n_positions"),
        "dropout": SharedSetting("resid_pdrop", Theirs.number, 0.1),
        "norm_eps": SharedSetting("layer_norm_epsilon", Theirs.number, 1e-5),
        "feed_forward": WordSetting("activation_function", ACTIVATIONS, "gelu_new"),
        "vocab_size": SharedSetting("vocab_size"),
        "tied": SharedSetting("tie_word_embeddings", Theirs.flag, True),
    },
)


def read_config(theirs: Theirs) -> Imported:
    theirs.expect(scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    model = SETTINGS.read(theirs)
    model["d_ff"] = theirs.width("n_inner", 4 * model["d_model"])
    return Imported(model, "language", {"window": min(1024, model["max_length"])})


def write_config(recipe: Recipe) -> dict[str, object]:
    c = expect(recipe.model, StackConfig)
    return SETTINGS.write(recipe) | {"n_inner": c.d_ff, "embd_pdrop": c.dropout, "attn_pdrop": 0.0}


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, StackConfig)
    yield Weight("transformer.wte.weight", ("reader.embedding.weight",))
    yield Weight("transformer.wpe.weight", ("reader.position.table",))
    for i in range(c.n_layers):
        theirs, ours = f"transformer.h.{i}", f"reader.blocks.{i}"
        for part in ("weight", "bias"):
            inputs = tuple(f"{ours}.attention.{name}.{part}" for name in ("to_queries", "to_keys", "to_values"))
            yield Weight(f"{theirs}.attn.c_attn.{part}", inputs, stacked((c.d_model,) * 3, is_turned=part == "weight"))
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
