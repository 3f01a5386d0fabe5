"""Images in the terminal: half blocks where there are colors, shades where there are none."""

import io
import re

import numpy as np
import pytest
from looked_at import captioned, hot, image
from rich.console import Console

from regard.viewer import half_blocks
from regard.viewer.capture import Capture
from regard.viewer.map_set import Map


def printed(capture: Capture, map: Map, width: int = 80, colors: bool = True) -> list[str]:
    stream = io.StringIO()
    system = "truecolor" if colors else None
    half_blocks.show(capture, map, Console(file=stream, width=width, color_system=system, force_terminal=colors))
    return stream.getvalue().splitlines()


def plain(line: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", line)


@pytest.mark.parametrize(("width", "enlarged"), [(80, 8), (40, 5), (8, 1)])
def test_an_image_fills_the_width_in_whole_pixels(width: int, enlarged: int) -> None:
    capture = hot(image())  # 6 x 8 pixels
    lines = [plain(line) for line in printed(capture, capture.pick("self", 1, 0), width)]
    blocks = [line for line in lines if "▀" in line]
    assert [line.count("▀") for line in blocks] == [8 * enlarged] * (6 * enlarged // 2)
    assert all(len(line) <= width for line in lines)


def test_a_large_image_is_reduced_to_the_width() -> None:
    capture = hot(image(rows=10, columns=20, patch=16))  # 160 x 320 pixels
    for width in (64, 33):
        blocks = [plain(line) for line in printed(capture, capture.pick("self"), width) if "▀" in line]
        assert {len(line) for line in blocks} == {width} and len(blocks) == -(-round(width / 2) // 2)


def test_the_colors_are_those_of_the_lit_image() -> None:
    capture = hot(image())
    map = capture.pick("self", 1, 0)
    [(_, weights)] = capture.looks(map)
    lit = image().lit(weights)
    first = next(line for line in printed(capture, map, width=8) if "▀" in line)
    colors = [[int(n) for n in found] for found in re.findall(r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m", first)]
    np.testing.assert_array_equal(colors, np.concatenate([lit[0], lit[1]], axis=1))


def test_an_odd_height_ends_with_half_a_line() -> None:
    lines = half_blocks.colored(np.zeros((3, 4, 3), np.uint8), width=4)
    assert [line.plain for line in lines] == ["▀▀▀▀"] * 2
    assert " on " in str(lines[0].spans[0].style) and " on " not in str(lines[1].spans[0].style)


def test_pipes_get_shades_of_the_patches() -> None:
    capture = hot(image())
    lines = printed(capture, capture.pick("self", 1, 0), colors=False)
    assert not any("\x1b" in line or "▀" in line for line in lines)
    start = lines.index("[CLASS]  1,2 100%") + 1
    assert lines[start : start + 3] == [" " * 8, "    ██  ", " " * 8]
    assert lines[-1] == "row,column:   1,2 100%   0,0 0%   0,1 0%   0,2 0%   0,3 0%   [CLASS] 0%"


@pytest.mark.parametrize("colors", [True, False])
def test_every_word_has_its_picture(colors: bool) -> None:
    capture = captioned(image())
    lines = [plain(line) for line in printed(capture, capture.pick("cross"), width=52, colors=colors)]
    rows = ["a  0,0 100%               dog  0,1 100%", "runs  0,2 100%            </s>  0,3 100%"]
    assert [line for line in lines if "100%" in line] == rows  # two pictures in a row, as the width has room for
    assert all(len(line) <= 52 for line in lines)
    if not colors:  # word i looks at patch 0,i
        top = lines[lines.index(rows[0]) + 1]
        assert top.index("██") == 0 and top.rindex("██") == 26 + 2
