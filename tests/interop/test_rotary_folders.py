"""Folders with scaled rotary positions: numbers and texts are those of transformers, past the first length, too."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from typer.testing import CliRunner

from regard.__main__ import app
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import generate
from regard.errors import ConfigError
from regard.interop.certifying.samples import random_tokens
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.runs.run import load
from tests.interop import tiny
from tests.interop.test_families import imported
from tests.interop.test_importing import FOLDERS, make_folder

LIMIT = 1e-4


def fresh(folder: Path) -> Any:
    """Their angles depend on the texts that a model read before."""
    return transformers.LlamaForCausalLM.from_pretrained(folder).eval()


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@torch.no_grad()
@pytest.mark.parametrize("name", tiny.ROPES)
def test_prompts_and_what_is_written_after_them_are_theirs(name: str, tmp_path: Path) -> None:
    """A dynamic one, with 21 places, reads up to 63; its angles change while a text grows past the 21."""
    tiny.make(f"llama, {name} angles", tmp_path)
    recipe, ours, _ = imported(tmp_path)
    longest = recipe.model.max_length
    assert longest == (63 if name == "dynamic" else 21)
    prompts = [ids for ids in random_tokens(6, longest - 8, 53, without=()) if ids]
    for ids in prompts:
        theirs, tokens = fresh(tmp_path), torch.tensor(ids)
        rows = logits(ours(tokens, Ragged([len(ids)])), ours.output_table)
        assert (rows - theirs(tokens[None]).logits[0]).abs().max() < LIMIT
        state, step = ours.start([ids], 0, room=9)
        cache, read = transformers.DynamicCache(), tokens[None]
        theirs = fresh(tmp_path)
        for _ in range(8):  # a step here and there, each from its own cache
            answer = theirs(read, past_key_values=cache, use_cache=True).logits[0, -1]
            assert (step[0] - answer).abs().max() < LIMIT
            read = answer.argmax()[None, None]
            step = ours.step(read, state)[:, -1]


@torch.no_grad()
def test_greedy_texts_are_theirs(tmp_path: Path) -> None:
    tiny.make("llama, dynamic angles", tmp_path)
    _, ours, _ = imported(tmp_path)
    prompts = random_tokens(5, 30, 53, without=())
    config = DecodingConfig(length_ratio=0.0, extra_length=12)
    written = [list(best.tokens) for (best,) in generate(ours, prompts, config, 99, 99)]
    for ids, tokens in zip(prompts, written, strict=True):
        wanted = fresh(tmp_path).generate(torch.tensor([ids]), do_sample=False, max_new_tokens=12, pad_token_id=0)
        assert tokens == wanted[0, len(ids) :].tolist()


@pytest.mark.slow  # what all of them answer is compared above; the whole way, with certificates, takes seconds each
@pytest.mark.parametrize("name", tiny.ROPES)
def test_in_and_out_by_the_commands(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(n_words: int) -> Any:
        return tiny.llama(vocab_size=n_words, max_position_embeddings=40, rope_parameters=tiny.ropes(name))

    monkeypatch.setitem(FOLDERS, "scaled", ("llama", model))
    folder, run, out = make_folder("scaled", tmp_path / "hf"), tmp_path / "run", tmp_path / "out"
    for arguments in (["import", str(folder), "--run", str(run), "--strings", "50"], ["export", str(run), str(out)]):
        result = CliRunner().invoke(app, [*arguments, *(["--to", "hf"] if arguments[0] == "export" else [])])
        assert result.exit_code == 0, result.output
    before, after = (transformers.LlamaForCausalLM.from_pretrained(path).config.to_dict() for path in (folder, out))
    assert after["max_position_embeddings"] == before["max_position_embeddings"]
    assert after["rope_parameters"]["rope_type"] == name.split(",")[0]
    assert load(run, "cpu").recipe.model.rotary_scaling == name.split(",")[0]


def test_older_files_say_it_beside_the_base(tmp_path: Path) -> None:
    tiny.make("llama", tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text()) | {"rope_theta": 50.0}
    del settings["rope_parameters"]
    settings["rope_scaling"] = {"type": "linear", "factor": 2}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    model = imported(tmp_path)[0].model
    assert (model.rotary_base, model.rotary_scaling, model.rotary_factor) == (50.0, "linear", 2.0)


@pytest.mark.parametrize(
    ("angles", "message"),
    [
        ({"rope_type": "longrope", "factor": 2.0}, "unknown rope_type 'longrope'"),
        ({"rope_type": "linear"}, "factor must be a number, got None"),
        ({"rope_type": "linear", "factor": "2"}, "factor must be a number, got '2'"),
        ({"rope_type": "linear", "factor": 0.5}, "rotary_factor must be at least 1"),
        ({"rope_type": "yarn", "factor": 2.0, "truncate": False}, "truncate = False is not something"),
        ({"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not"),
        ({"rope_type": "llama3", "factor": 2.0, "high_freq_factor": 4}, "low_freq_factor must be a number, got None"),
        ({"rope_type": "yarn", "factor": 2.0, "attention_factor": -1.0}, "attention_factor must be above 0, got -1.0"),
        ({"rope_type": ["yarn"]}, r"rope_type must be a word"),
        ("yarn", "rope_parameters must be a table"),
    ],
)
def test_what_cannot_be_is_named(angles: Any, message: str, tmp_path: Path) -> None:
    tiny.make("llama", tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text()) | {"rope_parameters": angles}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ConfigError, match=message):
        imported(tmp_path)
