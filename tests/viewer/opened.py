"""A page in a real browser."""

from pathlib import Path

from playwright.sync_api import Browser, Page

from regard.viewer.capture import Capture
from regard.viewer.page import write_page


class Opened:
    """A page opened from its file, with everything that went wrong or went out."""

    def __init__(
        self, browser: Browser, capture: Capture, folder: Path, scheme: str = "light", width: int = 1400
    ) -> None:
        write_page(capture, folder / "page.html")
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        self.page: Page = context.new_page()
        self.wrong: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto((folder / "page.html").as_uri())
        self.page.wait_for_selector(".word >> visible=true")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.page.evaluate("new Promise((go) => setTimeout(() => requestAnimationFrame(go), 60))")

    def close(self) -> None:
        self.page.context.close()
        assert self.wrong == []
        assert [url for url in self.requests if not url.startswith(("file:", "blob:", "data:"))] == []
