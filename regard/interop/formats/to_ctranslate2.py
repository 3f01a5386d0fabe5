"""A run as a CTranslate2 folder: the same weights under CTranslate2's names, written through its own specifications."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch

from regard.checks import expect
from regard.errors import RegardError, need
from regard.interop.families.ctranslate2 import ACTIVATIONS, ADDED, COPIES, DECODER, ENCODER, STACK, weights
from regard.interop.families.family import as_theirs
from regard.interop.families.settings import exchange_of
from regard.interop.formats.tokenizer_files import write_framed
from regard.models.stack import Stack
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.positions import Position
from regard.runs.run import Run
from regard.runs.weights import weights_of

SCORES = ("dot", "scaled_dot")
POSITIONS = {"translator": (*ADDED, "buckets"), "writer": (*ADDED, "rotary")}


def write_folder(run: Run, folder: Path) -> list[str]:
    """model.bin, config.json, the vocabulary and our tokenizer.json.  Returns the tokens' names, by their ids."""
    need("ctranslate2")
    recipe, exchange = run.recipe, exchange_of(run.recipe)
    if not (recipe.model_class.is_exportable and (exchange.translates or exchange.writes)):
        raise RegardError(
            f"{run.folder} is a {recipe.architecture} that {run.task.purpose}; CTranslate2 runs a transformer that "
            "translates or a stack that writes"
        )
    names = token_names(run)
    spec = translator(run, names) if exchange.translates else writer(run, names)
    spec.validate()
    spec.optimize(quantization="float32")  # smaller types are made of it when it is loaded (compute_type="int8")
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    write_framed(run, folder, is_framed=not exchange.translates)  # a source is framed by what its config.json says
    return names


def translator(run: Run, names: list[str]) -> Any:
    """The specification of an encoder-decoder, with its weights."""
    specs = need("ctranslate2.specs.transformer_spec")
    model, frame = expect(run.model, Transformer), run.task.frame
    config = model.config
    check(config, "translator")
    if len(frame.before) > 1:
        raise RegardError(f"CTranslate2 begins a source with one token, and this run with {len(frame.before)}")
    shape = common_shape(config) | {"relative_attention_bias": config.position == "buckets"}
    encoder = specs.TransformerEncoderSpec(config.n_layers, config.n_heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.n_layers, config.n_heads, **shape)
    spec = specs.TransformerSpec(encoder, decoder)
    set_weights(spec, run, {ENCODER.position: model.source_position, DECODER.position: model.target_position})
    set_numbers(encoder, config)
    set_numbers(decoder, config, crosses=True)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    set_words(spec.config, run, names, frame.start, frame.end)
    spec.config.decoder_start_token = names[frame.start]
    spec.config.add_source_eos = True
    if frame.before:
        spec.config.add_source_bos, spec.config.bos_token = True, names[frame.before[0]]
    return spec


def writer(run: Run, names: list[str]) -> Any:
    """The specification of a language model."""
    specs, reader = need("ctranslate2.specs.transformer_spec"), expect(run.model.get_submodule("reader"), Stack)
    config = reader.config
    check(config, "writer")
    if config.n_segments or config.d_embedding or not config.causal:
        raise RegardError("CTranslate2 writes with causal stacks that have no segments and no narrower embeddings")
    shape = common_shape(config)
    if config.position == "rotary":
        shape |= {"rotary_dim": 0, "rotary_interleave": True, "rotary_base": config.rotary_base}  # 0: all channels
    decoder = specs.TransformerDecoderSpec(config.n_layers, config.n_heads, with_encoder_attention=False, **shape)
    spec = specs.TransformerDecoderModelSpec(decoder)
    set_weights(spec, run, {STACK.position: reader.position})
    set_numbers(decoder, config)
    spec.register_vocabulary(names)
    set_words(spec.config, run, names, run.tokenizer.start_id, run.tokenizer.end_id)
    return spec


def token_names(run: Run) -> list[str]:
    """As tokenizer.json has them; a row of the table without a token gets a name that no text makes."""
    inner = tokenizers.Tokenizer.from_str(run.tokenizer.to_json())
    return [inner.id_to_token(n) or f"<unused {n}>" for n in range(run.recipe.model.vocab_size)]


def check(config: TransformerConfig, role: str) -> None:
    if config.score not in SCORES:
        raise RegardError(f"CTranslate2 has the scores {', '.join(SCORES)}; this model has {config.score!r}")
    if config.position not in POSITIONS[role]:
        raise RegardError(
            f"CTranslate2 has the positions {', '.join(POSITIONS[role])} in such models; this one has "
            f"{config.position!r}"
        )
    if config.rotary_scaling != "none":
        raise RegardError(
            f"for CTranslate2 angles are not scaled; this run has rotary_scaling {config.rotary_scaling!r}"
        )
    if config.norm_heads and role == "translator":
        raise RegardError("CTranslate2 norms the heads of queries and keys in decoders alone; this run has norm_heads")


def common_shape(config: TransformerConfig) -> dict[str, object]:
    """What encoders and decoders say alike."""
    activation, gates = ACTIVATIONS[config.feed_forward]
    return {
        "pre_norm": config.pre_norm,
        "activation": need("ctranslate2.specs.common_spec").Activation[activation],
        "ffn_glu": gates,
        "rms_norm": config.norm == "rms",
        "layernorm_embedding": config.embedding_norm,
        "num_heads_kv": config.heads.shared if config.heads.shared != config.n_heads else None,
        "head_dim": config.d_head or None,
        "qk_norm": config.norm_heads,
    }


def set_weights(spec: Any, run: Run, positions: dict[str, Position]) -> None:
    """By the table of weights; `positions` are those whose table may have to be computed."""
    config, tensors = expect(run.recipe.model, TransformerConfig), weights_of(run.model)
    if config.position in ADDED:
        places = torch.arange(config.max_length)
        for name, position in positions.items():
            tensors[f"{name}.table"] = position.embed(torch.zeros(len(places), config.d_model), places)
    variables = as_theirs(tensors, weights(run.recipe))
    for copy, original in COPIES:
        variables.setdefault(copy, variables[original])

    def set_variable(layer: object, name: str, _: object) -> None:
        if name in variables:
            setattr(layer, name.rpartition("/")[2], variables[name].detach().float().cpu().numpy())

    need("ctranslate2.specs.model_spec").visit_spec(spec, set_variable)


def set_numbers(spec: Any, config: TransformerConfig, crosses: bool = False) -> None:
    """What embeddings and scores are scaled by, and how far the buckets of distances reach."""
    spec.scale_embeddings = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    for layer in spec.layer:
        if config.score == "dot":
            for attention in (layer.self_attention, layer.attention) if crosses else (layer.self_attention,):
                attention.queries_scale = 1.0
        if config.position == "buckets":
            layer.self_attention.relative_attention_max_distance = np.int32(config.furthest)


def set_words(config: Any, run: Run, names: list[str], start: int, end: int) -> None:
    """The names of special tokens.  CTranslate2 wants one for what is unknown, also where nothing is."""
    unknown = run.tokenizer.unknown_id if run.tokenizer.unknown_id >= 0 else end
    config.bos_token, config.eos_token, config.unk_token = names[start], names[end], names[unknown]
    config.layer_norm_epsilon = expect(run.recipe.model, TransformerConfig).norm_eps
