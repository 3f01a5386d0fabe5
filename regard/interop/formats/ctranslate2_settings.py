"""What a model of CTranslate2 is: the single numbers in its file, the shapes, and the config.json beside it.  A setting
that regard's models do not have is refused by its name."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from regard.config import Settings
from regard.errors import RunError

IGNORED = ("alignment_heads", "alignment_layer")  # for its own word alignments
# Settings that may be present with the value 0: regard has nothing else.
UNKNOWN = ("multi_query_attention", "alibi", "alibi_use_positive_positions", "scale_alibi", "embeddings_merge")
SIDES = ("encoder", "decoder")
ATTENTION = re.compile(r"(?:en|de)coder/layer_\d+/(?:self_)?attention/(\w+)")
# Settings of an attention, and how many a layer of both sides has: some are those of self-attention alone.
OF_ATTENTION = {"queries_scale": 3, "head_dim": 3, "num_heads_kv": 3, "relative_attention_max_distance": 2}
T5_LENGTH = 512  # tokens that T5 reads; it has no table of places that would say
EMBEDDINGS, PROJECTION = "decoder/embeddings/weight", "decoder/projection/weight"


class ModelFile(Protocol):
    """A model.bin: its single numbers, the shapes of its tensors, and these."""

    @property
    def path(self) -> Path: ...

    @property
    def settings(self) -> Mapping[str, int | float]: ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...

    def read(self, name: str) -> Tensor: ...


def settings_of(file: ModelFile) -> Settings:
    """Both sides and all layers must agree; the shapes say the rest."""
    sides = [side_settings(file, side) for side in SIDES]
    starts_empty = bool(sides[1].pop("start_from_zero_embedding", 0))
    scale_outputs = float(sides[1].pop("scale_outputs", 1.0))
    if sides[0] != sides[1]:
        raise RunError(f"{file.path} has other settings in its encoder than in its decoder: {sides[0]}, {sides[1]}")
    known = {"activation", "num_heads", "pre_norm", "scale_embedding", "n_layers"}
    if unknown := sorted(sides[0].keys() - known):
        raise RunError(f"{file.path} has the setting {unknown[0]}, which regard's models do not have")
    if scale_outputs != 1.0 and "decoder/layer_norm/gamma" not in file.shapes:
        raise RunError(f"{file.path} has decoder/scale_outputs and no norm that it could scale")
    n_words, d_model = matrix(file, EMBEDDINGS)
    return {
        **sides[0],
        **heads_of(file, sides[0]),
        **positions_of(file, sides[0]["n_layers"]),
        "model_type": "ctranslate2",
        "vocab_size": n_words + starts_empty,  # one more, of zeros, for the start
        "start_from_zero_embedding": starts_empty,
        "scale_outputs": scale_outputs,
        "d_model": d_model,
        "d_ff": matrix(file, "decoder/layer_0/ffn/linear_0/weight")[0],
        "gates": "decoder/layer_0/ffn/linear_0_noact/weight" in file.shapes,
        "norm": "layer" if "decoder/layer_0/ffn/layer_norm/beta" in file.shapes else "rms",
        "bias": bias_of(file),
        "tied": is_tied(file),
        "has_output_bias": "decoder/projection/bias" in file.shapes or starts_empty,
        "layernorm_embedding": "decoder/layernorm_embedding/gamma" in file.shapes,
    }


def side_settings(file: ModelFile, side: str) -> Settings:
    """Of the encoder or the decoder, without those of its attentions."""
    start = f"{side}/"
    settings = {
        name.removeprefix(start): number
        for name, number in file.settings.items()
        if name.startswith(start) and not ATTENTION.fullmatch(name)
    }
    for name in IGNORED:
        settings.pop(name, None)
    for name in UNKNOWN:
        if settings.pop(name, 0):
            raise RunError(f"{file.path} has {side}/{name}, which regard's models do not have; nothing was imported")
    settings["scale_embedding"] = scales(settings.pop("scale_embeddings", 1), file)
    layers = {match[1] for name in file.shapes if (match := re.match(rf"{side}/layer_(\d+)/", name))}
    return {**settings, "n_layers": len(layers)}


def heads_of(file: ModelFile, side: Settings) -> dict[str, object]:
    n_heads, n_layers = side.get("num_heads"), side["n_layers"]
    if type(n_heads) is not int or n_heads < 1:
        raise RunError(f"{file.path}: num_heads must be a whole number from 1 on, got {n_heads!r}")
    numbers = attention_settings(file, n_layers)
    d_head = matrix(file, "decoder/layer_0/self_attention/linear_1/weight")[1] // n_heads
    n_rows = matrix(file, "decoder/layer_0/self_attention/linear_0/weight")[0]
    n_key_heads = (n_rows // max(1, d_head) - n_heads) // 2
    scale = numbers.get("queries_scale", d_head**-0.5)
    if scale != 1.0 and not math.isclose(scale, d_head**-0.5, rel_tol=1e-6):
        raise RunError(f"{file.path} has queries_scale = {scale}; regard scales by {d_head**-0.5:.6g} or not at all")
    return {
        "d_head": d_head,
        "n_key_heads": n_key_heads,
        "score": "dot" if scale == 1.0 else "scaled_dot",
        "furthest": numbers.get("relative_attention_max_distance", 128),
    }


def attention_settings(file: ModelFile, n_layers: int) -> dict[str, float]:
    """Those that all attentions have alike."""
    numbers: dict[str, list[float]] = {}
    for name, number in file.settings.items():
        if match := ATTENTION.fullmatch(name):
            numbers.setdefault(match[1], []).append(number)
    for name, values in numbers.items():
        if name not in OF_ATTENTION:
            raise RunError(f"{file.path} has the setting {name} of attention, which regard's models do not have")
        if len(set(values)) > 1 or len(values) != OF_ATTENTION[name] * n_layers:
            raise RunError(
                f"{file.path} has {name} in some attentions and not in others; regard has it in all or in none"
            )
    return {name: values[0] for name, values in numbers.items()}


def positions_of(file: ModelFile, n_layers: int) -> dict[str, object]:
    """A table of places, whatever it was made by; or T5's table of distances, which all layers of a side share."""
    if "decoder/position_encodings/encodings" in file.shapes:
        length = matrix(file, "decoder/position_encodings/encodings")[0]
        return {"position": "learned", "max_length": length, "n_buckets": 32}
    for side in SIDES:
        tables = [f"{side}/layer_{i}/self_attention/relative_attention_bias" for i in range(n_layers)]
        if any(matrix(file, table) != matrix(file, tables[0]) for table in tables):
            raise RunError(f"{file.path}: {tables[0]} has other shapes in other layers")
        if any(not torch.equal(file.read(table), file.read(tables[0])) for table in tables[1:]):
            raise RunError(f"{file.path} has a relative_attention_bias of its own in every layer; regard's share one")
    n_buckets = matrix(file, "decoder/layer_0/self_attention/relative_attention_bias")[0]
    return {"position": "buckets", "max_length": T5_LENGTH, "n_buckets": n_buckets}


def bias_of(file: ModelFile) -> str:
    if "decoder/layer_0/ffn/linear_0/bias" in file.shapes:
        return "all"
    return "inputs" if "decoder/layer_0/self_attention/linear_0/bias" in file.shapes else "none"


def is_tied(file: ModelFile) -> bool:
    """Whether the output is read off the embeddings."""
    if file.shapes.get(PROJECTION, ()) != file.shapes[EMBEDDINGS]:
        return PROJECTION not in file.shapes
    return torch.equal(file.read(PROJECTION), file.read(EMBEDDINGS))


def frame_of(settings: Settings, model: Settings, words: Sequence[str]) -> dict[str, int]:
    """The tokens around a source, and the first of a target, by their ids: what config.json says of them.

    Where CTranslate2 does not add the end to a source, either the tokenizer does, as those of transformers do, or
    nobody.  No file says which; Marian (it starts from zeros) and T5 (it has buckets) are known to need it.
    """
    for name in ("add_source_bos", "add_source_eos"):
        if type(settings.get(name, False)) is not bool:
            raise RunError(f"config.json: {name} must be true or false, got {settings[name]!r}")
    needs_end = model["start_from_zero_embedding"] or model["position"] == "buckets"
    if settings.get("add_source_eos") is False and not needs_end:
        raise RunError(
            "config.json has add_source_eos = false: whether a source of this model ends with its end token cannot be "
            "told. If it does, set it to true; if not, regard has no such model"
        )
    frame: dict[str, int] = {}
    if settings.get("add_source_bos"):
        frame["source_start"] = place(settings, "bos_token", "<s>", words)
    if not model["start_from_zero_embedding"]:
        frame["decoder_start_id"] = place(settings, "decoder_start_token", "<s>", words)
    return frame


def place(settings: Settings, name: str, default: str, words: Sequence[str]) -> int:
    token = settings.get(name) or default
    if token not in words:
        raise RunError(f"config.json: {name} = {token!r} is not in the vocabulary")
    return words.index(token)


def matrix(file: ModelFile, name: str) -> tuple[int, ...]:
    """Its shape."""
    shape = file.shapes.get(name, ())
    if len(shape) != 2:
        raise RunError(f"{file.path} has no {name} with 2 dimensions; regard has no such model")
    return shape


def scales(factor: float, file: ModelFile) -> bool:
    """A whole number says whether, another by how much."""
    if isinstance(factor, int):
        return bool(factor)
    root = math.sqrt(matrix(file, EMBEDDINGS)[1])
    if factor != 1.0 and not math.isclose(factor, root, rel_tol=1e-6):
        raise RunError(f"{file.path} scales its embeddings by {factor}; regard scales by {root} or not at all")
    return factor != 1.0
