"""A GGUF file (llama.cpp), read as if it were a folder of transformers: its settings and its tensors by their names.

Tensors are often stored with few bits a number; here each becomes float32 again when it is read."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.config import Settings
from regard.errors import ConfigError, RunError, need
from regard.interop.families.tensor_forms import rotary_pairs
from regard.memory import check_memory

SETTINGS = {  # transformers' name → theirs, after the name of the architecture
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
SCALINGS = {  # their name → transformers'
    "original_context_length": "original_max_position_embeddings",
    "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow",
}
USUAL = {"attn_factor": 1.0, "yarn_attn_factor": 1.0, "yarn_ext_factor": 1.0}  # what changes nothing
TABLES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
PAIRED = ("llama",)  # architectures whose queries and keys have rotary channels in pairs there, as here
TURNED = ("attn_q", "attn_k")


class GgufFile:
    """`config` and `shapes` are what config.json and the headers of a folder would say."""

    def __init__(self, path: Path):
        self.path, self.library = path, need("gguf")
        try:
            reader = self.library.GGUFReader(path)
            self.fields = {name: field.contents() for name, field in reader.fields.items()}
            self.tensors = {their_name(tensor.name): tensor for tensor in reader.tensors}
            self.shapes = {name: tuple(int(n) for n in tensor.shape[::-1]) for name, tensor in self.tensors.items()}
        except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:  # of a corrupted file
            raise RunError(f"{path} is not a usable GGUF file: {error}") from None
        check_memory(4 * sum(map(math.prod, self.shapes.values())), f"{path} in float32", "use a larger machine")
        self.others: dict[str, str] = {}  # all tensors hold floating-point numbers
        self.config = settings_of(self.fields, self.shapes)

    def read(self, name: str) -> Tensor:
        stored = self.tensors[name]
        try:
            numbers = self.library.quants.dequantize(stored.data, stored.tensor_type)
        except (ValueError, NotImplementedError, KeyError) as error:  # of the library, for quantizations it cannot undo
            raise RunError(f"{self.path}: {stored.name} cannot be read: {error}") from None
        tensor = torch.from_numpy(np.array(numbers, np.float32))
        if tuple(tensor.shape) != self.shapes[name] or not torch.isfinite(tensor).all():
            raise RunError(f"{self.path}: {stored.name} does not hold finite numbers of its shape")
        part = stored.name.rpartition(".")[0].rpartition(".")[2]
        if self.config["model_type"] in PAIRED and part in TURNED:
            return rotary_pairs(self.d_head).theirs([tensor])
        return tensor

    @property
    def d_head(self) -> int:
        settings = self.config
        n_heads = settings["num_attention_heads"]
        d_head = settings.get("head_dim") or settings["hidden_size"] // n_heads
        if type(d_head) is not int or d_head < 2 or d_head % 2:
            raise ConfigError(f"{self.path}: a head must have an even number of channels, got {d_head!r}")
        return d_head


def their_name(name: str) -> str:
    """As transformers calls it; an unknown name stays, and is refused later."""
    whole, _, end = name.rpartition(".")
    if whole in TABLES:
        return f"{TABLES[whole]}.{end}"
    parts = whole.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in BLOCK:
        return f"model.layers.{parts[1]}.{BLOCK[parts[2]]}.{end}"
    return name


def settings_of(fields: Settings, shapes: Mapping[str, tuple[int, ...]]) -> Settings:
    kind = fields.get("general.architecture")
    if not isinstance(kind, str):
        raise RunError("a GGUF file names its general.architecture, and this one does not")
    table = shapes.get("model.embed_tokens.weight", (0,))
    settings = {ours: fields[f"{kind}.{name}"] for ours, name in SETTINGS.items() if f"{kind}.{name}" in fields}
    check_turned(fields.get(f"{kind}.rope.dimension_count"), settings)
    return settings | {
        "model_type": kind,
        "vocab_size": table[0],
        "rope_parameters": angles_of({name.removeprefix(f"{kind}.rope."): value for name, value in fields.items()}),
        "tie_word_embeddings": "lm_head.weight" not in shapes,
    }


def check_turned(n_turned: object, settings: Settings) -> None:
    """All channels of a head are turned here.  What is wrong with other settings is found where they are read."""
    d_model, n_heads = settings.get("hidden_size"), settings.get("num_attention_heads")
    if not isinstance(d_model, int) or not isinstance(n_heads, int) or n_heads < 1 or n_turned is None:
        return
    d_head = settings.get("head_dim") or d_model // n_heads
    if n_turned != d_head:
        raise ConfigError(
            f"rope.dimension_count = {n_turned} turns a part of a head of {d_head} channels; regard turns all of them"
        )


def angles_of(rope: Settings) -> dict[str, object]:
    """Rotary angles in transformers' words.  A factor without a type is linear, and 0 is none, as in llama.cpp."""
    scaling = {name.removeprefix("scaling."): value for name, value in rope.items() if name.startswith("scaling.")}
    angles = {"rope_theta": rope.get("freq_base", 10000.0), "rope_type": "default"}
    kind, factor = scaling.pop("type", "linear"), scaling.pop("factor", rope.get("scale_linear")) or 1.0
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return angles
    scaling.pop("finetuned", None)  # whether it was trained so changes nothing
    angles |= {"rope_type": kind, "factor": factor}
    angles |= {ours: scaling.pop(name) for name, ours in SCALINGS.items() if name in scaling}
    if unknown := sorted(name for name, value in scaling.items() if value != USUAL.get(name)):
        raise ConfigError(f"rope.scaling.{unknown[0]} = {scaling[unknown[0]]} is not something that regard's models do")
    return angles
