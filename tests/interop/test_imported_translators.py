"""Folders of translators with their own tokenizers become runs that answer as transformers does, from text to text."""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.decoding.config import DecodingConfig
from regard.errors import RegardError
from regard.interop.certifying.in_transformers import certify
from regard.interop.importing import import_source, open_source
from regard.runs.run import load
from regard.tasks.pretraining.repair import with_gaps
from regard.text.tokenizer import Tokenizer
from tests.interop.test_translators import SIZES, T5_SIZES, shake

sentencepiece = pytest.importorskip("sentencepiece")

LINES = ["the animal did not cross the street", "because it was too tired", "l'animal était trop fatigué"]
TEXT = [*LINES, "the street was too wide", "la rue était trop large", "it is what it is"] * 20
LIMIT = 20  # tokens


def pieces(path: Path, **more: Any) -> list[str]:
    """A small SentencePiece model; returns its pieces."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=written,
        vocab_size=40,
        minloglevel=2,
        **more,
    )
    path.write_bytes(written.getvalue())
    found = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [found.id_to_piece(n) for n in range(found.get_piece_size())]


def marian(folder: Path) -> Any:
    names = [name for name in pieces(folder / "source.spm") if name not in ("<unk>", "<s>", "</s>")]
    (folder / "target.spm").write_bytes((folder / "source.spm").read_bytes())
    vocabulary = {name: n for n, name in enumerate(["</s>", "<unk>", *names, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    settings = {
        "source_lang": "en",
        "target_lang": "fr",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": "MarianTokenizer"}))
    pad = vocabulary["<pad>"]
    special = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "bad_words_ids": [[pad]]}
    config = transformers.MarianConfig(vocab_size=len(vocabulary), **SIZES, **special)
    return transformers.MarianMTModel(config)


def t5(folder: Path) -> Any:
    n = len(pieces(folder / "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "T5Tokenizer",
                "extra_ids": 0,
                "eos_token": "</s>",
                "pad_token": "<pad>",
                "unk_token": "<unk>",
            }
        )
    )
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=n, **T5_SIZES, decoder_start_token_id=0)
    )


def bart(folder: Path) -> Any:
    import tokenizers

    inner = tokenizers.ByteLevelBPETokenizer()
    inner.train_from_iterator(TEXT, 320, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    inner.save_model(str(folder))
    transformers.BartTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    config = transformers.BartConfig(vocab_size=inner.get_vocab_size(), **SIZES)
    return transformers.BartForConditionalGeneration(config)


FOLDERS: dict[str, Callable[[Path], Any]] = {"marian": marian, "t5": t5, "bart": bart}


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("family", FOLDERS)
def test_from_text_to_text(family: str, tmp_path: Path) -> None:
    folder = tmp_path / family
    folder.mkdir()
    model = FOLDERS[family](folder).eval()
    shake(model)
    model.save_pretrained(folder)
    source = open_source(folder)
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    certificate = certify(run, folder, family, n_strings=500)
    assert certificate.holds and len(certificate.findings) == 5, certificate.text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Marian's tokenizer recommends another library
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    theirs.generation_config.forced_eos_token_id = None  # what ends by the limit has no end of its own here
    expected = []
    for line in LINES:
        asked = tokenizer(line, return_tensors="pt")
        with torch.no_grad():
            written = theirs.generate(**asked, max_new_tokens=LIMIT, do_sample=False, num_beams=1)
        expected.append(written[0, 1:].tolist())
    answers = run.translate(
        LINES, DecodingConfig(length_ratio=0.0, extra_length=LIMIT, never=run.recipe.decoding.never)
    )
    found = [answer.parts[0][1] for answer in answers]
    end = run.tokenizer.end_id
    assert [[*best.tokens, end] if best.finished else best.tokens for best in found] == expected


def test_a_source_fits_with_all_that_stands_around_it(tmp_path: Path) -> None:
    """BART's <s> and </s> are two of the tokens that a model takes."""
    (tmp_path / "bart").mkdir()
    bart(tmp_path / "bart").save_pretrained(tmp_path / "bart")
    source = open_source(tmp_path / "bart")
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    limit = run.model.config.max_length - 2
    words = next(" a" * n for n in range(1, 999) if len(run.tokenizer.encode(" a" * n)) == limit)
    assert len(run.score([words], ["a"])) == 1
    with pytest.raises(RegardError, match=f"source line 1 .* the model takes {limit}"):
        run.score([words + " a"], ["a"])


def test_the_tokenizer_frames_a_source_whatever_config_json_says(tmp_path: Path) -> None:
    """transformers' models do not add <s>: its tokenizer does, by its own idea of it."""
    folder = tmp_path / "bart"
    folder.mkdir()
    model = bart(folder)
    shake(model)
    model.config.bos_token_id = 7
    model.save_pretrained(folder)
    source = open_source(folder)
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    run, theirs = load(tmp_path / "run", "cpu"), transformers.AutoTokenizer.from_pretrained(folder)
    for line in LINES:
        assert run.task.frame.source(run.tokenizer.encode(line)) == theirs(line)["input_ids"]
    assert certify(run, folder, "bart", n_strings=50).holds


def test_another_frame_is_found_by_the_certificate(tmp_path: Path) -> None:
    (tmp_path / "bart").mkdir()
    bart(tmp_path / "bart").save_pretrained(tmp_path / "bart")
    source = open_source(tmp_path / "bart")
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("source_start = 0", "source_start = 7"))
    certificate = certify(load(tmp_path / "run", "cpu"), tmp_path / "bart", "bart", n_strings=50)
    wrong = [finding.what for finding in certificate.findings if not finding.holds]
    assert wrong == ["share of identical sources with the tokens around them"]


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("text", ["the {} did not cross", "it was too {}.", "{} the street {}", "nothing missing"])
def test_bart_repairs_what_transformers_repairs(text: str, tmp_path: Path) -> None:
    model = bart(tmp_path).eval()
    shake(model)
    model.save_pretrained(tmp_path)
    source = open_source(tmp_path)
    import_source(source, Tokenizer.load(source.path), tmp_path / "run")
    run = load(tmp_path / "run", "cpu")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    asked = tokenizer(text.replace("{}", "<mask>"), return_tensors="pt")
    given = with_gaps(text.replace("{}", "[MASK]"), run.tokenizer, numbered=False).ids
    assert run.task.frame.source(given) == asked["input_ids"][0].tolist()
    model.generation_config.forced_eos_token_id = None
    limit = run.recipe.decoding.within(run.model.max_length).limit(asked["input_ids"][0].tolist())
    with torch.no_grad():
        written = model.generate(**asked, max_new_tokens=limit, do_sample=False, num_beams=1)
    expected = [i for i in written[0, 1:].tolist() if i != run.tokenizer.end_id]
    assert run.recipe.decoding.beam == 1
    assert run.fill(text.replace("{}", "[MASK]")).text == run.tokenizer.decode(expected).strip()
