"""Vision Transformers of timm, in and out.  What needs timm itself is skipped where it is not installed."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import regard
from regard.__main__ import app
from regard.errors import ConfigError, MissingLibrary, RegardError, RunError
from regard.interop.certifying.image_tools import certify_vit
from regard.interop.exporting import export_folder, export_to_timm
from regard.interop.families.timm import NAME, SIZES
from regard.runs.recipe import Recipe
from tests.interop.small_runs import save_writer
from tests.interop.tiny_vit import NAMES, make_timm, save_vit, stir, take, timm_settings

FOLDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "large patches, no biases on inputs": {"patch_size": 16, "qkv_bias": False, "depth": 1},
    "tanh, one head": {"act_layer": "gelu_tanh", "num_heads": 1},
    "the mean of all rows": {"class_token": False, "global_pool": "avg", "fc_norm": False},
}
SQUASHED = {"crop_mode": "squash", "crop_pct": 1.0}


def change(folder: Path, **settings: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def given(**settings: Any) -> dict[str, Any]:
    return timm_settings()["pretrained_cfg"] | settings


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", FOLDERS)
def test_in_and_out_again_with_the_same_weights_bit_for_bit(name: str, tmp_path: Path) -> None:
    make_timm(tmp_path / "timm", **FOLDERS[name])
    run = take(tmp_path / "timm", tmp_path / "run")
    assert run.recipe.task.names == NAMES
    export_to_timm(run, tmp_path / "out")
    before, after = (
        safetensors.torch.load((tmp_path / place / "model.safetensors").read_bytes()) for place in ("timm", "out")
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = take(tmp_path / "out", tmp_path / "again")
    assert again.recipe.model == run.recipe.model
    assert again.recipe.task == run.recipe.task


def test_from_timm_to_transformers(tmp_path: Path) -> None:
    make_timm(tmp_path / "timm")
    change(tmp_path / "timm", pretrained_cfg=given(**SQUASHED))
    run = take(tmp_path / "timm", tmp_path / "run")
    export_folder(run, tmp_path / "hf")
    certificate = certify_vit(run, tmp_path / "hf", "vit")
    assert certificate.holds, certificate.text()


@pytest.mark.parametrize("name", FOLDERS)
def test_an_imported_folder_answers_as_timm_does(name: str, tmp_path: Path) -> None:
    pytest.importorskip("timm")
    make_timm(tmp_path / "timm", **FOLDERS[name])
    for changes in ({}, SQUASHED, {"interpolation": "bilinear", "crop_pct": 0.95}):
        change(tmp_path / "timm", pretrained_cfg=given(**changes))
        run = take(tmp_path / "timm", tmp_path / f"run{len(list(tmp_path.iterdir()))}")
        certificate = certify_vit(run, tmp_path / "timm", "timm")
        assert certificate.holds, certificate.text()


def test_a_folder_that_timm_saved(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    sizes = {"embed_dim": 24, "depth": 2, "num_heads": 3}
    given = {"input_size": (3, 32, 32), "label_names": list(NAMES)}
    model = timm.create_model("vit_small_patch16_224", num_classes=3, pretrained_cfg_overlay=given, **sizes).eval()
    stir(model)
    timm.models.save_for_hf(model, tmp_path / "timm", model_args=sizes, safe_serialization=True)
    answer = CliRunner().invoke(app, ["import", str(tmp_path / "timm"), "--run", str(tmp_path / "run")])
    assert answer.exit_code == 0, answer.output
    assert regard.load(tmp_path / "run").recipe.task.names == NAMES


@pytest.mark.parametrize("size", SIZES)
def test_the_sizes_are_those_of_timm(size: str) -> None:
    timm = pytest.importorskip("timm")
    name = next(name for name in timm.list_models(f"vit_{size}_*") if NAME.fullmatch(name))
    with torch.device("meta"):
        model = timm.create_model(name)
    own, block = SIZES[size], model.blocks[0]
    d_ff = block.mlp.fc1.out_features
    assert (model.embed_dim, len(model.blocks), block.attn.num_heads) == own[:3]
    assert int(own.d_model * own.ratio) == d_ff


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ({}, {}),
        ({"norm_eps": 1e-3, "bias": "outputs", "d_ff": 23}, {"resize": "crop", "crop_share": 0.85}),
        ({"class_row": False, "position": "sinusoidal"}, {"pooling": "mean", "filter": "lanczos"}),
    ],
)
def test_a_run_of_our_own_answers_alike_in_timm(model: dict[str, Any], task: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("timm")
    run = save_vit(tmp_path / "run", model, **task)
    export_to_timm(run, tmp_path / "out")
    certificate = certify_vit(run, tmp_path / "out", "timm")
    assert certificate.holds, certificate.text()


@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-12])
def test_norms_with_another_number_are_written_as_an_equal_model(eps: float, tmp_path: Path) -> None:
    run = save_vit(tmp_path / "run", {"norm_eps": eps})
    export_to_timm(run, tmp_path / "out")
    again = take(tmp_path / "out", tmp_path / "again")
    assert again.recipe.model.norm_eps == 1e-6
    image = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0))
    ours, theirs = (list(each.classify(image).probabilities.values()) for each in (run, again))
    assert torch.allclose(torch.tensor(ours), torch.tensor(theirs), atol=1e-5)


def test_a_certificate_notices_a_weight_and_the_mean(tmp_path: Path) -> None:
    pytest.importorskip("timm")
    make_timm(tmp_path / "timm")
    run = take(tmp_path / "timm", tmp_path / "run")
    change(tmp_path / "timm", pretrained_cfg=given(mean=[0.485, 0.456, 0.42]))
    held = {finding.what: finding.holds for finding in certify_vit(run, tmp_path / "timm", "timm").findings}
    assert held["largest difference of logits of labels"]
    assert not held["largest difference of pixels, of 255"]
    path = tmp_path / "timm" / "model.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    tensors["blocks.1.attn.qkv.weight"][3, 5] += 0.5
    path.write_bytes(safetensors.torch.save(tensors))
    held = {finding.what: finding.holds for finding in certify_vit(run, tmp_path / "timm", "timm").findings}
    assert not held["largest difference of logits of labels"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reg_tokens": 4}, "reg_tokens = 4 is not something"),
        ({"qk_norm": True}, "qk_norm = True is not something"),
        ({"init_values": 1e-5}, "init_values = 1e-05 is not something"),
        ({"pre_norm": True}, "pre_norm = True is not something"),
        ({"dynamic_img_size": True}, "dynamic_img_size = True is not something"),
        ({"in_chans": 1}, "in_chans = 1 is not something"),
        ({"norm_layer": "rmsnorm"}, "model_args.norm_layer is something that regard lacks"),
        ({"act_layer": "quickgelu"}, "unknown act_layer 'quickgelu'"),
        ({"global_pool": "map"}, "global_pool = 'map' is something that regard lacks"),
        ({"global_pool": "avg"}, "fc_norm, a norm after the pooling, is something that regard lacks"),
        ({"global_pool": "avg", "fc_norm": False}, "global_pool = 'avg' with class_token = True"),
        ({"img_size": 40}, r"input_size in pretrained_cfg must be \[3, 40, 40\]"),
        ({"mlp_ratio": 1e300}, "mlp_ratio must be above 0 and fit these files"),
        ({"num_heads": 10**9}, "num_heads must be a whole number"),
        ({"num_classes": 1}, "num_classes = 1: regard reads a ViT that gives one of several labels"),
    ],
)
def test_arguments_that_regard_lacks_are_named(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_timm(tmp_path / "timm")
    change(tmp_path / "timm", model_args=timm_settings()["model_args"] | arguments)
    with pytest.raises(ConfigError, match=message):
        take(tmp_path / "timm", tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": "resnet50"}, "'resnet50' is not a plain ViT of timm that regard knows"),
        ({"architecture": "vit_base_patch16_clip_224"}, "'vit_base_patch16_clip_224' is not a plain ViT"),
        ({"architecture": "vit_base_patch16_224_miil"}, "is not a plain ViT"),
        ({"architecture": None}, "is not a plain ViT"),
        ({"pretrained_cfg": None}, "has no table pretrained_cfg"),
        ({"pretrained_cfg": given(crop_mode="border")}, "unknown crop_mode 'border'"),
        ({"pretrained_cfg": given(crop_mode="squash")}, "crop_mode = 'squash' with crop_pct = 0.9"),
        ({"pretrained_cfg": given(crop_pct=1.1)}, "crop_pct must be above 0 and at most 1"),
        ({"pretrained_cfg": given(interpolation="random")}, "unknown interpolation 'random'"),
        ({"pretrained_cfg": given(std=[0, 1])}, "std must be a number or a list of three"),
        ({"label_names": ["a", "b"]}, "label_names must be 3 names"),
        ({"num_classes": 10**9}, "num_classes must be a whole number"),
        ({"model_args": {}}, r"input_size in pretrained_cfg must be|cls_token is|lacks"),
    ],
)
def test_settings_that_regard_lacks_are_named(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_timm(tmp_path / "timm")
    change(tmp_path / "timm", **settings)
    with pytest.raises(RegardError, match=message):
        take(tmp_path / "timm", tmp_path / "run")


@pytest.mark.parametrize("name", ["reg_token", "blocks.0.ls1.gamma", "blocks.1.attn.q_norm.weight", "fc_norm.weight"])
def test_tensors_of_other_models_are_named(name: str, tmp_path: Path) -> None:
    make_timm(tmp_path / "timm")
    path = tmp_path / "timm" / "model.safetensors"
    path.write_bytes(safetensors.torch.save(safetensors.torch.load(path.read_bytes()) | {name: torch.ones(12)}))
    with pytest.raises(RunError, match=f"no place in regard's model, such as {name}"):
        take(tmp_path / "timm", tmp_path / "run")


def test_a_bare_state_dict_does_not_say_enough(tmp_path: Path) -> None:
    make_timm(tmp_path / "timm")
    with pytest.raises(RunError, match=r"their shapes do not say how many heads there are, nor how pixels are made"):
        take(tmp_path / "timm" / "model.safetensors", tmp_path / "run")


@pytest.mark.parametrize(
    ("model", "task", "message"),
    [
        ({"convolutions": True}, {}, "timm needs model.convolutions = False"),
        ({}, {"pooling": "mean"}, "this run has task.pooling = 'mean' with model.class_row = true"),
        ({}, {"pooling": "max"}, "this run has task.pooling = 'max'"),
        ({}, {"resize": "crop_floor"}, "timm needs task.resize = 'stretch' or 'crop', .* to 'crop'"),
        ({"bias": "inputs"}, {}, "timm needs model.bias = 'all' or 'outputs'"),
        ({"feed_forward": "geglu"}, {}, "timm has no 'geglu'"),
    ],
)
def test_what_timm_cannot_say_is_named(
    model: dict[str, Any], task: dict[str, Any], message: str, tmp_path: Path
) -> None:
    run = save_vit(tmp_path / "run", model, **task)
    with pytest.raises(ConfigError, match=message):
        export_to_timm(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_of_text_is_not_for_timm(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"timm has models of images, and .* is a stack, not a vit"):
        export_to_timm(save_writer(tmp_path / "run"), tmp_path / "out")


def test_without_timm_a_folder_is_written_without_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise MissingLibrary("timm is not installed, and this needs it: pip install 'regard[timm]'")

    monkeypatch.setattr("regard.interop.certifying.image_tools.need", missing)
    make_timm(tmp_path / "timm")
    answer = CliRunner().invoke(app, ["import", str(tmp_path / "timm"), "--run", str(tmp_path / "run")])
    assert (answer.exit_code, "no certificate was written: timm is not installed" in answer.output) == (0, True)
    answer = CliRunner().invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "out"), "--to", "timm"])
    assert (answer.exit_code, "no certificate was written: timm is not installed" in answer.output) == (0, True)
    assert Recipe.of_run(tmp_path / "run").architecture == "vit"
    assert (tmp_path / "out" / "model.safetensors").is_file()
