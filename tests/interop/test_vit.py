"""Vision Transformers of transformers, in and out: the same answers from image files, and what is refused, by name."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import transformers
from typer.testing import CliRunner

import regard
from regard.__main__ import app
from regard.config import write as write_recipe
from regard.errors import ConfigError, RegardError, RunError
from regard.interop.certifying.image_tools import certify_vit
from regard.interop.certifying.sample_images import write_pictures
from regard.interop.exporting import export_folder
from regard.interop.formats.to_onnx import write_graphs
from regard.runs.weights import weights_of
from tests.interop.tiny_vit import MEAN, NAMES, PROCESSOR, make_vit, rename, save_vit, take
from tests.pairs.tiny_data import write_data

CUT = {"size": {"shortest_edge": 37}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}}
OLDER = {"image_processor_type": None, "feature_extractor_type": "ViTFeatureExtractor", "size": 32}
FOLDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "large patches, no biases on inputs": {"patch_size": 16, "qkv_bias": False, "hidden_act": "gelu_new"},
    "fast gelu, one layer, another eps": {"hidden_act": "gelu_fast", "num_hidden_layers": 1, "layer_norm_eps": 1e-3},
    "twelve labels, two of one name": {"id2label": {i: "crane" if i in (3, 7) else f"bird {i}" for i in range(12)}},
    "pairs of sizes, and of one number": {"image_size": [32, 32], "patch_size": [8, 8], "num_attention_heads": 1},
    "cut to the middle": {"processor": CUT},
    "cut to the middle, a number": {"processor": {**CUT, "crop_size": 32, "resample": 1}},
    "older processor": {"processor": OLDER},
    "bilinear, not normalized": {"processor": {"resample": 2, "do_normalize": False}},
    "one mean for all channels": {"processor": {"image_mean": 0.3, "image_std": 0.2}},
}


def findings(run: Any, folder: Path) -> dict[str, bool]:
    return {finding.what: finding.holds for finding in certify_vit(run, folder, "vit").findings}


def change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("newer", [False, True], ids=["older names", "newer names"])
@pytest.mark.parametrize("name", FOLDERS)
def test_an_imported_vit_answers_as_transformers_does(name: str, newer: bool, tmp_path: Path) -> None:
    make_vit(tmp_path / "hf", **FOLDERS[name])
    if newer:
        rename(tmp_path / "hf")
    run = take(tmp_path / "hf", tmp_path / "run")
    certificate = certify_vit(run, tmp_path / "hf", "vit")
    assert certificate.holds, certificate.text()


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", FOLDERS)
def test_out_again_it_has_the_same_weights_bit_for_bit(name: str, tmp_path: Path) -> None:
    make_vit(tmp_path / "hf", **FOLDERS[name])
    run = take(tmp_path / "hf", tmp_path / "run")
    assert export_folder(run, tmp_path / "out").family == "vit"
    before, after = (
        safetensors.torch.load((tmp_path / place / "model.safetensors").read_bytes()) for place in ("hf", "out")
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = take(tmp_path / "out", tmp_path / "again")
    assert again.recipe.model == run.recipe.model
    assert again.recipe.task == run.recipe.task


def test_labels_keep_their_numbers_and_names(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    run = take(tmp_path / "hf", tmp_path / "run")
    assert run.recipe.task.names == NAMES
    pictures = [str(path) for path in write_pictures(tmp_path)]
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "hf", backend="pil")
    classify = transformers.pipeline("image-classification", model=str(tmp_path / "hf"), image_processor=processor)
    theirs = classify(pictures)
    for ours, answers in zip(run.classify(pictures), theirs, strict=True):
        assert ours.label == answers[0]["label"]
        for answer in answers:
            assert abs(ours.probabilities[answer["label"]] - answer["score"]) < 1e-5


def test_labels_of_one_name_are_told_apart(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf", **FOLDERS["twelve labels, two of one name"])
    run = take(tmp_path / "hf", tmp_path / "run")
    assert run.recipe.task.names[3:8:4] == ("crane (3)", "crane (7)")
    assert any("crane (3), crane (7)" in note for note in certify_vit(run, tmp_path / "hf", "vit").notes)


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    ("model", "task"),
    [
        ({}, {}),
        ({"norm_eps": 1e-3, "feed_forward": "gelu_tanh", "bias": "outputs"}, {"filter": "bilinear"}),
        ({"position": "sinusoidal"}, {"resize": "crop_floor", "crop_share": 0.8}),
        ({"mean": (0.1, 0.2, 0.3), "deviation": (0.4, 0.5, 0.6)}, {"names": ("the ant", "the cow", "the zebra")}),
    ],
)
def test_a_run_of_our_own_answers_alike_in_a_pipeline(
    model: dict[str, Any], task: dict[str, Any], tmp_path: Path
) -> None:
    run = save_vit(tmp_path / "run", model, **task)
    export_folder(run, tmp_path / "out")
    certificate = certify_vit(run, tmp_path / "out", "vit")
    assert certificate.holds, certificate.text()


def test_a_certificate_notices_a_weight(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    run = take(tmp_path / "hf", tmp_path / "run")
    with torch.no_grad():
        weights_of(run.model)["reader.blocks.1.attention.to_keys.weight"][3, 5] += 0.5
    held = findings(run, tmp_path / "hf")
    assert not held["largest difference of logits of labels"]
    assert not held["largest difference of probabilities, from the file"]
    assert held["largest difference of pixels, of 255"]


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    "changed",
    [{"image_mean": [0.485, 0.456, 0.42]}, {"image_std": [0.229, 0.3, 0.225]}, {"resample": 2}],
    ids=["mean", "deviation", "filter"],
)
def test_a_certificate_notices_other_pixels(changed: dict[str, Any], tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    run = take(tmp_path / "hf", tmp_path / "run")
    change(tmp_path / "hf" / "preprocessor_config.json", **changed)
    held = findings(run, tmp_path / "hf")
    assert held["largest difference of logits of labels"]
    assert not held["largest difference of pixels, of 255"]


def test_a_certificate_notices_a_name(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    run = take(tmp_path / "hf", tmp_path / "run")
    change(tmp_path / "hf" / "config.json", id2label={"0": "zebra", "1": "cow", "2": "ant"})
    assert not findings(run, tmp_path / "hf")["share of identical names"]


def test_the_commands(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    answer = CliRunner().invoke(app, ["import", str(tmp_path / "hf"), "--run", str(tmp_path / "run")])
    assert answer.exit_code == 0, answer.output
    assert "holds  largest difference of probabilities, from the file" in answer.output
    answer = CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--to", "hf"])
    assert answer.exit_code == 0, answer.output
    assert json.loads((tmp_path / "out" / "certificate.json").read_text())["holds"]
    [path, *_] = write_pictures(tmp_path)
    answer = CliRunner().invoke(app, ["classify", str(tmp_path / "run"), str(path)])
    assert answer.output.split()[0] in NAMES


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_channels": 1}, "num_channels = 1 is not something"),
        ({"image_size": [32, 40]}, r"image_size must be a whole number .* of a square; got \[32, 40\]"),
        ({"patch_size": 7}, "images of 32 pixels are not whole patches of 7"),
        ({"image_size": 8192, "patch_size": 1}, r"67,108,864 patches .* more than these files hold"),
        ({"image_size": 10**12}, "image_size must be a whole number from 1 to 8,192"),
        ({"hidden_act": "quick_gelu"}, "unknown hidden_act 'quick_gelu'"),
        ({"head_dim": 5}, "head_dim = 5 is not hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be a whole number"),
        ({"hidden_size": 24}, r"vit\.embeddings\.cls_token is \(1, 1, 12\).* asks for \[\(24,\)\]"),
        ({"architectures": ["ViTModel"]}, "a ViTModel has no labels"),
        ({"architectures": ["ViTForMaskedImageModeling"]}, "a ViTForMaskedImageModeling has no labels"),
        ({"problem_type": "multi_label_classification"}, "one of several labels, not a number or several"),
        ({"id2label": {"0": "only"}}, "one of several labels, not a number or several"),
        ({"id2label": None, "num_labels": 10**9}, "num_labels must be a whole number from 1 to 1,048,576"),
    ],
)
def test_settings_that_regard_lacks_are_named(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    change(tmp_path / "hf" / "config.json", **settings)
    with pytest.raises(RegardError, match=message):
        take(tmp_path / "hf", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds", cases=3)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_processor_type": "CLIPImageProcessor"}, "image_processor_type = 'CLIPImageProcessor' is not known"),
        ({"do_resize": False}, "do_resize = false"),
        ({"do_rescale": False}, "do_rescale = false"),
        ({"rescale_factor": 1 / 127.5}, "rescale_factor = 0.00784314"),
        ({"resample": 0}, r"resample must be one of 2 \(bilinear\), 3 \(bicubic\), 1 \(lanczos\); got 0"),
        ({"size": 40}, "size makes images of 40 pixels, and the model reads 32"),
        ({"size": {"height": 32, "width": 40}}, "size = .* is something that regard lacks"),
        ({"size": {"longest_edge": 32}}, "size = .* is something that regard lacks"),
        ({"size": {"shortest_edge": 32}}, "do_center_crop = false is something that regard lacks"),
        ({"do_center_crop": True, "size": 40, "crop_size": 32}, "do_center_crop = true is something that regard lacks"),
        ({**CUT, "size": {"shortest_edge": 20}}, "do_center_crop = true is something that regard lacks"),
        ({**CUT, "crop_size": 30}, "crop_size makes images of 30 pixels"),
        ({"size": {"height": 10**9, "width": 10**9}}, "size must be a whole number from 1 to 8,192"),
        ({"do_pad": True}, "do_pad = True in preprocessor_config.json is something that regard lacks"),
        ({"image_mean": [0.5, 0.5]}, "image_mean must be a number or a list of three"),
        ({"image_std": [0.5, 0.0, 0.5]}, "deviation must be above 0"),
    ],
)
def test_preprocessing_that_regard_lacks_is_named(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_vit(tmp_path / "hf", settings)
    with pytest.raises(ConfigError, match=message):
        take(tmp_path / "hf", tmp_path / "run")


def test_files_that_are_missing_or_wrong_are_named(tmp_path: Path) -> None:
    model = make_vit(tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    turned = tensors | {"vit.embeddings.cls_token": tensors["vit.embeddings.cls_token"].reshape(12)}
    path.write_bytes(safetensors.torch.save(turned))
    with pytest.raises(RunError, match=r"vit\.embeddings\.cls_token is \(12,\)"):
        take(tmp_path / "hf", tmp_path / "run")
    path.write_bytes(safetensors.torch.save(tensors | {"vit.embeddings.register_tokens": torch.zeros(1, 4, 12)}))
    with pytest.raises(RunError, match=r"no place in regard's model, such as vit\.embeddings\.register_tokens"):
        take(tmp_path / "hf", tmp_path / "run")
    model.save_pretrained(tmp_path / "hf")
    (tmp_path / "hf" / "preprocessor_config.json").unlink()
    with pytest.raises(RunError, match=r"preprocessor_config\.json is missing"):
        take(tmp_path / "hf", tmp_path / "run")


def test_a_pooler_is_left_out_with_a_word(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    path = tmp_path / "hf" / "model.safetensors"
    pooler = {"vit.pooler.dense.weight": torch.zeros(12, 12), "vit.pooler.dense.bias": torch.zeros(12)}
    path.write_bytes(safetensors.torch.save(safetensors.torch.load(path.read_bytes()) | pooler, {"format": "pt"}))
    answer = CliRunner().invoke(app, ["import", str(tmp_path / "hf"), "--run", str(tmp_path / "run")])
    assert "skipped (not used by this task): vit.pooler.dense.bias, vit.pooler.dense.weight" in answer.output
    assert answer.exit_code == 0, answer.output


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    ("model", "task", "message"),
    [
        ({"convolutions": True}, {}, "vit needs model.convolutions = False"),
        ({"class_row": False}, {}, "vit needs model.class_row = True"),
        ({"position": "rotary", "n_heads": 2}, {}, "vit needs model.position = 'learned'"),
        ({"channels": 1}, {}, "vit needs model.channels = 3"),
        ({"bias": "none"}, {}, "vit needs model.bias = 'all' or 'outputs'"),
        ({"feed_forward": "swiglu"}, {}, "vit has no 'swiglu'"),
        ({}, {"pooling": "mean"}, "vit needs task.pooling = 'first'"),
        ({}, {"resize": "fit"}, "transformers needs task.resize = 'stretch' or 'crop_floor'"),
        ({}, {"resize": "crop"}, "change it in the run's recipe.toml to 'crop_floor'"),
        ({}, {"size": 24}, "task.size must be model.side . model.patch = 32, and this run has 24"),
    ],
)
def test_what_the_format_cannot_say_is_named(
    model: dict[str, Any], task: dict[str, Any], message: str, tmp_path: Path
) -> None:
    run = save_vit(tmp_path / "run", model, **task)
    with pytest.raises(ConfigError, match=message):
        export_folder(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_graphs_of_tokens_are_not_made_of_a_model_of_images(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="is a vit; ONNX graphs are made of"):
        write_graphs(save_vit(tmp_path / "run"), tmp_path / "out")


def test_the_processor_written_is_the_one_read(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    export_folder(take(tmp_path / "hf", tmp_path / "run"), tmp_path / "out")
    written = json.loads((tmp_path / "out" / "preprocessor_config.json").read_text())
    assert PROCESSOR.items() <= written.items()
    assert written["image_mean"] == MEAN


def test_training_goes_on_with_other_labels(tmp_path: Path) -> None:
    make_vit(tmp_path / "hf")
    tables = take(tmp_path / "hf", tmp_path / "run").recipe.tables()
    tables["data"] |= write_data("images", tmp_path / "data")
    tables["task"] |= {"labels": (), "names": ()}
    tables["training"] |= {"steps": 1}
    write_recipe(tables, tmp_path / "recipe.toml")
    order = ["train", str(tmp_path / "recipe.toml"), "--run", str(tmp_path / "new"), "--from", str(tmp_path / "run")]
    answer = CliRunner().invoke(app, order)
    assert answer.exit_code == 0, answer.output
    export_folder(run := regard.load(tmp_path / "new", "cpu"), tmp_path / "out")
    assert run.recipe.task.labels == ("bottom", "top")
    assert certify_vit(run, tmp_path / "out", "vit").holds
