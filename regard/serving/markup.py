"""HTML whose texts are translated and whose tags stay as they are (LibreTranslate's format "html")."""

from html import escape
from html.parser import HTMLParser

UNSPOKEN = ("script", "style", "code", "pre")  # elements whose texts are no sentences


class Markup(HTMLParser):
    """The parts of a page: `texts` are what a translator reads, each with its place among all `parts`."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.places: list[int] = []
        self.unspoken = 0
        self.feed(page)
        self.close()

    @property
    def texts(self) -> list[str]:
        return [self.parts[place].strip() for place in self.places]

    def with_texts(self, texts: list[str]) -> str:
        """The page with other texts, each between the spaces of the one that it replaces."""
        parts = list(self.parts)
        for place, text in zip(self.places, texts, strict=True):
            old = parts[place]
            before, after = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
            parts[place] = before + escape(text, quote=False) + after
        return "".join(parts)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.unspoken += tag in UNSPOKEN
        self.parts.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.unspoken -= tag in UNSPOKEN and self.unspoken > 0
        self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self.unspoken or not data.strip():
            self.parts.append(data if self.unspoken else escape(data, quote=False))
            return
        self.places.append(len(self.parts))
        self.parts.append(data)

    def handle_comment(self, data: str) -> None:
        self.parts.append(f"<!--{data}-->")

    def handle_decl(self, declaration: str) -> None:
        self.parts.append(f"<!{declaration}>")
