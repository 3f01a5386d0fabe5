"""Llama (Touvron et al. 2023) and decoders like it, SmolLM, Qwen2 and Qwen3: rotary places, RMS norms, SwiGLU and
heads of queries that share those of keys and values."""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.checks import expect
from regard.errors import ConfigError
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.rotary import read_rotary, write_rotary
from regard.interop.families.settings import PLAIN, SettingsTable, SharedSetting, Theirs
from regard.interop.families.tensor_forms import rotary_pairs
from regard.models.stack import StackConfig
from regard.runs.recipe import Recipe
from regard.tasks.exchange import CAUSAL

WINDOW = 1024  # tokens that a training of the run, if there is one, reads at once
SHAPE = {"causal": True, "pre_norm": True, "position": "rotary", "norm": "rms", "feed_forward": "swiglu"}
TABLE = {
    "d_model": SharedSetting("hidden_size"),
    "n_heads": SharedSetting("num_attention_heads"),
    "n_layers": SharedSetting("num_hidden_layers", Theirs.layers),
    "d_ff": SharedSetting("intermediate_size"),
    "max_length": SharedSetting("max_position_embeddings", Theirs.length),
    "norm_eps": SharedSetting("rms_norm_eps", Theirs.number, 1e-6),
    "vocab_size": SharedSetting("vocab_size"),
    "tied": SharedSetting("tie_word_embeddings", Theirs.flag, False),
}


@dataclass(frozen=True)
class Decoder:
    """What tells one of them from another."""

    model_type: str
    made_by: str  # the class of transformers
    bias: str = "none"  # unless their settings say otherwise
    norm_heads: bool = False
    may_have_biases: bool = False  # in all products, if their settings say so

    @property
    def settings(self) -> SettingsTable:
        shape = PLAIN | SHAPE | {"norm_heads": self.norm_heads}
        return SettingsTable(model_type=self.model_type, classes={CAUSAL.head: self.made_by}, shape=shape, table=TABLE)

    def read_config(self, theirs: Theirs) -> Imported:
        theirs.choice("hidden_act", {"silu": "swish", "swish": "swish"}, "silu")
        theirs.expect(use_sliding_window=False, pretraining_tp=1)
        types = theirs.get("layer_types", [])
        if not isinstance(types, list) or any(kind != "full_attention" for kind in types):
            raise ConfigError(f"layer_types must be full_attention in every layer, got {types!r}")
        model = self.settings.read(theirs)
        d_model, n_heads = model["d_model"], model["n_heads"]
        d_head = theirs.width("head_dim", max(1, d_model // n_heads))
        n_key_heads = theirs.width("num_key_value_heads", n_heads)
        model |= {
            "n_key_heads": 0 if n_key_heads == n_heads else n_key_heads,
            "d_head": 0 if d_head * n_heads == d_model else d_head,
            "dropout": 0.0,
            "bias": self.read_bias(theirs),
            **read_rotary(theirs, model["max_length"]),
        }
        return Imported(model, "language", {"window": min(WINDOW, model["max_length"])})

    def read_bias(self, theirs: Theirs) -> str:
        in_attention, in_feed_forward = theirs.flag("attention_bias", False), theirs.flag("mlp_bias", False)
        if in_attention != in_feed_forward:
            raise ConfigError("attention_bias and mlp_bias must be alike: regard has biases in both or in neither")
        return "all" if in_attention else self.bias

    def write_config(self, recipe: Recipe) -> dict[str, object]:
        c = expect(recipe.model, StackConfig)
        bias = "all" if c.bias == "all" and self.may_have_biases else self.bias
        return self.settings.write(recipe, n_key_heads=c.n_key_heads, d_head=c.d_head, bias=bias) | {
            "num_key_value_heads": c.heads.shared,
            "head_dim": c.heads.width,
            **write_rotary(c),
            "hidden_act": "silu",
            "attention_bias": c.bias == "all",
            "mlp_bias": c.bias == "all",
        }


def weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, StackConfig)
    in_pairs, has_input_bias = rotary_pairs(c.heads.width), c.bias != "none"
    yield Weight("model.embed_tokens.weight", ("reader.embedding.weight",))
    for i in range(c.n_layers):
        theirs, ours = f"model.layers.{i}", f"reader.blocks.{i}"
        for name, own in (("q_proj", "to_queries"), ("k_proj", "to_keys")):
            for part in ("weight", "bias") if has_input_bias else ("weight",):
                yield Weight(f"{theirs}.self_attn.{name}.{part}", (f"{ours}.attention.{own}.{part}",), in_pairs)
        yield from product(f"{theirs}.self_attn.v_proj", f"{ours}.attention.to_values", bias=has_input_bias)
        yield from product(f"{theirs}.self_attn.o_proj", f"{ours}.attention.to_output", bias=c.bias == "all")
        if c.norm_heads:
            yield Weight(f"{theirs}.self_attn.q_norm.weight", (f"{ours}.attention.norm_queries.weight",), in_pairs)
            yield Weight(f"{theirs}.self_attn.k_norm.weight", (f"{ours}.attention.norm_keys.weight",), in_pairs)
        for name, own in (("gate_proj", "gate"), ("up_proj", "expand"), ("down_proj", "contract")):
            yield from product(f"{theirs}.mlp.{name}", f"{ours}.feed_forward.{own}", bias=c.bias == "all")
        yield from product(f"{theirs}.input_layernorm", f"{ours}.attention_residual.norm", bias=False)
        yield from product(f"{theirs}.post_attention_layernorm", f"{ours}.feed_forward_residual.norm", bias=False)
    yield from product("model.norm", "reader.norm", bias=False)
    if not c.tied:
        yield Weight("lm_head.weight", ("own_table",))


def family(decoder: Decoder) -> Family:
    return Family(
        read_config=decoder.read_config,
        write_config=decoder.write_config,
        weights=weights,
        prefix="model.",
        spare=(r".*rotary_emb\.inv_freq",),
        copies=(("lm_head.weight", "model.embed_tokens.weight"),),
    )


LLAMA = family(Decoder("llama", "LlamaForCausalLM", may_have_biases=True))
QWEN2 = family(Decoder("qwen2", "Qwen2ForCausalLM", bias="inputs"))
QWEN3 = family(Decoder("qwen3", "Qwen3ForCausalLM", norm_heads=True))
