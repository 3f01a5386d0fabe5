from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import is_color_like, to_rgb
from matplotlib.image import imread

from regard.errors import RegardError
from regard.viewer import picture, style
from regard.viewer.capture import Capture
from regard.viewer.encodings import PositionTable, lecture_table
from regard.viewer.kinds import KINDS
from regard.viewer.map_set import Map
from regard.viewer.plane import embeddings, mark_of, principal_plane

ODD = [
    "$\\alpha$",
    "$x",
    "_{}",
    "猫",
    "😀",
    "\ud800",
    "a\nb",
    "नमस्ते",
    " ",
    "",
    "</script>" * 9,
    "\uffff",
    "%s",
    "\\frac",
]


def is_drawn(path: Path) -> bool:
    """A PNG with something on it, not a blank sheet."""
    pixels = imread(path)
    return pixels.shape[0] > 50 and pixels.shape[1] > 50 and bool(pixels[..., :3].std() > 0.01)


def test_every_kind_has_its_hues() -> None:
    assert picture.HUES.keys() >= {name for name, kind in KINDS.items() if not kind.is_signed}
    assert all(is_color_like(color) for hues in picture.HUES.values() for color in hues)


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize("kind", KINDS)  # half a second each
def test_every_kind_has_its_colours(kind: str, tmp_path: Path) -> None:
    map = Map(kind=kind, layer=0, head=0, queries=ODD, keys=ODD, weights=np.eye(len(ODD)))
    picture.attention(map, tmp_path / "map.png")
    assert is_drawn(tmp_path / "map.png")


@pytest.mark.sampled("every case draws a picture of its own", cases=2)
@pytest.mark.parametrize("kind", ["cross", "cell"])  # weights, and numbers with a sign
def test_on_dark_paper_nothing_is_white(kind: str, tmp_path: Path) -> None:
    """What is 0 is the paper, as on light paper, and what is strong is lighter than it."""
    weights = np.array([[1.0, 0.0], [0.0, -1.0 if KINDS[kind].is_signed else 1.0]])
    map = Map(kind=kind, layer=0, head=0, queries=["a", "b"], keys=["a", "b"], weights=weights)
    picture.attention(map, tmp_path / "light.png")
    picture.attention(map, tmp_path / "dark.png", style.DARK)
    light, dark = (imread(tmp_path / f"{name}.png")[..., :3] for name in ("light", "dark"))
    paper = np.array(to_rgb(style.DARK.paper))
    assert light.shape == dark.shape
    assert np.allclose(dark[0, 0], paper, atol=0.01) and light[0, 0].min() == 1
    assert np.isclose(dark, paper, atol=0.01).all(-1).mean() > 0.5
    assert dark.mean() < 0.5 < light.mean()
    squares = np.abs(dark - paper).max(-1) > 0.3
    assert squares.mean() > 0.02 and dark[squares].mean() > paper.mean()


@pytest.mark.slow  # drawn by Matplotlib
def test_attention_draws_the_head_it_is_asked_for(capture: Capture, tmp_path: Path) -> None:
    for name, head in (("one", 0), ("same", 0), ("other", 1), ("mean", None)):
        picture.attention(capture.pick("encoder", layer=1, head=head), tmp_path / f"{name}.png")
    files = {path.stem: path.read_bytes() for path in tmp_path.iterdir()}
    assert files["one"] == files["same"]
    assert len(set(files.values())) == 3


def test_grid_of_all_heads(capture: Capture, tmp_path: Path) -> None:
    picture.grid(capture, tmp_path / "grid.png", "cross")
    assert is_drawn(tmp_path / "grid.png")
    with pytest.raises(RegardError, match="encoder, decoder, cross"):
        picture.grid(capture, tmp_path / "grid.png", "self")


@pytest.mark.slow  # drawn by Matplotlib, at its largest
@pytest.mark.parametrize("n", [300, pytest.param(1000, marks=pytest.mark.slow)])  # the names alone take seconds
def test_a_thousand_words(n: int, tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(n)]
    map = Map(kind="self", layer=0, head=0, queries=words, keys=words, weights=np.eye(n))
    picture.attention(map, tmp_path / "long.png")
    assert is_drawn(tmp_path / "long.png")


def test_one_word(tmp_path: Path) -> None:
    one = Map(kind="self", layer=0, head=0, queries=["a"], keys=["b"], weights=np.ones((1, 1)))
    picture.attention(one, tmp_path / "one.png")
    assert is_drawn(tmp_path / "one.png")


@pytest.mark.slow  # drawn by Matplotlib
def test_a_long_title_stays_within_a_narrow_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    blank = picture.blank
    monkeypatch.setattr(picture, "blank", lambda *size: figures.append(blank(*size)) or figures[-1])
    below = "the film is not bad → good (98.0%). " + "What each n-gram adds to the score of each label. " * 3
    gates = {"queries": list("letters"), "keys": ["forget", "update", "output"]}
    ngrams = {"queries": ["extraordinarily bad", "(bias)"], "keys": ["positive", "negative"]}
    for kind, names, says in (("gates", gates, "mean of directions"), ("vocabulary", ngrams, "for each label")):
        weights = np.full((len(names["queries"]), len(names["keys"])), 0.5)
        map = Map(kind=kind, layer=None, head=None, weights=weights, **names)
        picture.attention(map, tmp_path / "gates.png", below=below)
        figure = figures[-1]
        assert says in figure.get_suptitle().replace("\n", " ")
        words = figure.axes[0].get_yticklabels() + figure.axes[0].get_xticklabels()
        for text in (figure._suptitle, figure._supxlabel, *words):
            place = text.get_window_extent()
            assert place.x0 >= 0 and place.y0 >= 0, text
            assert place.x1 <= figure.bbox.x1 and place.y1 <= figure.bbox.y1, text
        top = figure._suptitle.get_window_extent().y0  # nothing stands over something else
        bottom = figure._supxlabel.get_window_extent().y1
        assert all(bottom <= word.get_window_extent().y0 and word.get_window_extent().y1 <= top for word in words)


def test_gates_are_shaded_to_1_and_weights_to_the_strongest() -> None:
    def top(kind: str, largest: float) -> float:
        map = Map(kind=kind, layer=0, head=0, queries=["a"], keys=["b"], weights=np.array([[largest]]))
        return picture.heat(style.blank(1, 1).add_subplot(), map).get_clim()[1]

    assert [top(kind, 0.25) for kind in ("gates", "forget", "candidate", "hidden")] == [1, 1, 1, 1]
    assert top("hidden", 2.5) == 2.5  # of ReLU
    assert [top(kind, 0.25) for kind in ("self", "cell", "ngrams")] == [0.25, 0.25, 0.25]


@pytest.mark.slow  # drawn by Matplotlib
def test_positions(tmp_path: Path) -> None:
    picture.positions([lecture_table()], tmp_path / "positions.png")
    assert is_drawn(tmp_path / "positions.png")
    biases = PositionTable("biases", -np.ones((2, 1)), "head", "distance", first_column=-1)
    picture.positions([lecture_table(), biases], tmp_path / "both.png")
    assert imread(tmp_path / "both.png").shape[1] == 2 * imread(tmp_path / "positions.png").shape[1]


def test_embeddings(tmp_path: Path) -> None:
    embeddings(np.random.default_rng(0).normal(size=(len(ODD), 5)), ODD, tmp_path / "words.png")
    assert is_drawn(tmp_path / "words.png")
    embeddings(np.ones((3, 1)), ["the", "same", "point"], tmp_path / "flat.png")
    with pytest.raises(RegardError, match="label for each"):
        embeddings(np.ones((3, 2)), ["a"], tmp_path / "words.png")


def test_principal_plane_keeps_distances_of_planar_points() -> None:
    random = np.random.default_rng(1)
    flat = random.normal(size=(20, 2)) * [5, 1]
    turned, _ = np.linalg.qr(random.normal(size=(7, 7)))
    points, shares = principal_plane(flat @ turned[:2] + 3)
    distances = lambda x: np.linalg.norm(x[:, None] - x[None], axis=-1)  # noqa: E731
    np.testing.assert_allclose(distances(points), distances(flat), atol=1e-9)
    assert shares[0] > shares[1] and shares.sum() == pytest.approx(1)


def test_letters_without_a_glyph_become_a_box() -> None:
    assert style.drawable("été $") == "été $"
    assert style.drawable("\U000f0000x") == "□x"


def test_more_classes_than_colors_have_other_shapes() -> None:
    marks = [mark_of(kind, style.LIGHT) for kind in range(3 * len(style.LIGHT.lines))]
    assert len(set(marks)) == len(marks)
