"""XLNet (Yang et al. 2019): matrices with a dimension for the heads, and segments that attention distinguishes."""

from collections.abc import Iterator

from regard.checks import expect
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.settings import SettingsTable, SharedSetting, Theirs, WordSetting, exchange_of
from regard.interop.families.tensor_forms import AS_IS, Form, from_heads, shaped, to_heads, zeros
from regard.models.xlnet import XLNetConfig
from regard.runs.recipe import Recipe
from regard.tasks.exchange import PERMUTED, ROWS

ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "silu": "swish"}
N_SEGMENTS = 3  # a text, a second one, and the <cls> after them
LENGTH = 512  # of its pre-training; distances have no table, so the settings do not say
INPUTS = {"q": "to_queries", "k": "to_keys", "v": "to_values", "r": "to_distances"}
BIASES = {"r_w_bias": "content_bias", "r_r_bias": "distance_bias"}
SEGMENTS = {"r_s_bias": "segment_bias", "seg_embed": "segment_keys"}
SETTINGS = SettingsTable(
    model_type="xlnet",
    classes={PERMUTED.head: "XLNetLMHeadModel", ROWS.head: "XLNetModel"},
    shape={"score": "scaled_dot"},
    table={
        "d_model": SharedSetting("d_model"),
        "n_heads": SharedSetting("n_head"),
        "n_layers": SharedSetting("n_layer", Theirs.layers),
        "d_ff": SharedSetting("d_inner"),
        "dropout": SharedSetting("dropout", Theirs.number, 0.1),
        "norm_eps": SharedSetting("layer_norm_eps", Theirs.number, 1e-12),
        "feed_forward": WordSetting("ff_activation", ACTIVATIONS, "gelu"),
        "vocab_size": SharedSetting("vocab_size"),
    },
)


def read_config(theirs: Theirs) -> Imported:
    theirs.expect(attn_type="bi", bi_data=False, clamp_len=-1, same_length=False, tie_word_embeddings=True)
    model = SETTINGS.read(theirs) | {"max_length": LENGTH, "n_segments": N_SEGMENTS}
    return Imported(model, "permutation" if theirs.made_by == "XLNetLMHeadModel" else "reading", {})


def write_config(recipe: Recipe) -> dict[str, object]:
    c = expect(recipe.model, XLNetConfig)
    return SETTINGS.write(recipe) | {"d_head": c.d_model // c.n_heads, "tie_word_embeddings": True}


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, XLNetConfig)
    heads = (c.n_heads, c.d_model // c.n_heads)
    yield Weight("transformer.word_embedding.weight", ("reader.embedding.weight",))
    yield Weight("transformer.mask_emb", ("reader.unknown",), shaped((1, 1, c.d_model), (c.d_model,)))
    for i in range(c.n_layers):
        theirs, ours = f"transformer.layer.{i}", f"reader.blocks.{i}"
        for name, own in INPUTS.items():
            yield Weight(f"{theirs}.rel_attn.{name}", (f"{ours}.attention.{own}.weight",), to_heads(heads))
        yield Weight(f"{theirs}.rel_attn.o", (f"{ours}.attention.to_output.weight",), from_heads(heads))
        for name, own in BIASES.items():
            yield Weight(f"{theirs}.rel_attn.{name}", (f"{ours}.attention.{own}",))
        for name, own in SEGMENTS.items():
            shape = heads if name == "r_s_bias" else (2, *heads)
            form: Form = AS_IS if c.n_segments else zeros(shape)
            yield Weight(f"{theirs}.rel_attn.{name}", (f"{ours}.attention.{own}",) if c.n_segments else (), form)
        yield from product(f"{theirs}.rel_attn.layer_norm", f"{ours}.attention_residual.norm")
        yield from product(f"{theirs}.ff.layer_1", f"{ours}.feed_forward.expand")
        yield from product(f"{theirs}.ff.layer_2", f"{ours}.feed_forward.contract")
        yield from product(f"{theirs}.ff.layer_norm", f"{ours}.feed_forward_residual.norm")
    if exchange_of(recipe).predicts_words:
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
