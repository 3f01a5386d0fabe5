"""Runs of translation in and out of folders of transformers, by the commands, with their certificates."""

import json
from pathlib import Path

import pytest
import transformers

from regard.commands.exchange import export, import_
from regard.decoding.config import DecodingConfig
from regard.models.transformer import TransformerConfig
from regard.runs.run import Run, load
from regard.tasks.pretraining.denoising import DenoisingConfig
from tests.interop.small_runs import save, save_translator

LIMIT = 30  # tokens


@pytest.mark.slow  # a whole training, export and import
@pytest.mark.parametrize(
    ("pre_norm", "family"), [(False, "marian"), pytest.param(True, "pegasus", marks=pytest.mark.slow)]
)
def test_a_translator_goes_out_and_comes_back(pre_norm: bool, family: str, tmp_path: Path) -> None:
    run = save_translator(tmp_path / "run", pre_norm=pre_norm)
    export(run.folder, tmp_path / "hf", to="hf")
    certificate = json.loads((tmp_path / "hf" / "certificate.json").read_text())
    assert certificate["holds"] and certificate["family"] == family and len(certificate["findings"]) == 7
    lines = ["the animal was tired", "the street"]
    assert used_by_hand(tmp_path / "hf", lines) == answers(run, lines)
    import_(tmp_path / "hf", tmp_path / "back", n_strings=100)
    back = load(tmp_path / "back", "cpu")
    assert back.recipe.task.target_start == run.tokenizer.start_id
    assert answers(back, lines) == answers(run, lines)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["hf", "ctranslate2"])
def test_a_mended_text_goes_out_as_bart(to: str, tmp_path: Path) -> None:
    """What was pre-trained to mend texts is a translator, too."""
    like_bart = {"position": "learned", "embedding_norm": True, "scale_embedding": False, "feed_forward": "gelu"}
    save(tmp_path / "run", "denoising", "transformer", DenoisingConfig(window=16), TransformerConfig, like_bart)
    export(tmp_path / "run", tmp_path / "out", to=to)
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["holds"] and certificate["family"] == {"hf": "bart"}.get(to, to)


def answers(run: Run, lines: list[str]) -> list[str]:
    return [answer.text for answer in run.translate(lines, DecodingConfig(length_ratio=0.0, extra_length=LIMIT))]


def used_by_hand(folder: Path, lines: list[str]) -> list[str]:
    """As the users of transformers do it, with the folder's own tokenizer and settings."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    asked = tokenizer(lines, return_tensors="pt", padding=True)
    written = model.generate(**asked, max_new_tokens=LIMIT, do_sample=False, num_beams=1)
    return tokenizer.batch_decode(written, skip_special_tokens=True)
