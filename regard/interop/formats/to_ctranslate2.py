"""A run as a CTranslate2 folder: the same weights under CTranslate2's names, written through its own specifications."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.interop.families.family import TRANSLATORS, WRITERS
from regard.interop.needs import need
from regard.models.stack import Stack
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.attention import MultiHeadAttention
from regard.nn.blocks import DecoderBlock, EncoderBlock
from regard.runs.run import Run

# Which of our parts CTranslate2 has, and what it calls them.
ACTIVATIONS = {  # of a feed-forward net: the function, and whether it gates
    "relu": ("RELU", False),
    "gelu": ("GELU", False),
    "gelu_tanh": ("GELUTanh", False),
    "swish": ("SWISH", False),
    "swiglu": ("SWISH", True),
    "geglu": ("GELUTanh", True),
}
SCORES = ("dot", "scaled_dot")
ADDED = ("none", "sinusoidal", "sinusoidal_halves", "learned")  # positions that are a table
POSITIONS = {"translator": (*ADDED, "buckets"), "writer": (*ADDED, "rotary")}


@dataclass(frozen=True)
class Words:
    """The vocabulary in CTranslate2's terms: every token's own spelling, and the names of the special ones."""

    tokens: list[str]
    start: str  # of a target, or of a text
    end: str
    unknown: str
    before: str | None = None  # a source


def write_folder(run: Run, folder: Path) -> list[str]:
    """model.bin, config.json, the vocabulary and our tokenizer.json.  Returns the tokens' names, by their ids."""
    need("ctranslate2")
    if (run.recipe.kind, run.recipe.architecture) not in MADE_OF:
        raise RegardError(
            f"{run.folder} is a {run.recipe.architecture} for {run.recipe.kind}; CTranslate2 runs "
            + " or ".join(f"a {architecture} for {kind}" for kind, architecture in MADE_OF)
        )
    names = token_names(run)
    spec = MADE_OF[run.recipe.kind, run.recipe.architecture](run, names)
    folder.mkdir(parents=True, exist_ok=True)
    save(spec, folder)
    run.tokenizer.save(folder / "tokenizer.json")
    return names


def translator(run: Run, names: list[str]) -> Any:
    frame = run.frame
    if len(frame.before) > 1:
        raise RegardError(f"CTranslate2 begins a source with one token, and this run with {len(frame.before)}")
    before = names[frame.before[0]] if frame.before else None
    words = Words(names, names[frame.start], names[frame.end], unknown_name(run, names), before)
    return translator_spec(run.model, words)


def writer(run: Run, names: list[str]) -> Any:
    tokenizer = run.tokenizer
    words = Words(names, names[tokenizer.start_id], names[tokenizer.end_id], unknown_name(run, names))
    return writer_spec(run.model.reader, run.model.output_table, words)


def token_names(run: Run) -> list[str]:
    """As tokenizer.json has them; a row of the table without a token gets a name that no text makes."""
    inner = tokenizers.Tokenizer.from_str(run.tokenizer.to_json())
    return [inner.id_to_token(n) or f"<unused {n}>" for n in range(run.recipe.model.vocab_size)]


def unknown_name(run: Run, names: list[str]) -> str:
    """CTranslate2 wants one, also where nothing is unknown."""
    return names[run.tokenizer.unknown_id if run.tokenizer.unknown_id >= 0 else run.tokenizer.end_id]


def translator_spec(model: Transformer, words: Words) -> Any:
    """The specification of an encoder-decoder, with its weights."""
    from ctranslate2.specs import transformer_spec as specs

    config = model.config
    check(config, "translator")
    shape = common_shape(config) | {"relative_attention_bias": config.position == "buckets"}
    encoder = specs.TransformerEncoderSpec(config.n_layers, config.n_heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.n_layers, config.n_heads, **shape)
    spec = specs.TransformerSpec(encoder, decoder)
    set_stack(encoder, model.encoder, model.source_position, config)
    set_stack(decoder, model.decoder, model.target_position, config)
    encoder.embeddings[0].weight = weights(model.embedding.weight)
    for side, norm, embedding_norm in (
        (encoder, model.encoder_norm, model.source_norm),
        (decoder, model.decoder_norm, model.target_norm),
    ):
        set_end_norms(side, norm, embedding_norm, config)
    set_outputs(decoder, model.embedding.weight, model.output_table, model.output_bias)
    spec.register_source_vocabulary(words.tokens)
    spec.register_target_vocabulary(words.tokens)
    set_words(spec.config, words, config.norm_eps)
    spec.config.decoder_start_token = words.start
    spec.config.add_source_eos = True
    if words.before is not None:
        spec.config.add_source_bos, spec.config.bos_token = True, words.before
    return spec


def writer_spec(reader: Stack, table: Tensor, words: Words) -> Any:
    """The specification of a language model; `table` is its output table."""
    from ctranslate2.specs import transformer_spec as specs

    config = reader.config
    check(config, "writer")
    if config.n_segments or config.d_embedding or not config.causal:
        raise RegardError("CTranslate2 writes with causal stacks that have no segments and no narrower embeddings")
    shape = common_shape(config)
    if config.position == "rotary":
        shape |= {"rotary_dim": 0, "rotary_interleave": True, "rotary_base": config.rotary_base}  # 0: all channels
    decoder = specs.TransformerDecoderSpec(config.n_layers, config.n_heads, with_encoder_attention=False, **shape)
    spec = specs.TransformerDecoderModelSpec(decoder)
    set_stack(decoder, reader.blocks, reader.position, config)
    set_end_norms(decoder, reader.norm, reader.embedding_norm, config)
    set_outputs(decoder, reader.embedding.weight, table, None)
    spec.register_vocabulary(words.tokens)
    set_words(spec.config, words, config.norm_eps)
    return spec


def save(spec: Any, folder: Path) -> None:
    """In float32: CTranslate2 makes smaller types of it when it loads the folder (compute_type="int8")."""
    spec.validate()
    spec.optimize(quantization="float32")
    spec.save(str(folder))


def check(config: TransformerConfig, role: str) -> None:
    if config.score not in SCORES:
        raise RegardError(f"CTranslate2 has the scores {', '.join(SCORES)}; this model has {config.score!r}")
    if config.position not in POSITIONS[role]:
        raise RegardError(
            f"CTranslate2 has the positions {', '.join(POSITIONS[role])} in such models; this one has "
            f"{config.position!r}"
        )
    if config.norm_heads and role == "translator":
        raise RegardError("CTranslate2 norms the heads of queries and keys in decoders alone; this run has norm_heads")


def common_shape(config: TransformerConfig) -> dict[str, Any]:
    """What encoders and decoders say alike."""
    from ctranslate2.specs import common_spec

    activation, gates = ACTIVATIONS[config.feed_forward]
    is_grouped = config.heads.shared != config.n_heads
    return {
        "pre_norm": config.pre_norm,
        "activation": common_spec.Activation[activation],
        "ffn_glu": gates,
        "rms_norm": config.norm == "rms",
        "layernorm_embedding": config.embedding_norm,
        "num_heads_kv": config.heads.shared if is_grouped else None,
        "head_dim": config.d_head or None,
        "qk_norm": config.norm_heads,
    }


def set_stack(
    spec: Any, blocks: Iterable[EncoderBlock | DecoderBlock], position: Any, config: TransformerConfig
) -> None:
    """The blocks, and what every place adds to the embeddings or, by its distance, to the scores."""
    spec.scale_embeddings = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    if config.position in ADDED:
        places = torch.arange(config.max_length)
        spec.position_encodings.encodings = weights(position.embed(torch.zeros(len(places), config.d_model), places))
    scale = 1.0 if config.score == "dot" else None
    for layer, block in zip(spec.layer, blocks, strict=True):
        set_attention(layer.self_attention, block.attention, scale)
        set_norm(layer.self_attention.layer_norm, block.attention_residual.norm)
        if config.position == "buckets":
            layer.self_attention.relative_attention_bias = weights(position.table)
            layer.self_attention.relative_attention_max_distance = whole(config.furthest)
        if isinstance(block, DecoderBlock):
            set_attention(layer.attention, block.cross_attention, scale)
            set_norm(layer.attention.layer_norm, block.cross_attention_residual.norm)
        set_feed_forward(layer.ffn, block.feed_forward)
        set_norm(layer.ffn.layer_norm, block.feed_forward_residual.norm)


def set_attention(spec: Any, attention: MultiHeadAttention, scale: float | None) -> None:
    """CTranslate2 keeps the products of one input in one matrix."""
    inputs = [attention.to_queries, attention.to_keys, attention.to_values]
    groups: list[list[Any]] = [inputs] if len(spec.linear) == 2 else [inputs[:1], inputs[1:]]
    groups.append([attention.to_output])
    for linear, group in zip(spec.linear, groups, strict=True):
        set_linear(linear, group)
    if scale is not None:
        spec.queries_scale = scale
    if not isinstance(attention.norm_queries, nn.Identity):
        set_norm(spec.q_norm, attention.norm_queries)
        set_norm(spec.k_norm, attention.norm_keys)


def set_feed_forward(spec: Any, net: Any) -> None:
    gate = getattr(net, "gate", None)  # the side that the function is applied to
    set_linear(spec.linear_0, [net.expand if gate is None else gate])
    if gate is not None:
        set_linear(spec.linear_0_noact, [net.expand])
    set_linear(spec.linear_1, [net.contract])


def set_linear(spec: Any, layers: Iterable[Any]) -> None:
    layers = list(layers)
    spec.weight = weights(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = weights(torch.cat([layer.bias for layer in layers]))


def set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = weights(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = weights(norm.bias)


def set_end_norms(spec: Any, norm: nn.Module, embedding_norm: nn.Module, config: TransformerConfig) -> None:
    if config.pre_norm:
        set_norm(spec.layer_norm, norm)
    if config.embedding_norm:
        set_norm(spec.layernorm_embedding, embedding_norm)


def set_outputs(spec: Any, embedding: Tensor, table: Tensor, bias: Tensor | None) -> None:
    spec.embeddings.weight = weights(embedding)
    spec.projection.weight = weights(table)
    if bias is not None:
        spec.projection.bias = weights(bias)


def set_words(config: Any, words: Words, norm_eps: float) -> None:
    config.bos_token, config.eos_token, config.unk_token = words.start, words.end, words.unknown
    config.layer_norm_epsilon = norm_eps


def weights(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()


def whole(number: int) -> Any:
    import numpy as np

    return np.int32(number)


MADE_OF: dict[tuple[str, str], Callable[[Run, list[str]], Any]] = {
    **{(kind, "transformer"): translator for kind in TRANSLATORS},
    **{(kind, "stack"): writer for kind in WRITERS},
}
