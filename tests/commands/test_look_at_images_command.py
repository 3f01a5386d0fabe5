"""`regard look` at an image, and the doctor's picture of what augmentation does to images."""

from pathlib import Path

import numpy as np
import pytest
from calling import Call, call
from PIL import Image

PNG = b"\x89PNG"
RECIPE = """
[task]
kind = "images"
pooling = "first"
shift = 2
flip = 0.5
[data]
root = "{root}"
train = ["train.csv"]
columns = ["path", "label"]
batch_tokens = 64
[model]
architecture = "{architecture}"
{settings}
[training]
steps = 2
"""
MODELS = {
    "vit": "patch = 4\nside = 3\nd_model = 16\nn_heads = 2\nn_layers = 2\nd_ff = 16",
    "residual": "patch = 4\nside = 3\nd_model = 32\nn_blocks = 1",
}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten images of 8 x 12 pixels, two recipes, and a run of each."""
    place = tmp_path_factory.mktemp("shapes")
    for i in range(10):
        pixels = np.random.default_rng(i).integers(0, 100, (8, 12, 3)).astype(np.uint8)
        pixels[:, : 6 * (i % 2)] += np.uint8(120)
        Image.fromarray(pixels).save(place / f"{i}.png")
    rows = "".join(f"{i}.png,{'left' if i % 2 else 'none'}\n" for i in range(10))
    (place / "train.csv").write_text(f"path,label\n{rows}", encoding="utf-8")
    for architecture, settings in MODELS.items():
        text = RECIPE.format(root=place, architecture=architecture, settings=settings)
        (place / f"{architecture}.toml").write_text(text, encoding="utf-8")
        trained = call(place, "train", f"{architecture}.toml", "--run", architecture, "--device", "cpu")
        assert trained.code == 0, trained.err
    return place


def test_look_at_an_image_in_the_terminal(shapes: Path, regard: Call) -> None:
    shown = regard("look", shapes / "vit", shapes / "3.png", "--device", "cpu")
    assert shown.code == 0, shown.err
    assert shown.out.startswith("3.png → ") and "Self-attention, mean of layers, mean of heads\n" in shown.out
    assert "\n[CLASS]  " in shown.out and "row,column:" in shown.out and "\x1b" not in shown.out
    patch = regard("look", shapes / "vit", shapes / "3.png", "--patch", "1,2", "--layer", "1", "--head", "0")
    assert patch.code == 0 and "\npatch 1,2  " in patch.out and "layer 1, head 0" in patch.out
    rollout = regard("look", shapes / "vit", shapes / "3.png", "--kind", "rollout", "--terminal")
    assert rollout.code == 0 and "Attention rollout\n" in rollout.out and rollout.out != shown.out


@pytest.mark.slow  # drawn by Matplotlib
def test_pictures_and_pages_of_images(shapes: Path, regard: Call, tmp_path: Path) -> None:
    asked: dict[str, tuple[str, ...]] = {
        "one": (),
        "patch": ("--patch", "0,0"),
        "head": ("--layer", "0", "--head", "1"),
        "grid": ("--grid",),
        "rollout": ("--kind", "rollout"),
    }
    for name, options in asked.items():
        drawn = regard("look", shapes / "vit", shapes / "3.png", *options, "--png", f"{name}.png")
        assert drawn.code == 0 and drawn.out.startswith(f"{name}.png: "), drawn.err
    files = [(tmp_path / f"{name}.png").read_bytes() for name in asked]
    assert all(file.startswith(PNG) for file in files) and len(set(files)) == len(asked)
    options = ("--patch", "1,0", "--kind", "self", "--layer", "1")
    assert regard("look", shapes / "vit", shapes / "3.png", *options, "--html", "a.html").code == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '"opens":{"kind":"self","layer":1,"head":null},"query":4,' in page and "img-src data:" in page


@pytest.mark.parametrize(
    ("run", "options", "code", "message"),
    [
        ("vit", ("3.png", "--patch", "2,0"), 1, "no patch 2,0; the image has 2 x 3, counted from 0,0"),
        ("vit", ("3.png", "--patch", "one"), 2, "a row and a column, such as 2,3"),
        ("vit", ("3.png", "--kind", "rollout", "--layer", "0"), 1, "leave out --layer and --head"),
        ("vit", ("3.png", "--kind", "cross"), 1, "no map of kind 'cross'"),
        ("vit", ("3.png", "--target", "left"), 1, "give the image, and no target"),
        ("vit", ("train.csv",), 1, "train.csv"),
        ("vit", (), 1, "this run reads one image"),
        ("residual", ("3.png",), 1, "no attention to look at"),
    ],
)
def test_what_cannot_be_looked_at(
    run: str, options: tuple[str, ...], code: int, message: str, shapes: Path, regard: Call
) -> None:
    places = [str(shapes / option) if "." in option else option for option in options]
    refused = regard("look", shapes / run, *places, "--device", "cpu")
    assert refused.code == code and message in " ".join(refused.err.split()), refused.err


def test_patches_are_for_images(lab: Path, regard: Call) -> None:
    refused = regard("look", lab / "one", "The dog.", "--patch", "0,0", "--device", "cpu")
    assert refused.code == 1 and "--patch is for runs that read images" in refused.err


@pytest.mark.slow  # two whole doctors with pictures; tests/tasks/images/test_changes.py draws the sheet
def test_the_doctor_draws_what_augmentation_does(shapes: Path, regard: Call, tmp_path: Path) -> None:
    options = ("--seconds", "0", "--device", "cpu")
    told = regard("doctor", shapes / "vit.toml", "--picture", "a.png", *options)
    assert told.code == 0 and "a.png: training images" in told.out, told.err
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)
    still = ("--set", "task.shift=0", "--set", "task.flip=0")
    assert regard("doctor", shapes / "vit.toml", "--picture", "b.png", *still, *options).code == 0
    assert (tmp_path / "b.png").read_bytes() != (tmp_path / "a.png").read_bytes()


@pytest.mark.slow  # a whole doctor
def test_the_doctor_has_no_picture_of_texts(lab: Path, regard: Call, tmp_path: Path) -> None:
    refused = regard("doctor", lab / "tiny.toml", "--picture", "a.png", "--seconds", "0", "--device", "cpu")
    assert refused.code == 1 and "no picture of its examples" in refused.err and list(tmp_path.iterdir()) == []
