"""BART (Lewis et al. 2020), Marian (Junczys-Dowmunt et al. 2018) and Pegasus (Zhang et al. 2020): one layout of names.

Marian is the Transformer of the paper, Pegasus the same with its norms before the sublayers: what regard trains goes
out as one of the two.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.interop.families.family import Family, Imported, Weight
from regard.interop.families.forms import AS_IS, Form, after_rows, even_then_odd, shaped, zeros
from regard.interop.families.settings import PLAIN_ATTENTION, Setting, Settings, Theirs, Word
from regard.nn.positions import POSITIONS, Space
from regard.runs.recipe import Recipe
from regard.tasks.exchange import SOURCE_TO_TARGET

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "swish": "swish", "silu": "swish"}
SIZES = {"layers": "n_layers", "attention_heads": "n_heads", "ffn_dim": "d_ff"}  # of the encoder, and of the decoder
INPUTS = {"q_proj": "to_queries", "k_proj": "to_keys", "v_proj": "to_values"}


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
    def settings(self) -> Settings:
        return Settings(
            model_type=self.name,
            classes={SOURCE_TO_TARGET.head: self.made_by},
            shape=PLAIN_ATTENTION
            | {"norm": "layer", "norm_eps": 1e-5, "tied": True, "position": self.position}
            | {"pre_norm": self.pre_norm, "embedding_norm": self.embedding_norm},
            table={
                "d_model": Setting("d_model"),
                "n_heads": Setting("encoder_attention_heads"),
                "n_layers": Setting("encoder_layers", Theirs.layers),
                "d_ff": Setting("encoder_ffn_dim"),
                "max_length": Setting(
                    "max_position_embeddings", Theirs.width if self.position == "learned" else Theirs.length, 1024
                ),
                "dropout": Setting("dropout", Theirs.number, 0.1),
                "feed_forward": Word("activation_function", ACTIVATIONS, "gelu"),
                "vocab_size": Setting("vocab_size"),
                "scale_embedding": Setting("scale_embedding", Theirs.flag, False),
            },
        )

    def read_config(self, theirs: Theirs) -> Imported:
        theirs.expect(tie_word_embeddings=True, share_encoder_decoder_embeddings=True)
        model = self.settings.read(theirs) | {"output_bias": True}
        theirs.expect(**{f"decoder_{size}": model[ours] for size, ours in SIZES.items()})
        task = {"target_start": theirs.token("decoder_start_token_id")}
        if self.starts_source:
            task["source_start"] = theirs.token("bos_token_id")
        return Imported("transformer", model, "translation", task)

    def write_config(self, recipe: Recipe) -> dict[str, Any]:
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
        c = recipe.model
        reads: Form = even_then_odd(1) if self.reorders(recipe) else AS_IS  # of channels
        writes: Form = even_then_odd(0) if self.reorders(recipe) else AS_IS
        yield Weight("model.shared.weight", ("embedding.weight",), reads)
        bias = (1, c.vocab_size)
        if c.output_bias:
            yield Weight("final_logits_bias", ("output_bias",), shaped(bias, bias[1:]))
        else:
            yield Weight("final_logits_bias", (), zeros(bias))
        for side, name in (("encoder", "source"), ("decoder", "target")):
            if c.position == "learned":
                yield Weight(f"model.{side}.embed_positions.weight", (f"{name}_position.table",), after_rows(2))
            if c.embedding_norm:
                yield from both(f"model.{side}.layernorm_embedding", f"{name}_norm", writes, writes)
            for i in range(c.n_layers):
                yield from block(f"model.{side}.layers.{i}", f"{side}.{i}", side == "decoder", reads, writes)
            if c.pre_norm:
                yield from both(f"model.{side}.layer_norm", f"{side}_norm", writes, writes)

    def computed(self, recipe: Recipe, name: str) -> Tensor | None:
        """The table of places, where it is made of sines."""
        if self.position == "learned" or not re.fullmatch(r"(model\.)?(en|de)coder\.embed_positions\.weight", name):
            return None
        c = recipe.model
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


def block(theirs: str, ours: str, is_decoder: bool, reads: Form, writes: Form) -> Iterator[Weight]:
    yield from attention(f"{theirs}.self_attn", f"{ours}.attention", reads, writes)
    yield from both(f"{theirs}.self_attn_layer_norm", f"{ours}.attention_residual.norm", writes, writes)
    if is_decoder:
        yield from attention(f"{theirs}.encoder_attn", f"{ours}.cross_attention", reads, writes)
        yield from both(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_attention_residual.norm", writes, writes)
    yield from both(f"{theirs}.fc1", f"{ours}.feed_forward.expand", reads, AS_IS)
    yield from both(f"{theirs}.fc2", f"{ours}.feed_forward.contract", writes, writes)
    yield from both(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_residual.norm", writes, writes)


def attention(theirs: str, ours: str, reads: Form, writes: Form) -> Iterator[Weight]:
    for name, own in INPUTS.items():
        yield from both(f"{theirs}.{name}", f"{ours}.{own}", reads, AS_IS)
    yield from both(f"{theirs}.out_proj", f"{ours}.to_output", writes, writes)


def both(theirs: str, ours: str, weight: Form, bias: Form) -> Iterator[Weight]:
    yield Weight(f"{theirs}.weight", (f"{ours}.weight",), weight)
    yield Weight(f"{theirs}.bias", (f"{ours}.bias",), bias)


BART = BartVariant("bart", "BartForConditionalGeneration", False, True, "learned", starts_source=True).family()
MARIAN = BartVariant("marian", "MarianMTModel", False, False, "sinusoidal_halves").family()
PEGASUS = BartVariant("pegasus", "PegasusForConditionalGeneration", True, False, "sinusoidal_halves").family()
