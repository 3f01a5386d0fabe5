"""BART (Lewis et al. 2020), Marian (Junczys-Dowmunt et al. 2018) and Pegasus (Zhang et al. 2020): one layout of names.

Marian is the Transformer of the paper, Pegasus the same with its norms before the sublayers: what regard trains goes
out as one of the two.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.checks import expect
from regard.interop.families.family import Family, Imported, Weight, product
from regard.interop.families.settings import PLAIN_ATTENTION, SettingsTable, SharedSetting, Theirs, WordSetting
from regard.interop.families.tensor_forms import AS_IS, after_rows, even_then_odd, shaped, zeros
from regard.models.transformer import TransformerConfig
from regard.nn.positions import POSITIONS, Space
from regard.runs.recipe import Recipe
from regard.tasks.exchange import SOURCE_TO_TARGET

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "swish": "swish", "silu": "swish"}
SIZES = {"layers": "n_layers", "attention_heads": "n_heads", "ffn_dim": "d_ff"}  # of the encoder, and of the decoder
ATTENTION = {"q_proj": "to_queries", "k_proj": "to_keys", "v_proj": "to_values", "out_proj": "to_output"}
READS = ("embedding", "to_queries", "to_keys", "to_values", "expand")  # parts of ours that have channels as columns


@dataclass(frozen=True)
class BartVariant:
    """What sets one of the families apart."""

    name: str
    made_by: str  # the class of transformers
    pre_norm: bool
    embedding_norm: bool
    position: str
    starts_source: bool = False  # a source begins with <s>

    @property
    def settings(self) -> SettingsTable:
        return SettingsTable(
            model_type=self.name,
            classes={SOURCE_TO_TARGET.head: self.made_by},
            shape=PLAIN_ATTENTION
            | {"norm": "layer", "norm_eps": 1e-5, "tied": True, "position": self.position}
            | {"pre_norm": self.pre_norm, "embedding_norm": self.embedding_norm},
            table={
                "d_model": SharedSetting("d_model"),
                "n_heads": SharedSetting("encoder_attention_heads"),
                "n_layers": SharedSetting("encoder_layers", Theirs.layers),
                "d_ff": SharedSetting("encoder_ffn_dim"),
                "max_length": SharedSetting(
                    "max_position_embeddings", Theirs.width if self.position == "learned" else Theirs.length, 1024
                ),
                "dropout": SharedSetting("dropout", Theirs.number, 0.1),
                "feed_forward": WordSetting("activation_function", ACTIVATIONS, "gelu"),
                "vocab_size": SharedSetting("vocab_size"),
                "scale_embedding": SharedSetting("scale_embedding", Theirs.flag, False),
            },
        )

    def read_config(self, theirs: Theirs) -> Imported:
        theirs.expect(tie_word_embeddings=True, share_encoder_decoder_embeddings=True)
        model = self.settings.read(theirs) | {"output_bias": True}
        theirs.expect(**{f"decoder_{size}": model[ours] for size, ours in SIZES.items()})
        task = {"target_start": theirs.token("decoder_start_token_id")}
        if self.starts_source:
            task["source_start"] = theirs.token("bos_token_id")
        return Imported(model, "translation", task)

    def write_config(self, recipe: Recipe) -> dict[str, object]:
        position = recipe.model.position if self.reorders(recipe) else self.position
        return self.settings.write(recipe, position=position) | {
            **{f"decoder_{size}": getattr(recipe.model, ours) for size, ours in SIZES.items()},
            "attention_dropout": 0.0,
            "tie_word_embeddings": True,
            "is_encoder_decoder": True,
            "forced_eos_token_id": None,
        }

    def reorders(self, recipe: Recipe) -> bool:
        """Ours may alternate sines and cosines where theirs have all sines first: then every channel of theirs is
        another one of ours, and so in all weights."""
        return self.position == "sinusoidal_halves" and recipe.model.position == "sinusoidal"

    def weights(self, recipe: Recipe) -> Iterator[Weight]:
        return map(sines_first, plain_weights(recipe)) if self.reorders(recipe) else plain_weights(recipe)

    def computed(self, recipe: Recipe, name: str) -> Tensor | None:
        """The table of places, where it is made of sines."""
        if self.position == "learned" or not re.fullmatch(r"(model\.)?(en|de)coder\.embed_positions\.weight", name):
            return None
        c = expect(recipe.model, TransformerConfig)
        places = POSITIONS[self.position](Space(c.d_model, c.n_heads, c.max_length))
        return places.embed(torch.zeros(c.max_length, c.d_model), torch.arange(c.max_length))

    def family(self) -> Family:
        return Family(
            read_config=self.read_config,
            write_config=self.write_config,
            weights=self.weights,
            architecture="transformer",
            prefix="model.",
            computed=self.computed,
            copies=tuple(
                (name, "model.shared.weight")
                for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
            ),
        )


def plain_weights(recipe: Recipe) -> Iterator[Weight]:
    c = expect(recipe.model, TransformerConfig)
    yield Weight("model.shared.weight", ("embedding.weight",))
    bias = (1, c.vocab_size)
    if c.output_bias:
        yield Weight("final_logits_bias", ("output_bias",), shaped(bias, bias[1:]))
    else:
        yield Weight("final_logits_bias", (), zeros(bias))
    for side, name in (("encoder", "source"), ("decoder", "target")):
        if c.position == "learned":
            yield Weight(f"model.{side}.embed_positions.weight", (f"{name}_position.table",), after_rows(2))
        if c.embedding_norm:
            yield from product(f"model.{side}.layernorm_embedding", f"{name}_norm")
        for i in range(c.n_layers):
            yield from block(f"model.{side}.layers.{i}", f"{side}.{i}", side == "decoder")
        if c.pre_norm:
            yield from product(f"model.{side}.layer_norm", f"{side}_norm")


def block(theirs: str, ours: str, is_decoder: bool) -> Iterator[Weight]:
    attentions = {"self_attn": "attention"} | ({"encoder_attn": "cross_attention"} if is_decoder else {})
    for attention, own_attention in attentions.items():
        for name, own in ATTENTION.items():
            yield from product(f"{theirs}.{attention}.{name}", f"{ours}.{own_attention}.{own}")
        yield from product(f"{theirs}.{attention}_layer_norm", f"{ours}.{own_attention}_residual.norm")
    yield from product(f"{theirs}.fc1", f"{ours}.feed_forward.expand")
    yield from product(f"{theirs}.fc2", f"{ours}.feed_forward.contract")
    yield from product(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_residual.norm")


def sines_first(weight: Weight) -> Weight:
    """The same in the order of their channels: the columns of what reads them, the rows of what writes them."""
    if weight.form is not AS_IS:  # has no channels
        return weight
    part, kind = weight.ours[0].split(".")[-2:]
    if part in READS:
        return weight._replace(form=even_then_odd(1)) if kind == "weight" else weight
    return weight._replace(form=even_then_odd(0))


BART = BartVariant("bart", "BartForConditionalGeneration", False, True, "learned", starts_source=True).family()
MARIAN = BartVariant("marian", "MarianMTModel", False, False, "sinusoidal_halves").family()
PEGASUS = BartVariant("pegasus", "PegasusForConditionalGeneration", True, False, "sinusoidal_halves").family()
