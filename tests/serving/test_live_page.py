"""The page at `/` in a real browser: type a sentence and see attention, with a key and without, and no error on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import started_browser
from playwright.sync_api import Browser, Page
from process import Process, serving
from tiny_runs import Runs

pytestmark = pytest.mark.slow

KEY = "0123456789abcdef0123"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(folders: Runs) -> Iterator[Process]:
    with serving({task: folders[task] for task in ("captions", "translation", "language")}) as process:
        yield process


class Live:
    """A page of the server, with what went wrong and what it asked for."""

    def __init__(self, browser: Browser, url: str, path: str = "/") -> None:
        self.page: Page = browser.new_context(viewport={"width": 1300, "height": 850}).new_page()
        self.url = url
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(url + path)

    def type(self, text: str) -> None:
        self.page.fill("input[name=text]", text)
        self.page.keyboard.press("Enter")

    def words(self) -> list[str]:
        """What the attention page shows on its left side."""
        frame = self.page.frame_locator("#seen")
        frame.locator(".word >> visible=true").first.wait_for()
        return frame.locator("#lines .queries .word").all_inner_texts()

    def close(self) -> None:
        self.page.context.close()
        assert all(url.startswith((self.url, "about:", "data:")) for url in self.requests), self.requests


def test_a_sentence_and_its_attention(server: Process, browser: Browser, tmp_path: Path) -> None:
    live = Live(browser, server.url)
    runs = live.page.locator("select option")
    runs.nth(2).wait_for(state="attached")
    assert runs.nth(0).is_disabled() and "reads no text" in runs.nth(0).inner_text()  # a captioner
    assert live.page.locator("select").input_value() == "translation"
    assert not live.page.locator("#key").is_visible()
    live.type("the cat says meow")
    assert live.words()[:4] == ["the", "cat", "says", "meow"]
    assert live.page.locator("#said").inner_text() == ""
    frame = live.page.frame_locator("#seen")
    frame.get_by_text("Cross-attention").click()
    frame.locator("#lines .queries .word").first.hover()
    frame.locator("#reading li").first.wait_for()  # its scripts run in the frame
    live.type("a dog")
    frame.locator("#lines .keys .word", has_text="dog").first.wait_for()
    live.page.select_option("select", "language")
    frame.get_by_text("Cross-attention").wait_for(state="detached")
    live.page.screenshot(path=tmp_path / "live.png")
    assert (tmp_path / "live.png").stat().st_size > 10_000
    assert live.wrong == []
    live.close()


def test_an_error_is_told_and_no_older_picture_stays(server: Process, browser: Browser) -> None:
    live = Live(browser, server.url)
    live.page.locator("select option").nth(2).wait_for(state="attached")
    live.type("the cat")
    live.words()
    live.type("the cat says meow " * 200)
    live.page.get_by_text("the server's cap attention_tokens").wait_for()
    assert not live.page.locator("#seen").is_visible()
    live.close()


def test_hostile_texts_stay_texts(server: Process, browser: Browser) -> None:
    live = Live(browser, server.url)
    live.page.locator("select option").nth(2).wait_for(state="attached")
    live.type("</script><img src=x onerror=alert(1)> the cat")
    assert live.words()
    assert live.page.frame_locator("#seen").locator("img").count() == 0
    assert live.wrong == []
    live.close()


def test_a_key_is_asked_for(folders: Runs, browser: Browser, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    with serving({"language": folders["language"]}, "--key-file", str(keys)) as server:
        live = Live(browser, server.url)
        live.page.locator("#key").wait_for()
        assert "a key is missing" in live.page.locator("#said").inner_text()
        live.page.fill("#key", KEY)
        live.page.keyboard.press("Tab")
        live.page.locator("select option").first.wait_for(state="attached")
        live.type("the cat")
        assert live.words()
        live.close()


def test_the_page_of_routes_tries_one(server: Process, browser: Browser) -> None:
    live = Live(browser, server.url, "/docs")
    live.page.get_by_text("/v1/translate", exact=False).first.click()
    route = live.page.locator("details", has_text="/v1/translate ")
    route.locator("textarea").fill('{"lines": ["the cat"]}')
    route.get_by_role("button").click()
    route.locator("pre", has_text="translation").last.wait_for()
    assert live.wrong == []
    live.close()
