"""Folders that CTranslate2's own converter made of transformers' become runs that translate as CTranslate2 does."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from typer.testing import CliRunner

from regard.__main__ import app
from regard.decoding.config import DecodingConfig
from regard.errors import RegardError
from regard.interop.importing import import_source, open_source
from regard.runs.run import load
from regard.text.tokenizer import Tokenizer
from tests.interop.small_runs import save_translator
from tests.interop.test_ctranslate2 import TRANSLATORS
from tests.interop.test_imported_translators import LINES, T5_SIZES, bart, marian, t5
from tests.interop.test_translators import shake

ctranslate2 = pytest.importorskip("ctranslate2")
converters = pytest.importorskip("ctranslate2.converters")
LIMIT = 16
N_PIECES = 40


def gated_t5(folder: Path) -> Any:
    """As v1.1 was published: gates, and a table of its own for the output."""
    n_words = t5(folder).config.vocab_size
    config = transformers.T5Config(
        vocab_size=n_words,
        **T5_SIZES,
        decoder_start_token_id=0,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.zeros(n_words, config.d_model))
    return model


def t5_with_more_rows(folder: Path) -> Any:
    """The converter calls them <extra_id_0>, <extra_id_1>, ... as the sentinels."""
    n_words = t5(folder).config.vocab_size
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"extra_ids": 4}))
    config = transformers.T5Config(vocab_size=n_words + 4 + 3, **T5_SIZES, decoder_start_token_id=0)
    return transformers.T5ForConditionalGeneration(config)


SPM = ["source.spm", "target.spm"]
FOLDERS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "marian": (marian, SPM),
    "marian and what names its tokens": (marian, [*SPM, "tokenizer_config.json"]),
    "marian and its own vocabulary": (marian, [*SPM, "vocab.json"]),
    "t5": (t5, ["spiece.model"]),
    "t5 v1.1": (gated_t5, ["spiece.model", "tokenizer_config.json"]),
    "t5, more rows than words": (t5_with_more_rows, ["spiece.model"]),
}


def convert(make: Callable[[Path], Any], files: list[str], place: Path) -> Path:
    (place / "hf").mkdir()
    model = make(place / "hf").eval()
    shake(model)
    with torch.no_grad():
        model.get_input_embeddings().weight[N_PIECES:] = 0.0  # no text has these, so none should be written
    model.save_pretrained(place / "hf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian's tokenizer recommends another library
        converters.TransformersConverter(str(place / "hf"), copy_files=files).convert(str(place / "ct2"))
    return place / "ct2"


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", FOLDERS)  # a second each
def test_converted_folders_become_runs(name: str, tmp_path: Path) -> None:
    make, files = FOLDERS[name]
    folder = convert(make, files, tmp_path)
    result = CliRunner().invoke(app, ["import", str(folder), "--run", str(tmp_path / "run")])
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads((tmp_path / "run" / "certificate.json").read_text())["holds"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    translator, run = ctranslate2.Translator(str(folder)), load(tmp_path / "run", "cpu")
    sources = [tokenizer.convert_ids_to_tokens(tokenizer(line)["input_ids"]) for line in LINES]  # as CTranslate2 says
    written = translator.translate_batch(sources, beam_size=1, max_decoding_length=LIMIT)
    wanted = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in written]
    answers = run.translate(
        LINES, DecodingConfig(length_ratio=0.0, extra_length=LIMIT, never=run.recipe.decoding.never)
    )
    assert [answer.parts[0][1].tokens for answer in answers] == wanted


FAST = ("T5",)  # the others take as long, and their own tests of export and import are fast


@pytest.mark.slow  # an export and an import with certificates
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in TRANSLATORS]
)
def test_what_was_written_for_it_comes_back(name: str, tmp_path: Path) -> None:
    save_translator(tmp_path / "run", **TRANSLATORS[name])
    for arguments in (
        ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--to", "ctranslate2"],
        ["import", str(tmp_path / "out"), "--run", str(tmp_path / "back")],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (result.output, result.exception)


@pytest.mark.slow  # an export and an import with certificates
def test_a_source_that_begins_with_a_token_comes_back(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    model = bart(tmp_path / "hf")
    shake(model)
    model.save_pretrained(tmp_path / "hf")
    source = open_source(tmp_path / "hf")
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    for arguments in (
        ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--to", "ctranslate2"],
        ["import", str(tmp_path / "out"), "--run", str(tmp_path / "back")],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (result.output, result.exception)
    assert load(tmp_path / "back", "cpu").task.frame == load(tmp_path / "run", "cpu").task.frame


def set_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_frame_that_no_file_tells_is_refused_by_its_name(tmp_path: Path) -> None:
    """Whether a source ends with </s> where CTranslate2 does not add it, only models that are known to need it tell."""
    save_translator(tmp_path / "run")
    CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--to", "ctranslate2"])
    shutil.rmtree(tmp_path / "run")
    for changes, message in (
        ({"add_source_eos": False}, "add_source_eos = false"),
        ({"add_source_eos": "yes"}, "add_source_eos must be true or false, got 'yes'"),
        ({"add_source_eos": True, "add_source_bos": True, "bos_token": "<start>"}, "bos_token = '<start>' is not in"),
        ({"add_source_bos": False, "decoder_start_token": "<start>"}, "decoder_start_token = '<start>' is not in"),
    ):
        set_config(tmp_path / "out", **changes)
        with pytest.raises(RegardError, match=message):
            open_source(tmp_path / "out")


def test_a_folder_without_a_tokenizer_says_which_file_to_copy(tmp_path: Path) -> None:
    folder = convert(t5, [], tmp_path)
    result = CliRunner().invoke(app, ["import", str(folder), "--run", str(tmp_path / "run")])
    assert "no tokenizer" in str(result.exception) and "--copy_files" in str(result.exception)
    assert not (tmp_path / "run").exists()
