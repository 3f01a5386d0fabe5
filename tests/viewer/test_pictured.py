"""An image in a capture: its patches by name, its pixels lit by weights, and all of it as JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest
from looked_at import captioned, hot, image

from regard.errors import RegardError
from regard.viewer.capture import Capture
from regard.viewer.kinds import KINDS, OF_IMAGES
from regard.viewer.map_set import Map
from regard.viewer.pictured import FADED, HUE, TINTED, Pictured


@pytest.mark.parametrize("class_row", [True, False])
def test_every_patch_has_a_name_a_place_and_its_pixels(class_row: bool) -> None:
    seen = image(class_row)
    assert seen.names[0] == ("[CLASS]" if class_row else "0,0") and seen.names[-1] == "2,3"
    is_covered = np.zeros(seen.pixels.shape[:2], int)
    for row, column in np.ndindex(3, 4):
        place = seen.place(row, column)
        assert seen.names[place] == f"{row},{column}"
        square = seen.square(place)
        assert square is not None
        is_covered[square] += 1
    assert (is_covered == 1).all()
    assert (seen.square(0) is None) == class_row
    with pytest.raises(RegardError, match=r"no patch 3,0; the image has 3 x 4"):
        seen.place(3, 0)


@pytest.mark.parametrize("class_row", [True, False])
@pytest.mark.parametrize("channels", [1, 3])
def test_one_hot_patch_tints_exactly_its_pixels(class_row: bool, channels: int) -> None:
    seen = Pictured(image().pixels[..., :channels].copy(), 2, class_row)
    weights = np.zeros(len(seen.names))
    weights[seen.place(1, 2)] = 0.3
    lit = seen.lit(weights)
    dark = np.rint(seen.colors * (1 - FADED))
    is_changed = (lit != dark).any(axis=2)
    expected = np.zeros_like(is_changed)
    expected[2:4, 4:6] = True
    np.testing.assert_array_equal(is_changed, expected)
    tinted = (1 - TINTED) * seen.colors[2:4, 4:6] + TINTED * np.array(HUE)
    np.testing.assert_allclose(lit[2:4, 4:6], tinted, atol=0.51)


def test_what_the_class_row_gives_itself_is_not_on_the_image() -> None:
    seen = image()
    weights = np.full(len(seen.names), 0.01)
    with_own = weights.copy()
    with_own[0] = 0.9
    np.testing.assert_array_equal(seen.lit(weights), seen.lit(with_own))
    assert seen.strongest(with_own, 2) == [("0,0", 0.01), ("0,1", 0.01), ("[CLASS]", 0.9)]


def test_json_brings_the_image_back() -> None:
    for capture in (hot(image()), captioned(image(class_row=False))):
        back = Capture.from_json(capture.to_json())
        assert capture.image is not None and back.image is not None and back.query is None
        np.testing.assert_array_equal(back.image.pixels, capture.image.pixels)
        assert (back.image.patch, back.image.class_row) == (2, capture.image.class_row)
        assert back.looks(back.maps[-1])[0][0] == capture.looks(capture.maps[-1])[0][0]


def test_json_of_an_earlier_version_has_no_image(capture: Capture) -> None:
    read = json.loads(capture.to_json())
    del read["image"], read["query"]
    back = Capture.from_json(json.dumps(read))
    assert back.image is None and back.query is None


@pytest.mark.parametrize("change", [{"png": "AAAA"}, {"png": "!"}, {"patch": 5}, {"patch": "2"}, {"channels": 2}, {}])
def test_json_with_another_image_is_refused(change: dict[str, object]) -> None:
    read = json.loads(hot(image()).to_json())
    read["image"] = read["image"] | change if change else {"png": ""}
    with pytest.raises(RegardError):
        Capture.from_json(json.dumps(read))


def test_a_map_that_does_not_fit_the_image_is_refused() -> None:
    map = Map(kind="self", layer=0, head=0, queries=["a"], keys=["a"], weights=np.ones((1, 1)))
    with pytest.raises(RegardError, match="the image has 13 rows, the queries 1"):
        Capture(title="", maps=[map], image=image())


def test_whose_look_is_shown() -> None:
    capture = hot(image())
    head = capture.pick("self", 1, 0)
    assert capture.look_of(head)[0] == "[CLASS]" and capture.look_of(head)[1].argmax() == image().place(1, 2)
    chosen = replace(capture, query=image().place(2, 0))
    assert chosen.look_of(head)[0] == "patch 2,0" and chosen.look_of(head)[1].argmax() == image().place(2, 0)
    plain = hot(image(class_row=False))
    name, weights = plain.look_of(plain.pick("self"))
    assert name == "mean of all patches"
    np.testing.assert_allclose(weights, plain.pick("self").weights.mean(0))
    words = captioned(image())
    assert [name for name, _ in words.looks(words.pick("cross"))] == ["a", "dog", "runs", "</s>"]
    assert words.look_of(words.pick("cross"))[0] == "mean of all words"


def test_kinds_of_images_are_those_of_texts() -> None:
    assert set(OF_IMAGES) == set(KINDS)
    assert all(OF_IMAGES[name].title == KINDS[name].title for name in KINDS)
    assert not any(kind.patches for kind in KINDS.values())
