"""The page in a real browser: by keyboard and by mouse, with hostile words, with a thousand words."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from opened import Opened
from playwright.sync_api import Browser

from regard.viewer.capture import Capture
from regard.viewer.map_set import Map, MapKey

pytestmark = pytest.mark.slow


def ink(opened: Opened, canvas: str) -> int:
    """How many pixels of a canvas are painted."""
    script = """(id) => {
        const canvas = document.getElementById(id);
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((value, i) => i % 4 === 3 && value).length; }"""
    return int(opened.page.evaluate(script, canvas))


def test_keyboard(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    opened = Opened(browser, capture, tmp_path)
    assert opened.text("#here") == "Layer 1, mean of heads"
    opened.press("ArrowLeft", "ArrowUp")
    assert opened.text("#here") == "Layer 0, head 2"
    opened.press("ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowDown")
    assert opened.text("#here") == "Layer 1, head 0"
    opened.press(*["j"] * 9)
    assert opened.text("#reading-title") == "“it” looks at"
    assert opened.page.locator("#reading li button").first.inner_text() == "animal"
    assert "“it” looks at: animal" in opened.text("#said")
    opened.press("s")
    assert opened.text("#reading-title") == "Who looks at “it”"
    opened.press("Escape")
    assert opened.page.locator("#reading li").count() == 0
    opened.press("3")
    assert opened.page.locator("#kinds [aria-pressed=true]").inner_text() == "Cross-attention"
    opened.press("m")
    assert opened.text("#here") == "Layer 1, mean of heads"
    opened.press("v")
    assert opened.page.locator("#text").is_visible() and not opened.page.locator("#lines").is_visible()
    opened.press("?")
    assert opened.page.locator("dialog").is_visible()
    opened.press("Escape", "t")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    opened.close()


def test_words_can_be_walked_with_tab_and_arrows(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    opened = Opened(browser, capture, tmp_path)
    opened.page.locator("#lines .queries .word").first.focus()
    opened.press("ArrowDown", "ArrowDown")
    assert opened.page.evaluate("document.activeElement.textContent") == "did"
    assert opened.text("#reading-title") == "“did” looks at"
    assert opened.page.locator("#lines .queries [tabindex='0']").count() == 1
    assert opened.page.locator("#grid [tabindex='0']").count() == 1
    opened.close()


def test_mouse(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    opened = Opened(browser, capture, tmp_path)
    opened.page.locator("#grid button[data-layer='1'][data-head='0']").click()
    opened.page.locator("#lines .queries .word").nth(8).hover()
    assert opened.text("#reading-title") == "“it” looks at"
    assert "on" in (opened.page.locator("#lines .keys .word").nth(1).get_attribute("class") or "")
    opened.page.mouse.move(2, 2)
    assert opened.text("#reading-title") == "Where it looks"
    opened.page.locator("#lines .keys .word").nth(1).click()
    opened.page.mouse.move(2, 2)
    assert opened.text("#reading-title") == "Who looks at “animal”"
    opened.page.locator("#cells").hover(position={"x": 160, "y": 160})
    assert "→" in opened.text("#cell") and "%" in opened.text("#cell")
    opened.page.locator("#kinds button").nth(1).click()
    assert opened.text("#meaning").endswith("never ahead.")
    opened.close()


def test_vectors_explain_the_weights(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    opened = Opened(browser, capture, tmp_path)
    assert not opened.page.locator("#vectors").is_visible()  # a mean of heads has no vectors
    opened.page.locator("#grid button[data-layer='1'][data-head='0']").click()
    opened.page.locator("#lines .queries .word").nth(8).click()
    row = opened.page.locator("#vectors tbody tr").nth(1).inner_text().split("\t")
    head = capture.pick("encoder", 1, 0)
    assert head.query_vectors is not None and head.key_vectors is not None
    score = head.query_vectors[8] @ head.key_vectors[1] / np.sqrt(8)
    assert row[0].strip() == "animal" and row[2].strip() == f"{score:.2f}"
    assert "√8" in opened.text("#vectors-note")
    opened.close()


def test_hostile_words_stay_text(browser: Browser, tmp_path: Path) -> None:
    words = ["<script>alert(1)</script>", "</script>", "<img src=x onerror=alert(1)>", "\u202eevil", "a\nb", "&amp;"]
    weights = np.full((6, 6), 1 / 6)
    vectors = {name: np.ones((6, 2)) for name in ("query_vectors", "key_vectors", "value_vectors")}
    map = Map(kind="self", layer=0, head=0, queries=words, keys=words, weights=weights, **vectors)
    opened = Opened(browser, Capture(title="<script>alert(3)</script>", maps=[map]), tmp_path)
    shown = opened.page.locator("#lines .queries .word").all_inner_texts()
    assert shown == [*words[:3], "\\u202eevil", "a⏎b", "&amp;"]
    assert opened.text("#title") == "<script>alert(3)</script>"
    opened.press("j", "v", "s", "j")
    assert opened.page.locator("#reading li").count() == 6
    assert opened.page.locator("script").count() == 2 and opened.page.locator("img").count() == 0
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_thousand_words_do_not_freeze(browser: Browser, scheme: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = [" " * (i > 0) + f"word{i}" for i in range(1200)]
    maps = []
    for head in range(3):
        weights = random.dirichlet(np.full(1200, 0.05), size=1200)
        maps.append(Map(kind="self", layer=0, head=head, queries=words, keys=words, weights=weights))
    opened = Opened(browser, Capture(title="long", maps=maps), tmp_path, scheme)
    assert opened.page.locator("#text .queries .word").count() == 1200
    opened.press("/")
    opened.page.keyboard.type("word999")
    assert opened.text("#reading-title") == "“word999” looks at"
    strongest = words[int(np.mean([m.weights for m in maps], axis=0)[999].argmax())].strip()
    assert opened.page.locator("#reading li button").first.inner_text() == strongest
    opened.press("Escape", "v", "+", "+", "+", "+", "+", "+", "+", "+", "Escape")
    script = """async () => { const frame = () => new Promise(requestAnimationFrame);
        const pane = document.getElementById('lines'); const start = performance.now();
        for (let i = 0; i < 20; i++) { pane.scrollTop = i * 1000; await frame(); }
        return (performance.now() - start) / 20; }"""
    assert opened.page.evaluate(script) < 400  # milliseconds a frame, on a slow machine without a graphics card
    assert ink(opened, "threads") > 0 and ink(opened, "cells") > 0
    opened.close()


def test_colour_scheme_follows_the_system(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        opened = Opened(browser, capture, tmp_path, scheme)
        backgrounds.append(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        opened.close()
    assert backgrounds == ["rgb(250, 248, 244)", "rgb(19, 20, 25)"]


@pytest.mark.parametrize(
    ("opens", "kind", "here"),
    [
        (("cross", 0, 2), "Cross-attention", "Layer 0, head 2"),
        (("encoder", 1, 0), "Encoder self-attention", "Layer 1, head 0"),
        (("decoder", 0, None), "Decoder self-attention", "Layer 0, mean of heads"),
        (("cross", None, None), "Cross-attention", "Layer 1, mean of heads"),
        (None, "Encoder self-attention", "Layer 1, mean of heads"),
    ],
)
def test_it_opens_on_the_head_that_was_named(
    opens: MapKey | None, kind: str, here: str, browser: Browser, capture: Capture, tmp_path: Path
) -> None:
    opened = Opened(browser, replace(capture, opens=opens), tmp_path)
    assert opened.page.locator("#kinds [aria-pressed=true]").inner_text() == kind
    assert opened.text("#here") == here
    opened.close()
