"""Pictures of images: what is drawn is the lit image itself, pixel by pixel."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from looked_at import captioned, hot, image
from matplotlib.axes import Axes
from matplotlib.image import imread

from regard.viewer import panels
from regard.viewer.capture import Capture


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, str]]:
    """Every image that is put on a sheet, and how it is enlarged."""
    put: list[tuple[np.ndarray, str]] = []
    inner = Axes.imshow

    def imshow(self: Axes, pixels: np.ndarray, interpolation: str) -> object:
        put.append((np.asarray(pixels), interpolation))
        return inner(self, pixels, interpolation=interpolation)

    monkeypatch.setattr(Axes, "imshow", imshow)
    return put


def check(drawn: list[tuple[np.ndarray, str]], expected: list[np.ndarray]) -> None:
    assert {how for _, how in drawn} == {"nearest"}
    for (found, _), wanted in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_image_stands_beside_its_look(drawn: list[tuple[np.ndarray, str]], tmp_path: Path) -> None:
    seen = image()
    capture = replace(hot(seen), query=seen.place(2, 1))
    panels.draw_looks(capture, capture.pick("self", 1, 0), tmp_path / "a.png")
    check(drawn, [seen.colors, seen.lit(np.eye(13)[seen.place(2, 1)])])
    assert imread(tmp_path / "a.png").std() > 0.01


def test_every_head_is_on_the_grid(drawn: list[tuple[np.ndarray, str]], tmp_path: Path) -> None:
    capture = hot(image())
    panels.draw_heads(capture, tmp_path / "a.png", "self")
    check(drawn, [image().lit(map.weights[0]) for map in capture.maps])


def test_every_word_has_its_panel(drawn: list[tuple[np.ndarray, str]], tmp_path: Path) -> None:
    seen = image(class_row=False)
    capture = captioned(seen)
    panels.draw_looks(capture, capture.pick("cross"), tmp_path / "a.png")
    check(drawn, [seen.colors, *(seen.lit(np.eye(12)[i]) for i in range(4))])


@pytest.mark.slow  # drawn by Matplotlib
def test_titles_are_text_and_never_formulas(tmp_path: Path) -> None:
    capture = captioned(image())
    odd = ["$\\alpha$", "$x", "😀", "\ud800"]
    maps = [replace(map, queries=odd) if map.kind == "cross" else map for map in capture.maps]
    hostile = Capture(title="$x_{}$.png → \\frac", maps=maps, image=capture.image)
    panels.draw_looks(hostile, hostile.pick("cross"), tmp_path / "a.png")
    panels.draw_heads(hostile, tmp_path / "b.png", "cross")
    panels.draw_sheet(["as it is"], ["$x_{}$.png"], [[image().pixels]], tmp_path / "c.png")
    assert len(list(tmp_path.iterdir())) == 3
