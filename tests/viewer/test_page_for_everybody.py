"""The page at every width, for every eye: nothing is hidden, everything can be read."""

import re
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from opened import Opened
from playwright.sync_api import Browser

from regard.viewer.capture import Capture
from regard.viewer.kinds import KINDS
from regard.viewer.map_set import Map

pytestmark = pytest.mark.slow

WORDS = ["The", " animal", " did", "n't", " cross", " the", " street", " because", " it", " was", " tired", "."]


def many_heads(kind: str = "encoder", n_heads: int = 16) -> Capture:
    """Every share from nothing to all is in some row."""
    random = np.random.default_rng(0)
    maps = []
    for head in range(n_heads):
        weights = random.dirichlet(np.full(len(WORDS), 0.3), size=len(WORDS))
        weights[0] = np.linspace(0, 1, len(WORDS)) / np.linspace(0, 1, len(WORDS)).sum()
        weights[1] = np.eye(len(WORDS))[3]
        maps.append(Map(kind=kind, layer=0, head=head, queries=WORDS, keys=WORDS, weights=weights))
    return Capture(title="The animal didn't cross the street because it was tired.", maps=maps)


def is_seen(opened: Opened, selector: str) -> bool:
    """Whether the middle of an element is in its panel and nothing lies over it."""
    script = """(selector) => {
        const element = document.querySelector(selector);
        const box = element.getBoundingClientRect();
        const top = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
        return element.contains(top); }"""
    return bool(opened.page.evaluate(script, selector))


@pytest.mark.parametrize("width", [1280, 400])
def test_every_head_of_sixteen_is_in_sight(width: int, browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, many_heads(), tmp_path, width=width)
    opened.page.locator("#grid").scroll_into_view_if_needed()
    hidden = [head for head in [*range(16), "mean"] if not is_seen(opened, f"#grid button[data-head='{head}']")]
    assert hidden == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.close()


def test_a_chosen_head_does_not_hide_under_its_label(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, many_heads(n_heads=64), tmp_path, width=400)
    opened.press(*["ArrowLeft"] * 64)
    assert opened.text("#here") == "Layer 0, head 0"
    opened.page.locator("#grid").scroll_into_view_if_needed()
    assert is_seen(opened, "#grid button[data-head='0']")
    opened.close()


def luminance(color: str) -> float:
    channels = [float(x) / 255 for x in re.findall(r"[\d.]+", color)[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if not kind.is_signed])
def test_words_can_be_read_on_every_shade(kind: str, scheme: str, browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, many_heads(kind, 1), tmp_path, scheme)
    worst = 21.0
    for row in range(3):
        opened.press("j")
        script = """() => [...document.querySelectorAll('#lines .keys .word.on')].map((word) => {
            const style = getComputedStyle(word); return [style.color, style.backgroundColor]; })"""
        shades = opened.page.evaluate(script)
        assert shades and (row or len(shades) > 6)
        for ink, paper in shades:
            assert paper.startswith("rgb("), "the shade is one color, not a mixture with what lies below"
            lighter, darker = sorted((luminance(ink), luminance(paper)), reverse=True)
            worst = min(worst, (lighter + 0.05) / (darker + 0.05))
    assert worst >= 4.5
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("keys", [[], ["j", "ArrowLeft"], ["v", "j"], ["?"]], ids=" ".join)
def test_axe_finds_nothing(keys: list[str], scheme: str, browser: Browser, capture: Capture, tmp_path: Path) -> None:
    check_with_axe(Opened(browser, capture, tmp_path, scheme), keys)


@pytest.mark.parametrize("keys", [["v"], ["j", "+", "+", "+", "+"]], ids=" ".join)
def test_axe_finds_nothing_where_panes_scroll(keys: list[str], browser: Browser, tmp_path: Path) -> None:
    words = [f" word{i}" for i in range(200)]
    maps = [Map(kind="self", layer=0, head=h, queries=words, keys=words, weights=np.eye(200)) for h in range(40)]
    check_with_axe(Opened(browser, Capture(title="long", maps=maps), tmp_path, width=400), keys)


def check_with_axe(opened: Opened, keys: list[str]) -> None:
    opened.press(*keys)
    found = Axe().run(opened.page).response["violations"]
    assert [(rule["id"], rule["impact"], rule["nodes"][0]["html"][:90]) for rule in found] == []
    opened.page.context.close()


def test_the_mean_and_back_is_the_same_head(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    opened = Opened(browser, capture, tmp_path)
    opened.press("ArrowLeft")
    assert opened.text("#here") == "Layer 1, head 2"
    opened.press("m")
    assert opened.text("#here") == "Layer 1, mean of heads"
    opened.press("m")
    assert opened.text("#here") == "Layer 1, head 2"
    opened.close()


def test_a_word_is_found_on_either_side(browser: Browser, capture: Capture, tmp_path: Path) -> None:
    opened = Opened(browser, capture, tmp_path)
    opened.press("3", "/")
    opened.page.keyboard.type("street")  # of the source, which is looked at
    assert opened.text("#reading-title") == "Who looks at “street”"
    opened.page.locator("#find").fill("animal")  # on both: Enter goes from one to the other
    assert opened.page.locator(".word.found").count() == 2
    titles = {opened.text("#reading-title")}
    opened.press("Enter")
    titles.add(opened.text("#reading-title"))
    assert titles == {"“animal” looks at", "Who looks at “animal”"}
    opened.close()


def test_titles_are_whole_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    capture = many_heads()
    long = Capture(title="A long sentence that goes on and on. " * 8, maps=capture.maps)
    opened = Opened(browser, long, tmp_path, width=400)
    opened.press("j")
    script = """() => [...document.querySelectorAll('h1, h2, h3, #meaning, #sides span, .choice button')]
        .filter((element) => element.offsetParent)
        .filter((element) => getComputedStyle(element).display !== 'inline')
        .filter((element) => element.scrollWidth > element.clientWidth + 1
            || element.scrollHeight > element.clientHeight + 1
            || element.getBoundingClientRect().right > innerWidth)
        .map((element) => element.textContent)"""
    assert opened.page.evaluate(script) == []
    opened.close()
