"""What a folder asks of generation is done as transformers does it, or said."""

import dataclasses
import json
from itertools import pairwise
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
from regard.interop.exporting import export_folder
from regard.interop.importing import generation_of, import_source, open_source
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.text.tokenizer import Tokenizer
from tests.interop.test_imported_translators import FOLDERS
from tests.interop.test_importing import make_folder

LINES = ["the animal did not cross the street", "it was too tired", "the street was too wide", "la rue"]
PROMPTS = ["The dog crossed", "it was it was it", "a", "the the the cat"]
ROOM = 14  # tokens

# Each of them changes what is written, and none is followed by a beam or by chance.
OF_ALL: dict[str, dict[str, Any]] = {
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "suppress_tokens": {"suppress_tokens": "often"},
    "begin_suppress_tokens": {"begin_suppress_tokens": "first"},
    "bad_words_ids": {"bad_words_ids": "pairs"},
    "several ends": {"eos_token_id": "ends"},
}
OF_TARGETS = {
    "forced_bos_token_id": {"forced_bos_token_id": 9},
    "forced, then not begun with": {"forced_bos_token_id": 9, "begin_suppress_tokens": "second"},
    "decoder_start_token_id": {"decoder_start_token_id": 7},
    "min_length": {"min_length": 6, "eos_token_id": "ends"},
    "max_length": {"max_length": 5},
}


def filled_in(asked: dict[str, Any], free: list[list[int]], end: int) -> dict[str, Any]:
    """With tokens that are written where nothing is asked for."""
    first, second = ([ids[i] for ids in free if len(ids) > i] for i in (0, 1))
    choices = {
        "often": [max(free[0], key=free[0].count)],
        "first": sorted({*first}),
        "second": sorted({*second}),
        "pairs": [list(pair) for ids in free for pair in pairwise(ids)] + [[first[-1], 3, 4]],
        "ends": [end, *sorted({*(ids[len(ids) // 2] for ids in free)} - {end})],
    }
    return {name: choices[value] if isinstance(value, str) else value for name, value in asked.items()}


def bring_in(folder: Path, run: Path) -> Run:
    source = open_source(folder)
    import_source(source, Tokenizer.load(source.path), run)
    return load(run, "cpu")


def set_generation(folder: Path, **settings: Any) -> None:
    (folder / "generation_config.json").write_text(json.dumps(settings))


@torch.no_grad()
def translate_there(folder: Path) -> list[list[int]]:
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return [model.generate(**tokenizer(line, return_tensors="pt"))[0, 1:].tolist() for line in LINES]


def translate_here(run: Run) -> list[list[int]]:
    return [answer.parts[0][1].tokens for answer in run.translate(LINES)]


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bart")
    model = FOLDERS["bart"](folder).eval()
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.dim() > 1:  # norms as they are: a bias after the last would always win
            torch.nn.init.normal_(parameter, std=0.8)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder("qwen2", tmp_path_factory.mktemp("qwen") / "hf")


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", [*OF_ALL, *OF_TARGETS])  # a second each
def test_a_translator_follows_its_settings(name: str, bart: Path, tmp_path: Path) -> None:
    end = Tokenizer.load(bart).end_id
    plain: dict[str, Any] = {
        "decoder_start_token_id": 2,
        "eos_token_id": end,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "max_length": ROOM + 1,
    }
    set_generation(bart, **plain)
    free = translate_there(bart)
    set_generation(bart, **{**plain, **filled_in({**OF_ALL, **OF_TARGETS}[name], free, end)})
    there = translate_there(bart)
    assert there != free, "the setting changes nothing, so nothing is tested"
    run = bring_in(bart, tmp_path / "run")
    ends = {end, *run.recipe.decoding.ends}
    assert translate_here(run) == [ids[:-1] if ids[-1] in ends else ids for ids in there]
    export_folder(run, tmp_path / "hf")  # and back
    assert translate_there(tmp_path / "hf") == there


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", OF_ALL)
def test_a_language_model_follows_its_settings(name: str, qwen: Path, tmp_path: Path) -> None:
    words = Tokenizer.load(qwen)

    @torch.no_grad()
    def write_there(folder: Path) -> list[list[int]]:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        prompts = [torch.tensor([words.encode(prompt)]) for prompt in PROMPTS]
        written = [model.generate(ids, max_new_tokens=ROOM)[0, ids.shape[1] :].tolist() for ids in prompts]
        ends = model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return [ids[:-1] if ids[-1] in ends else ids for ids in written]

    plain = {"eos_token_id": words.end_id, "pad_token_id": words.pad_id}
    set_generation(qwen, **plain)
    free = write_there(qwen)
    set_generation(qwen, **{**plain, **filled_in(OF_ALL[name], free, words.end_id)})
    there = write_there(qwen)
    assert there != free, "the setting changes nothing, so nothing is tested"
    run = bring_in(qwen, tmp_path / "run")
    here = [answers[0] for answers in run.generate(PROMPTS, ROOM)]
    assert [answer.text for answer in here] == [
        words.decode([*words.encode(prompt), *ids])[len(prompt) :] for prompt, ids in zip(PROMPTS, there, strict=True)
    ]
    assert "".join(run.stream(PROMPTS[0], ROOM)) == here[0].text
    assert Recipe.of_run(tmp_path / "run").decoding == run.recipe.decoding


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    "asked", [{"no_repeat_ngram_size": 1}, {"repetition_penalty": 3.0}, {"bad_words_ids": "begun"}]
)
def test_what_was_read_counts_as_written(asked: dict[str, Any], qwen: Path, tmp_path: Path) -> None:
    """Prompts that end with what the model would write next, again."""
    words = Tokenizer.load(qwen)
    special = {"eos_token_id": words.end_id, "pad_token_id": words.pad_id}
    set_generation(qwen)
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen).eval()

    def write_there(prompts: list[list[int]], **settings: Any) -> list[list[int]]:
        return [
            model.generate(torch.tensor([ids]), max_new_tokens=5, **special, **settings)[0, len(ids) :].tolist()
            for ids in prompts
        ]

    starts = [words.encode(prompt) for prompt in PROMPTS]
    prompts = [[*ids, *written] for ids, written in zip(starts, write_there(starts), strict=True)]
    if "bad_words_ids" in asked:  # the prompt's last token and the one that would follow
        asked = {
            "bad_words_ids": [[ids[-1], next_[0]] for ids, next_ in zip(prompts, write_there(prompts), strict=True)]
        }
    set_generation(qwen, **special, **asked)
    run = bring_in(qwen, tmp_path / "run")
    config = dataclasses.replace(run.recipe.decoding, length_ratio=0.0, extra_length=5)

    def write_here(config: DecodingConfig) -> list[list[int]]:
        found = generate(run.model, prompts, config, words.start_id, words.end_id)
        return [[*best.tokens, *[words.end_id] * best.finished] for (best,) in found]

    assert write_here(config) == write_there(prompts, **asked)
    assert write_here(dataclasses.replace(config, counted="written")) != write_here(config)


@pytest.mark.slow  # an export of its own
def test_what_is_not_followed_is_named(qwen: Path, tmp_path: Path) -> None:
    end = Tokenizer.load(qwen).end_id
    asked = {"eos_token_id": [7], "do_sample": True, "temperature": 0.6, "top_k": 50, "num_beams": 4}
    asked |= {"forced_bos_token_id": 3, "encoder_repetition_penalty": 2.0, "new_fashion": "x", "use_cache": True}
    set_generation(qwen, **asked)
    told = CliRunner().invoke(app, ["import", str(qwen), "--run", str(tmp_path / "run"), "--strings", "20"])
    note = (
        "settings of generation that were not carried over: do_sample = True, num_beams = 4, "
        "encoder_repetition_penalty = 2.0, temperature = 0.6, forced_bos_token_id = 3, new_fashion = 'x'"
    )
    other = f"its settings do not end a text at the tokenizer's end token, {end}; here it ends there, too"
    assert told.exit_code == 0 and note in told.stdout and other in told.stdout, told.output
    assert note in (tmp_path / "run" / "certificate.txt").read_text()
    set_generation(qwen, eos_token_id=end, do_sample=False, top_p=0.5)
    source = open_source(qwen)
    assert generation_of(source, load(tmp_path / "run", "cpu").recipe, end).notes == ()


def test_older_folders_have_them_in_their_config(bart: Path, tmp_path: Path) -> None:
    (bart / "generation_config.json").unlink(missing_ok=True)
    settings = json.loads((bart / "config.json").read_text())
    for name in ("decoder_start_token_id", "forced_eos_token_id"):
        settings.pop(name, None)
    wanted = {"decoder_start_token_id": 2, "eos_token_id": 2, "no_repeat_ngram_size": 3, "num_beams": 4}
    (bart / "config.json").write_text(json.dumps(settings | wanted))
    source = open_source(bart)
    recipe, _ = import_source(source, Tokenizer.load(bart), tmp_path / "run")
    assert (recipe.decoding.block_ngrams, recipe.decoding.counted) == (3, "start")
    assert generation_of(source, recipe, 2).notes == (
        "settings of generation that were not carried over: num_beams = 4",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bad_words_ids": [5]}, "bad_words_ids must be lists of ids"),
        ({"bad_words_ids": [["x", 3]]}, "bad_words_ids must be ids of tokens"),
        ({"suppress_tokens": "all"}, "suppress_tokens must be ids of tokens"),
        ({"repetition_penalty": "much"}, "repetition_penalty must be a number"),
        ({"repetition_penalty": 0}, "repetition_penalty must be"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must be a whole number"),
    ],
)
def test_settings_that_make_no_sense_are_errors(
    settings: dict[str, Any], message: str, qwen: Path, tmp_path: Path
) -> None:
    set_generation(qwen, **settings)
    with pytest.raises(ConfigError, match=message):
        bring_in(qwen, tmp_path / "run")
