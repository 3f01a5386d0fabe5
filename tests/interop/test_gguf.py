"""GGUF files: the same model as transformers' own reader finds in them, also in few bits; damaged ones are refused."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers

from regard.errors import RegardError, RunError
from regard.interop.certifying.in_transformers import read_model
from regard.interop.certifying.samples import random_tokens
from regard.interop.formats.gguf_file import BLOCK, TABLES
from regard.interop.importing import import_weights, open_source, recipe_of
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.runs.weights import set_weights
from regard.text.tokenizer import TokenizerConfig
from tests.interop import tiny

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32}


def write_llama(model: Any, path: Path, bits: str = "F32", rope: Mapping[str, Any] | None = None) -> None:
    """As llama.cpp's converter does it: rotary channels of queries and keys go from halves to pairs."""
    c = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_vocab_size(c.vocab_size)
    for name, value in (rope or {}).items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(f"llama.rope.{name}", value)
    names = {theirs: ours for ours, theirs in (TABLES | BLOCK).items()}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        numbers = tensor.numpy()
        whole = name.removesuffix(".weight")
        if whole in names:
            renamed = names[whole]
        else:
            _, _, i, part = whole.split(".", 3)
            renamed = f"blk.{i}.{names[part]}"
        n_heads = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}.get(renamed.rpartition(".")[2])
        if n_heads is not None:
            rows, columns = numbers.shape
            numbers = numbers.reshape(n_heads, 2, rows // n_heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        kind = gguf.GGMLQuantizationType[bits if numbers.ndim == 2 else "F32"]
        packed = numbers if kind == 0 else gguf.quants.quantize(np.ascontiguousarray(numbers), kind)
        writer.add_tensor(f"{renamed}.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(path: Path, bits: str = "F32", rope: Mapping[str, Any] | None = None, **more: Any) -> Any:
    torch.manual_seed(0)
    model = tiny.llama(**SIZES, **more).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    write_llama(model, path, bits, rope)
    return model


def read(path: Path) -> Any:
    source = open_source(path)
    recipe = recipe_of(source, TokenizerConfig(kind="imported", vocab_size=53), 2)
    model = recipe.build_model().eval()
    set_weights(model, import_weights(source, recipe)[0], str(path))
    return model


def largest_difference(ours: Any, theirs: Any) -> float:
    found = []
    for ids in random_tokens(5, 19, 53, without=()):
        tokens = torch.tensor(ids)
        with torch.no_grad():
            row = logits(ours(tokens, Ragged([len(ids)])), ours.output_table)
            found.append(float((row - theirs(tokens[None]).logits[0]).abs().max()))
    return max(found)


@pytest.mark.parametrize("tied", [True, False])
def test_a_file_is_the_model_that_it_was_made_of(tied: bool, tmp_path: Path) -> None:
    model = make(tmp_path / "a.gguf", tie_word_embeddings=tied, rope_theta=500.0)
    assert largest_difference(read(tmp_path / "a.gguf"), model) < 1e-5


@pytest.mark.parametrize("bits", ["Q8_0", "Q4_1"])
def test_few_bits_are_read_as_transformers_reads_them(bits: str, tmp_path: Path) -> None:
    exact = make(tmp_path / "a.gguf", bits, tie_word_embeddings=True)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="a.gguf", dtype=torch.float32)
    ours = read(tmp_path / "a.gguf")
    assert largest_difference(ours, theirs.eval()) < 1e-5
    assert largest_difference(ours, exact) > 1e-3  # it was not exact to begin with


def test_strange_files_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "mamba")
    writer.add_tensor("rope_freqs.weight", np.ones(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(RegardError, match="unknown family of models"):
        open_source(tmp_path / "a.gguf")
    (tmp_path / "b.gguf").write_bytes(b"no GGUF at all")
    with pytest.raises(RunError, match="not a usable GGUF file"):
        open_source(tmp_path / "b.gguf")


LINEAR = {"rope_type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 5}
FAST = {"beta_fast": 4.0, "beta_slow": 0.5}


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    ("rope", "angles"),
    [
        ({"scaling.type": "linear", "scaling.factor": 4.0}, LINEAR),
        ({"scaling.factor": 4.0}, LINEAR),  # the usual type, where none is named
        ({"scale_linear": 4.0}, LINEAR),  # its older name
        ({"scaling.type": "none", "scaling.factor": 4.0}, {"rope_type": "default"}),
        ({"scaling.factor": 0.0}, {"rope_type": "default"}),
        ({"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 5}, YARN),
        (
            {
                "scaling.type": "yarn",
                "scaling.factor": 4.0,
                "scaling.original_context_length": 5,
                "scaling.yarn_beta_fast": 4.0,
                "scaling.yarn_beta_slow": 0.5,
            },
            YARN | FAST,
        ),
        ({"dimension_count": 16}, {"rope_type": "default"}),
    ],
    ids=str,
)
def test_angles_are_scaled_as_llama_cpp_scales_them(
    rope: dict[str, Any], angles: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "a.gguf"
    model = make(path, rope=rope, rope_parameters={"rope_theta": 500.0, **angles})
    assert largest_difference(read(path), model) < 1e-4
    plain = tiny.llama(**SIZES, rope_parameters={"rope_type": "default", "rope_theta": 500.0}).eval()
    plain.load_state_dict(model.state_dict())
    assert (largest_difference(read(path), plain) > 1e-2) == (angles["rope_type"] != "default")
    theirs = read_model(path, "AutoModelForCausalLM")  # who does not read all of that from a file, and is told
    assert largest_difference(read(path), theirs) < 1e-4


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"dimension_count": 8}, "rope.dimension_count = 8 turns a part of a head of 16 channels"),
        ({"dimension_count": 32}, "rope.dimension_count = 32"),
        ({"scaling.type": "longrope", "scaling.factor": 4.0}, "unknown rope_type 'longrope'"),
        (
            {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.yarn_ext_factor": 0.5},
            "rope.scaling.yarn_ext_factor",
        ),
        ({"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.attn_factor": 2.0}, "rope.scaling.attn_factor"),
        ({"scaling.factor": "4"}, "factor must be a number"),
    ],
    ids=str,
)
def test_other_angles_are_refused_by_their_name(rope: dict[str, Any], message: str, tmp_path: Path) -> None:
    make(tmp_path / "a.gguf", rope=rope)
    with pytest.raises(RegardError, match=message):
        read(tmp_path / "a.gguf")


@pytest.mark.slow  # hundreds of damaged files
def test_damaged_files_are_errors_and_nothing_worse(tmp_path: Path) -> None:
    make(tmp_path / "a.gguf")
    content, chance, n_refused = (tmp_path / "a.gguf").read_bytes(), random.Random(0), 0
    header = 3000  # about as many bytes describe the rest
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(header)
            changed[place : place + chance.choice([1, 1, 8])] = chance.randbytes(chance.choice([0, 1, 8]))
        (tmp_path / "a.gguf").write_bytes(changed)
        try:
            read(tmp_path / "a.gguf")
        except RegardError:
            n_refused += 1
    assert n_refused > 100
