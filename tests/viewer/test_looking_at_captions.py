"""`run.look` of captioners: for each word, where on the image the model looks as it writes it."""

import io
from pathlib import Path

import numpy as np
import pytest
from looked_at import CAPTIONERS, captioner
from PIL import Image
from rich.console import Console

from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.training.prepare import prepare
from regard.viewer import half_blocks, page, panels
from regard.viewer.capture import Capture


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize("architecture", CAPTIONERS)
def test_every_word_looks_at_the_patches_of_the_image(architecture: str, tmp_path: Path) -> None:
    run = captioner(tmp_path, architecture)
    capture = run.look(tmp_path / "0.png", "a dog runs")
    assert capture.title == "0.png → a dog runs" and "cross" in capture.kinds
    image = capture.image
    assert image is not None and image.shape == (3, 4)
    pixels = np.asarray(Image.open(tmp_path / "0.png"))
    np.testing.assert_array_equal(image.pixels[:10, :14], pixels)
    cross = capture.pick("cross")
    assert cross.queries == ["a", "dog", "runs", "</s>"] and cross.keys == image.names
    np.testing.assert_allclose(cross.weights.sum(1), 1, atol=1e-5)
    assert [name for name, _ in capture.looks(cross)] == cross.queries
    back = Capture.from_json(capture.to_json())
    assert back.image is not None and np.array_equal(back.image.pixels, image.pixels)


def test_words_change_where_they_look_but_not_what_stands_before_them(tmp_path: Path) -> None:
    """The look of a word depends on the words before it alone."""
    run = captioner(tmp_path, "image-transformer")
    one, other = (run.look(tmp_path / "0.png", text).pick("cross").weights for text in ("a dog runs", "a dog on the"))
    np.testing.assert_allclose(one[:3], other[:3], atol=1e-6)  # row t looks as it writes word t, having read t - 1
    assert not np.allclose(one[3], other[3], atol=1e-6)


@pytest.mark.sampled("every case draws or reads a page of its own")
@pytest.mark.parametrize("architecture", CAPTIONERS)
def test_all_views_show_a_picture_for_each_word(architecture: str, tmp_path: Path) -> None:
    run = captioner(tmp_path, architecture)
    capture = run.look(tmp_path / "0.png", "a dog runs")
    cross = capture.pick("cross")
    stream = io.StringIO()
    half_blocks.show(capture, cross, Console(file=stream, width=110))
    assert any(line.split()[::3] == ["a", "dog", "runs", "</s>"] for line in stream.getvalue().splitlines())
    panels.draw_looks(capture, cross, tmp_path / "words.png")
    panels.draw_heads(capture, tmp_path / "heads.png", "cross")
    assert '"patches":["keys"]' in page.page(capture) and "img-src data:" in page.page(capture)


def test_its_own_caption_and_mistakes(tmp_path: Path) -> None:
    run = captioner(tmp_path, "image-transformer")
    caption = run.caption(str(tmp_path / "0.png"))
    assert caption.text and run.look(tmp_path / "0.png").title == f"0.png → {caption.text}"
    with pytest.raises(RegardError, match="give one"):
        run.look("")


@pytest.mark.slow  # drawn by Matplotlib
def test_the_doctor_draws_captioned_images_too(tmp_path: Path) -> None:
    captioner(tmp_path, "image-transformer")
    task = prepare(Recipe.read(str(tmp_path / "recipe.toml")), tmp_path / "again").task
    task.draw_examples(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000
