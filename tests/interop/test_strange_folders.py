"""Folders that seem to be of a family and are not quite: another answer is worse than a refusal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from typer.testing import CliRunner

from regard.__main__ import app
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RunError
from regard.interop.importing import import_source, open_source
from regard.runs.run import load
from regard.text.tokenizer import Tokenizer
from tests.interop import tiny
from tests.interop.test_families import imported
from tests.interop.test_importing import FOLDERS, make_folder

TABLES = {  # the table of outputs, by a model that says that it is the embeddings
    "gpt2": ("lm_head.weight", "transformer.wte.weight", lambda: tiny.gpt2()),
    "llama": ("lm_head.weight", "model.embed_tokens.weight", lambda: tiny.llama(tie_word_embeddings=True)),
    "bert": ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", lambda: tiny.bert()),
    "roberta": ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight", lambda: tiny.roberta()),
    "distilbert": (
        "vocab_projector.weight",
        "distilbert.embeddings.word_embeddings.weight",
        lambda: tiny.distilbert(),
    ),
}


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(folder / "model.safetensors")


def change(folder: Path, more: dict[str, torch.Tensor]) -> None:
    safetensors.torch.save_file(tensors_of(folder) | more, folder / "model.safetensors", {"format": "pt"})


def set_config(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.parametrize("family", TABLES)
def test_a_second_table_must_be_the_first(family: str, tmp_path: Path) -> None:
    second, first, make = TABLES[family]
    make().save_pretrained(tmp_path)
    table = tensors_of(tmp_path)[first]
    change(tmp_path, {second: table.clone()})
    assert imported(tmp_path)[2] == []  # nothing is left out
    change(tmp_path, {second: table + 1})
    with pytest.raises(RunError, match="regard's model has only one; nothing was imported"):
        imported(tmp_path)


@pytest.mark.parametrize("made_by", ["Marian", "Pegasus"])
def test_a_table_of_sines_must_be_one(made_by: str, tmp_path: Path) -> None:
    settings = {
        "vocab_size": 53,
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_position_embeddings": 24,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    tokens = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    config = getattr(transformers, f"{made_by}Config")(**settings, **heads, **tokens)
    model = getattr(transformers, {"Marian": "MarianMTModel"}.get(made_by, f"{made_by}ForConditionalGeneration"))(
        config
    )
    model.save_pretrained(tmp_path)
    table = model.model.encoder.embed_positions.weight.detach().clone()
    name = "model.encoder.embed_positions.weight"
    change(tmp_path, {name: table})
    imported(tmp_path)
    change(tmp_path, {name: table.flip(0)})
    with pytest.raises(RunError, match=r"embed_positions\.weight is not what regard computes"):
        imported(tmp_path)


def test_what_t5_says_of_its_net_must_agree(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "d_kv": 8, "num_heads": 2, "num_layers": 1, "d_ff": 24}
    config = transformers.T5Config(vocab_size=53, **sizes, feed_forward_proj="gated-gelu", decoder_start_token_id=0)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    set_config(tmp_path, dense_act_fn="gelu_new", is_gated_act=True, num_decoder_layers=None)
    imported(tmp_path)
    set_config(tmp_path, dense_act_fn="gelu")
    with pytest.raises(ConfigError, match="dense_act_fn = 'gelu' is not something that regard's models do"):
        imported(tmp_path)


@pytest.mark.parametrize("types", [["full_attention", "sliding_attention"], ["sliding_attention"] * 2, "full", [1]])
def test_layers_that_look_at_a_window_are_refused_by_their_name(types: Any, tmp_path: Path) -> None:
    """Also where use_sliding_window is false: then there is no window, and transformers cannot run them either."""
    tiny.qwen2(num_key_value_heads=2).save_pretrained(tmp_path)
    set_config(tmp_path, layer_types=["full_attention"] * 2, use_sliding_window=False, sliding_window=4)
    imported(tmp_path)
    set_config(tmp_path, layer_types=types)
    with pytest.raises(ConfigError, match="layer_types must be full_attention in every layer, got"):
        imported(tmp_path)


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("n_positions", [1, 2, 3])
def test_a_writer_of_few_positions_is_compared(
    n_positions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ("gpt2", lambda n: tiny.gpt2(vocab_size=n, n_positions=n_positions))
    monkeypatch.setitem(FOLDERS, "short", model)
    folder = make_folder("short", tmp_path / "hf")
    result = CliRunner().invoke(app, ["import", str(folder), "--run", str(tmp_path / "run"), "--strings", "10"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"{max(1, n_positions - 1)} tokens after each of 16 prompts" in result.output


def in_eight_bits(folder: Path) -> None:
    change(folder, {name: tensor.to(torch.float8_e4m3fn) for name, tensor in tensors_of(folder).items()})


SPOILT: dict[str, tuple[Callable[[Path], None], str]] = {
    "float8": (in_eight_bits, r"is of the type F8_E4M3; weights are read in F64, F32, F16, BF16"),
    "quantised": (lambda f: set_config(f, quantization_config={"load_in_8bit": True}), "has a quantization_config"),
    "int8": (lambda f: change(f, {"transformer.extra": torch.ones(3, dtype=torch.int8)}), "transformer.extra is of"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_numbers_that_are_not_read_are_named(name: str, tmp_path: Path) -> None:
    spoil, message = SPOILT[name]
    tiny.gpt2().save_pretrained(tmp_path)
    spoil(tmp_path)
    with pytest.raises(RunError, match=message):
        open_source(tmp_path)


def test_a_pickle_is_one_whatever_its_name(tmp_path: Path) -> None:
    tiny.gpt2().config.save_pretrained(tmp_path)
    torch.save({"a": torch.ones(2)}, tmp_path / "model.bin")
    with pytest.raises(RunError, match=r"model\.bin is a pickle"):
        open_source(tmp_path)


def test_a_stop_string_may_begin_with_the_space_behind_the_prompt(tmp_path: Path) -> None:
    """SentencePiece leaves out the first space of a text, and a text behind a prompt does not begin with it."""
    source = open_source(make_folder("llama", tmp_path / "hf"))
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    greedy = DecodingConfig()
    for prompt in ("The dog", "it was", "a", ""):
        (free,) = run.generate([prompt], 8, greedy)[0]
        assert free.whole == prompt + free.text == prompt + "".join(run.stream(prompt, 8, greedy))
        for stop in {free.text[:2], free.text[:3], free.text[3:5]} - {""}:
            (stopped,) = run.generate([prompt], 8, greedy, [stop])[0]
            assert stopped.text == free.text[: free.text.index(stop)] == "".join(run.stream(prompt, 8, greedy, [stop]))
            assert stopped.finished
