"""What `run.look` gives: maps that show themselves in a notebook, and save themselves as a page, a picture or JSON."""

import base64
import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard.choose import choose
from regard.errors import RegardError
from regard.viewer.map_set import MapSet, visible
from regard.viewer.page import page

if TYPE_CHECKING:
    from regard.viewer.style import Drawing

HEIGHT = 680  # pixels of the page inside a notebook
TITLE = 300  # characters of a text that stand below a picture


class Capture(MapSet):
    """`run.look("The dog.")`: in a notebook it shows itself, and `save` writes it into a file."""

    def __repr__(self) -> str:
        kinds = (f"{kind} ({len(self.layers(kind)) or 1} × {len(self.heads(kind)) or 1})" for kind in self.kinds)
        return f"<Capture of {visible(self.title)[:60]!r}: {', '.join(kinds)}, layers × heads>"

    @property
    def first_kind(self) -> str:
        """The kind of map that is shown first."""
        if self.opens is not None:
            return self.opens[0]
        return "cross" if "cross" in self.kinds else self.kinds[0]

    def save(
        self,
        path: str | Path,
        kind: str | None = None,
        layer: int | None = None,
        head: int | None = None,
        grid: bool = False,
        dark: bool = False,
    ) -> str:
        """Write a file, and say what is in it: a page of all maps that needs no network (.html), all numbers (.json),
        or a picture of one map (.png), with `grid` of every head of every layer, with `dark` on dark paper."""
        write = choose(FORMATS, Path(path).suffix.lower(), "ending of a file that a capture is saved in")
        data, content = write(self, kind, layer, head, grid, dark)
        Path(path).write_bytes(data)
        return content

    def draw(
        self, file: "Drawing", kind: str, layer: int | None, head: int | None, grid: bool, dark: bool = False
    ) -> str:
        """A picture (PNG), and what is on it."""
        from regard.viewer import panels, picture, units  # matplotlib takes a second to import
        from regard.viewer.style import DARK, LIGHT

        style = DARK if dark else LIGHT
        about = self.about(kind)
        is_on_image = "keys" in about.patches
        if grid and "hidden" in self.kinds:
            units.draw_gates(self, file, style)
            return "all gates and states"
        if grid and not about.has_heads:
            raise RegardError(f"{kind} is one map, of all layers and heads: draw it without grid")
        if grid:
            (panels.draw_heads if is_on_image else picture.grid)(self, file, kind, style)
            return f"all {kind} heads"
        map = self.pick(kind, layer, head)
        if is_on_image:
            panels.draw_looks(self, map, file, style)
        else:
            said = [] if about.has_heads else [shortened(visible(self.title)), about.meaning]
            picture.attention(map, file, style, " ".join(f"{text.rstrip('.')}." for text in (*said, *self.notes)))
        return map.name

    def _repr_html_(self) -> str:
        """For notebooks: the page in a frame of its own; of numbers with a sign, which it does not show, a picture."""
        if self.has_page:
            source = html.escape(page(self))
            return f'<iframe srcdoc="{source}" sandbox="allow-scripts" width="100%" height="{HEIGHT}"></iframe>'
        data, content = as_png(self, None, None, None, False, False)
        source = base64.b64encode(data).decode()
        return f'<img src="data:image/png;base64,{source}" alt="{html.escape(content)}">'


def shortened(title: str) -> str:
    """Without the middle of a long text; its end may say what was answered."""
    return title if len(title) <= TITLE else f"{title[: TITLE // 2].rstrip()} … {title[-TITLE // 2 :].lstrip()}"


def as_page(
    capture: Capture, kind: str | None, layer: int | None, head: int | None, grid: bool, dark: bool
) -> tuple[bytes, str]:
    return page(capture).encode(), "open it in any browser; it needs no network"


def as_json(
    capture: Capture, kind: str | None, layer: int | None, head: int | None, grid: bool, dark: bool
) -> tuple[bytes, str]:
    return capture.to_json().encode(), f"{len(capture.maps)} maps"


def as_png(
    capture: Capture, kind: str | None, layer: int | None, head: int | None, grid: bool, dark: bool
) -> tuple[bytes, str]:
    drawing = io.BytesIO()
    content = capture.draw(drawing, kind or capture.first_kind, layer, head, grid, dark)
    return drawing.getvalue(), content


Writing = Callable[[Capture, str | None, int | None, int | None, bool, bool], tuple[bytes, str]]
FORMATS: dict[str, Writing] = {".html": as_page, ".png": as_png, ".json": as_json}
