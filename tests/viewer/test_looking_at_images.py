"""`run.look` of readers of images: what was seen is the model's own, and rollout is the product of its layers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from looked_at import RESIDUAL, trained
from PIL import Image

from regard.errors import RegardError
from regard.nn.watch import watch
from regard.tasks.images.batches import read_patches
from regard.tasks.images.use import pixels_given
from regard.viewer.capture import Capture


def product(capture: Capture) -> np.ndarray:
    """Abnar and Zuidema's equation, by numpy alone."""
    n = len(capture.maps[0].keys)
    result = np.eye(n)
    for layer in capture.layers("self"):
        mean = sum(map.weights for map in capture.maps if (map.kind, map.layer) == ("self", layer)) / 2
        result = (0.5 * mean + 0.5 * np.eye(n)) @ result
    return result


@pytest.mark.parametrize("class_row", [True, False])
def test_a_vit_shows_every_head_the_rollout_and_what_it_saw(class_row: bool, tmp_path: Path) -> None:
    run = trained(tmp_path, class_row=class_row)
    capture = run.look(tmp_path / "1.png")
    assert capture.kinds == ["self", "rollout"] and capture.layers("self") == [0, 1, 2]
    assert capture.heads("self") == [0, 1]
    image = capture.image
    assert image is not None and image.shape == (3, 4) and len(image.names) == 12 + class_row
    pixels = np.asarray(Image.open(tmp_path / "1.png"))
    np.testing.assert_array_equal(image.pixels, np.pad(pixels, [(0, 2), (0, 2), (0, 0)], mode="edge"))
    rollout = capture.pick("rollout").weights
    np.testing.assert_allclose(rollout, product(capture), atol=1e-6)
    np.testing.assert_allclose(rollout.sum(1), 1, atol=1e-5)
    answer = run.classify(str(tmp_path / "1.png"))
    assert capture.title == f"1.png → {answer.label} ({answer.probability:.1%})"


def test_the_weights_are_those_that_make_the_output(tmp_path: Path) -> None:
    run = trained(tmp_path)
    capture = run.look(str(tmp_path / "1.png"))
    patches, layout = read_patches(pixels_given([tmp_path / "1.png"], run.task.config, run.task.grid), run.task.grid)
    with torch.no_grad(), watch(run.model) as seen:
        run.model(patches, layout)
    for sighting in seen.sightings:
        assert sighting.error < 1e-5  # weights @ values is what the layer gave
        for head in sighting.heads:
            found = capture.pick("self", sighting.layer, head).weights
            np.testing.assert_array_equal(found, sighting.head(head)[0].numpy())


def test_a_path_an_image_an_array_and_a_tensor_are_seen_alike(tmp_path: Path) -> None:
    run = trained(tmp_path)
    opened = Image.open(tmp_path / "0.png")
    array = np.asarray(opened)
    pictures = [tmp_path / "0.png", opened, array, torch.from_numpy(array.copy()).permute(2, 0, 1), [array]]
    first, *others = [run.look(picture) for picture in pictures]
    for other in others:
        np.testing.assert_array_equal(other.pick("rollout").weights, first.pick("rollout").weights)
        assert other.title.startswith("an image → ")


def test_rollout_needs_all_layers_and_heads(tmp_path: Path) -> None:
    run = trained(tmp_path)
    path = str(tmp_path / "0.png")
    assert run.look(path, layers=[0, 1]).kinds == run.look(path, heads=[1]).kinds == ["self"]
    assert run.look(path, layers=[0, 1, 2], heads=[0, 1]).kinds == ["self", "rollout"]
    [one] = run.look(path, layers=[1], heads=[0], vectors=True).maps
    assert one.value_vectors is not None and one.value_vectors.shape[0] == 13


def test_what_cannot_be_looked_at(tmp_path: Path) -> None:
    run = trained(tmp_path / "vit")
    picture = str(tmp_path / "vit" / "0.png")
    for arguments, message in (
        ({"source": picture, "target": "a"}, "one image: give the image, and no target"),
        ({"source": ""}, "one image: give the image"),
        ({"source": picture, "layers": [3]}, "there is no layer 3; the model has 3"),
        ({"source": [picture, picture]}, "look at one at a time, not at 2"),
        ({"source": str(tmp_path / "none.png")}, "no file"),
        ({"source": 3}, "expected an image or a list of images, got int"),
        ({"source": np.zeros((40, 8, 3), np.uint8)}, "image 0 is larger than the 16 pixels"),
    ):
        with pytest.raises(RegardError, match=message):
            run.look(**arguments)  # type: ignore[arg-type]
    with pytest.raises(RegardError, match="no attention to look at; a stack, a vit"):
        trained(tmp_path / "residual", RESIDUAL, class_row=False).look(picture)
