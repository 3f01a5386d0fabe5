"""Our own runs as folders of transformers, and the certificate of it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RunError
from regard.interop.certifying.certificate import compare_ids, compare_rows
from regard.interop.certifying.in_transformers import certify, without_rounding
from regard.interop.certifying.samples import sentences
from regard.interop.exporting import export_folder, find_family, origin
from regard.interop.importing import import_weights, open_source, recipe_of
from regard.learning.config import TrainingConfig
from regard.models.stack import StackConfig
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.runs.weights import save_weights, weights_of
from regard.tasks.classification.task import ClassificationConfig
from regard.tasks.language.task import LanguageConfig
from regard.tasks.pretraining.task import MaskedConfig
from regard.text.tokenizer import Tokenizer, TokenizerConfig

SMALL = {"d_model": 12, "n_heads": 2, "n_layers": 2, "d_ff": 9, "max_length": 40, "dropout": 0.0}
LANGUAGE = LanguageConfig(window=16)
MASKED = MaskedConfig(window=16)
LABELS = ClassificationConfig(
    labels=("0", "1", "2"), names=("bad", "fair", "good"), framed=True, pooling="first", pooler="tanh"
)
BOTH_WAYS = {"causal": False, "pre_norm": False, "scale_embedding": False, "embedding_norm": True}
RUNS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "gpt2": ("language", LANGUAGE, {"scale_embedding": False, "feed_forward": "gelu_tanh"}),
    "gpt2, as the ladder has it": ("language", LANGUAGE, {"position": "sinusoidal", "feed_forward": "relu"}),
    "llama": (
        "language",
        LANGUAGE,
        {"position": "rotary", "norm": "rms", "feed_forward": "swiglu", "bias": "none", "n_key_heads": 1},
    ),
    "llama, with biases on inputs": (
        "language",
        LANGUAGE,
        {"position": "rotary", "norm": "rms", "feed_forward": "swiglu", "bias": "inputs", "n_key_heads": 1},
    ),
    "qwen3": (
        "language",
        LANGUAGE,
        {
            "position": "rotary",
            "norm": "rms",
            "feed_forward": "swiglu",
            "bias": "none",
            "d_head": 4,
            "norm_heads": True,
            "tied": False,
            "scale_embedding": False,
        },
    ),
    "bert": ("masked", MASKED, {**BOTH_WAYS, "n_segments": 2}),
    "bert, as RoBERTa": ("masked", dataclasses.replace(MASKED, nsp=False), BOTH_WAYS),
    "electra": ("masked", dataclasses.replace(MASKED, nsp=False), {**BOTH_WAYS, "n_segments": 2, "d_embedding": 5}),
    "bert, as a classifier": ("classification", LABELS, {**BOTH_WAYS, "n_segments": 2}),
    "bert, as a classifier with sines": (
        "classification",
        LABELS,
        {**BOTH_WAYS, "scale_embedding": True, "position": "sinusoidal"},
    ),
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    config = TokenizerConfig(vocab_size=300, extra=("<mask>",))
    return Tokenizer.train(sentences(300), config)


def make_run(name: str, folder: Path, tokenizer: Tokenizer) -> Run:
    """An untrained run, whose weights are far from how they begin."""
    kind, task, settings = RUNS[name]
    model = StackConfig(vocab_size=tokenizer.vocab_size, **{**SMALL, **settings})
    recipe = Recipe(
        name=name,
        kind=kind,
        architecture="stack",
        task=task,
        data=DataConfig(max_length=16),
        tokenizer=TokenizerConfig(vocab_size=tokenizer.vocab_size, extra=("<mask>",)),
        model=model,
        training=TrainingConfig(),
        decoding=DecodingConfig(),
    )
    folder.mkdir()
    recipe.write(folder / "recipe.toml")
    tokenizer.save(folder / "tokenizer.json")
    torch.manual_seed(1)
    net = recipe.build_model()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    save_weights(weights_of(net), folder / "model.safetensors")
    return load(folder, "cpu")


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", RUNS)  # half a second each
def test_a_run_of_ours_is_the_same_in_transformers(name: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run(name, tmp_path / "run", tokenizer)
    assert export_folder(run, tmp_path / "hf").family == name.split(",")[0]
    certificate = certify(run, tmp_path / "hf", "?", n_strings=400)
    assert certificate.holds, certificate.text()
    assert not certificate.notes
    of_labels = " of labels" if run.recipe.kind == "classification" else ""
    assert {finding.what for finding in certificate.findings} >= {
        f"largest difference of logits{of_labels}",
        "share of identical token sequences",
    }


def test_what_was_written_comes_back(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("qwen3", tmp_path / "run", tokenizer)
    export_folder(run, tmp_path / "hf")
    source = open_source(tmp_path / "hf")
    recipe = recipe_of(source, run.recipe.tokenizer, tokenizer.end_id)
    tensors, left_out = import_weights(source, recipe)
    ours = weights_of(run.model)
    assert not left_out and tensors.keys() == ours.keys()
    assert all(torch.equal(tensors[name], ours[name]) for name in ours)
    assert recipe.model == run.recipe.model


def test_transformers_finds_every_weight_and_the_special_tokens(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("bert", tmp_path / "run", tokenizer)
    export_folder(run, tmp_path / "hf")
    model, info = transformers.BertForPreTraining.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert model.config.pad_token_id == tokenizer.pad_id
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert (theirs.bos_token, theirs.eos_token, theirs.pad_token) == ("<s>", "</s>", "<pad>")
    assert theirs.mask_token == "<mask>"
    text = "The dog crossed the street."
    assert theirs.decode(tokenizer.encode(text)) == text
    pair = theirs("The dog", "A cat")
    start, end = tokenizer.start_id, tokenizer.end_id
    first, second = tokenizer.encode("The dog"), tokenizer.encode("A cat")
    assert pair["input_ids"] == [start, *first, end, *second, end]
    assert pair["token_type_ids"] == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_a_classifier_of_ours_is_a_pipeline_there(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("bert, as a classifier", tmp_path / "run", tokenizer)
    export_folder(run, tmp_path / "hf")
    texts = ["The dog crossed the street.", "A cat"]
    there = transformers.pipeline("text-classification", model=str(tmp_path / "hf"))(texts)
    assert [answer["label"] for answer in there] == [answer.label for answer in run.classify(texts)]


def test_only_families_that_do_the_task_say_why_they_do_not_fit(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("bert, as a classifier", tmp_path / "run", tokenizer)
    odd = dataclasses.replace(run.recipe, task=dataclasses.replace(LABELS, pooling="mean"))
    with pytest.raises(ConfigError, match=r"bert needs task\.pooling = 'first' to classify") as raised:
        find_family(odd, None)
    assert "gpt2" not in str(raised.value)


def test_a_folder_is_never_written_over(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("gpt2", tmp_path / "run", tokenizer)
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="not empty"):
        export_folder(run, tmp_path / "hf")
    assert [path.name for path in (tmp_path / "hf").iterdir()] == ["mine.txt"]


def test_what_no_family_can_do_is_said(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("gpt2", tmp_path / "run", tokenizer)
    odd = dataclasses.replace(run.recipe, model=dataclasses.replace(run.recipe.model, position="alibi"))
    with pytest.raises(ConfigError, match=r"gpt2 needs model\.position = 'learned', and this run has 'alibi'"):
        find_family(odd, None)
    with pytest.raises(ConfigError, match="unknown family of models 'gpt5'"):
        find_family(run.recipe, "gpt5")
    with pytest.raises(ConfigError, match="no model like the architecture 'recurrent'"):
        find_family(dataclasses.replace(run.recipe, architecture="recurrent"), None)


def test_roberta_needs_its_own_padding(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Its places are counted from the id of padding, which ours is not."""
    run = make_run("bert, as RoBERTa", tmp_path / "run", tokenizer)
    with pytest.raises(ConfigError, match="padding has the id 1, not 0"):
        export_folder(run, tmp_path / "hf", "roberta")
    assert not (tmp_path / "hf").exists()


@pytest.mark.slow  # an export of its own
def test_a_certificate_tells_another_model(tmp_path: Path, tokenizer: Tokenizer) -> None:
    run = make_run("gpt2", tmp_path / "run", tokenizer)
    export_folder(run, tmp_path / "hf")
    with torch.no_grad():
        run.model.reader.norm.weight[3] += 0.5
    certificate = certify(run, tmp_path / "hf", "gpt2", n_strings=10)
    assert not certificate.holds
    certificate.write(tmp_path / "run")
    assert origin(tmp_path / "run") == "gpt2"
    assert json.loads((tmp_path / "run" / "certificate.json").read_text())["holds"] is False
    assert "FAILS  largest difference of logits" in (tmp_path / "run" / "certificate.txt").read_text()


def test_differences_that_are_no_numbers_do_not_hold() -> None:
    zero, broken = torch.zeros(2, 3), torch.full((2, 3), torch.nan)
    assert not compare_rows("rows", [broken], [zero], "one").holds
    assert compare_rows("rows", [zero], [zero + 1e-5], "one").holds
    rounded = compare_rows("rows", [zero], [zero + 2e-4], "one")
    assert not rounded.holds
    assert without_rounding(rounded, 1e-5).holds and not without_rounding(rounded, 2e-4).holds
    assert compare_ids("ids", [[1, 2], [3]], [[1, 2], [4]], "two").value == 0.5
