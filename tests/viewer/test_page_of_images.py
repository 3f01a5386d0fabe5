"""The page of an image in a real browser: patches are chosen by mouse and keyboard, and words light the picture."""

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from looked_at import captioned, hot, image
from opened import Opened
from PIL import Image
from playwright.sync_api import Browser

from regard.viewer.capture import Capture
from regard.viewer.page import page, payload
from regard.viewer.pictured import FADED, HUE, TINTED


def test_the_page_holds_the_very_pixels_and_allows_them_alone(capture: Capture) -> None:
    seen = image()
    data = payload(hot(seen))["image"]
    back = np.asarray(Image.open(io.BytesIO(base64.b64decode(data["png"]))))  # type: ignore[index]
    np.testing.assert_array_equal(back, seen.pixels)
    assert "default-src 'none'; img-src data:; style-src" in page(hot(seen))
    assert "img-src" not in page(capture) and '"image":null' in page(capture)


def tints(opened: Opened, patches: str = ".patch") -> list[str]:
    script = "(patches) => [...document.querySelectorAll(patches)].map((p) => p.style.getPropertyValue('--tint'))"
    return list(opened.page.evaluate(script, patches))


def brightest(opened: Opened) -> list[int]:
    """Which patches are tinted as the strongest is."""
    strongest = f"rgb({' '.join(map(str, HUE))} / {TINTED:.3f})"
    return [place for place, tint in enumerate(tints(opened)) if tint == strongest]


@pytest.mark.slow
def test_clicking_a_patch_makes_it_the_query(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, replace(hot(image()), opens=("self", 1, 0)), tmp_path)
    assert opened.page.locator(".patch").count() == 12
    assert opened.text("#reading-title") == "“[CLASS]” looks at" and brightest(opened) == [6]  # patch 1,2
    assert tints(opened)[0] == f"rgb(0 0 0 / {FADED:.3f})"
    opened.page.locator(".patch").nth(9).click()
    opened.page.mouse.move(2, 2)
    assert opened.text("#reading-title") == "“2,1” looks at" and brightest(opened) == [9]
    opened.page.locator(".patch").nth(3).hover()
    assert opened.text("#reading-title") == "“0,3” looks at" and brightest(opened) == [3]
    opened.page.locator(".whole").click()
    opened.page.mouse.move(2, 2)
    assert opened.text("#reading-title") == "“[CLASS]” looks at" and brightest(opened) == [6]
    before = tints(opened)
    opened.page.locator("#grid button[data-layer='0'][data-head='1']").click()
    opened.press("j")
    assert opened.text("#here") == "Layer 0, head 1" and tints(opened) != before
    opened.press("v")
    assert opened.page.locator("#lines").is_visible() and not opened.page.locator(".patch").first.is_visible()
    opened.close()


@pytest.mark.slow
def test_patches_can_be_walked_by_rows(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, replace(hot(image()), opens=("self", 1, 0), query=image().place(0, 1)), tmp_path)
    assert opened.text("#reading-title") == "“0,1” looks at"
    opened.page.locator(".patch").nth(1).focus()
    steps = ["ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown"]
    at = []
    for key in steps:
        opened.press(key)
        at.append(opened.text("#reading-title").split("”")[0][1:])
    assert at == ["1,1", "1,2", "2,2", "2,2", "1,2", "0,2", "[CLASS]", "0,0"]
    opened.press("Escape")
    assert opened.text("#reading-title") == "Mean of all patches and the class row"
    opened.close()


@pytest.mark.slow
def test_without_a_class_row_the_mean_of_all_patches_is_shown(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, hot(image(class_row=False)), tmp_path)
    assert opened.text("#reading-title") == "Mean of all patches" and opened.page.locator(".whole").count() == 0
    mean = hot(image(class_row=False)).pick("self", 1).weights.mean(0)
    assert brightest(opened) == [mean.argmax()]
    first = opened.page.locator("#reading li button").first
    assert first.inner_text() == image(class_row=False).names[mean.argmax()]
    first.click()
    assert opened.text("#reading-title") == f"Who looks at “{image(class_row=False).names[mean.argmax()]}”"
    opened.close()


@pytest.mark.slow
def test_pointing_at_a_word_lights_what_it_looks_at(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, replace(captioned(image()), opens=("cross", 0, 0)), tmp_path)
    words = opened.page.locator("#text .queries .word")
    for i in range(4):
        words.nth(i).hover()
        assert brightest(opened) == [i]
    assert opened.page.locator(".patches").bounding_box()["y"] < words.first.bounding_box()["y"]  # type: ignore[index]
    opened.page.locator(".patch").nth(1).hover()
    assert opened.text("#reading-title") == "Who looks at “0,1”"
    assert opened.page.locator("#text .queries .word.on").all_inner_texts() == ["dog"]
    opened.press("2")
    assert opened.page.locator("#kinds [aria-pressed=true]").inner_text() == "Decoder self-attention"
    assert opened.page.locator("#lines").is_visible() and opened.text("#running") == "Text"
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 400])
def test_the_patches_together_are_the_picture(width: int, browser: Browser, tmp_path: Path) -> None:
    """Where nothing is tinted, a screenshot of the patches is the image, enlarged."""
    seen = image(class_row=False)
    opened = Opened(browser, hot(seen), tmp_path, width=width)
    script = "for (const p of document.querySelectorAll('.patch')) p.style.setProperty('--tint', 'transparent')"
    opened.page.evaluate(script)
    opened.page.mouse.move(2, 2)
    shot = Image.open(io.BytesIO(opened.page.locator(".patches").screenshot())).convert("RGB")
    first, last = (opened.page.locator(".patch").nth(i).bounding_box() for i in (0, 11))
    assert first is not None and last is not None
    area = (last["x"] + last["width"] - first["x"], last["y"] + last["height"] - first["y"])
    assert area[0] > 300 and area[0] % 4 == 0  # whole pixels a patch
    across, down = ((np.arange(n) + 0.5) * area[0] / 8 for n in (8, 6))
    middles = np.asarray(shot)[down.astype(int)[:, None], across.astype(int)]
    np.testing.assert_array_equal(middles, seen.pixels)
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("keys", [[], ["j", "j"], ["v"], ["2"]], ids=" ".join)
def test_axe_finds_nothing(keys: list[str], scheme: str, browser: Browser, tmp_path: Path) -> None:
    for capture in (hot(image()), replace(captioned(image()), opens=("cross", 0, 0))):
        opened = Opened(browser, capture, tmp_path, scheme)
        opened.press(*keys)
        found = Axe().run(opened.page).response["violations"]
        assert [(rule["id"], rule["impact"], rule["nodes"][0]["html"][:90]) for rule in found] == []
        opened.close()
