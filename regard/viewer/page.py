"""One HTML file that needs nothing else: style, script and data are inside, and it can reach no network.

Words come into the page only as text: the data is JSON in which `<` is written as an escape, the script sets
`textContent` and draws on canvases, and a content security policy allows this one script and style, by
their hashes, and no connection at all; images only as data, and only in a page that shows one.
"""

import base64
import hashlib
import html
import json
import zlib
from pathlib import Path

import numpy as np

from regard.errors import RegardError
from regard.viewer.map_set import Map, MapSet, begins_word, visible
from regard.viewer.pictured import Pictured

STATIC = Path(__file__).parent / "static"
SCRIPTS = ("data.js", "picture.js", "words.js", "heat.js", "heads.js", "vectors.js", "page.js")
FINE, COARSE = 65535, 255  # levels of a weight; coarse for captures of more cells than this:
FINE_CELLS = 8_000_000


def write_page(capture: MapSet, path: str | Path) -> None:
    Path(path).write_text(page(capture), encoding="utf-8")


def page(capture: MapSet) -> str:
    if not capture.has_page:
        raise RegardError("the page shows shares of attention; see numbers with --terminal, or draw them with --png")
    script, style = own_script(), own_style()
    parts = {
        "title": html.escape(visible(capture.title)),
        "image-source": "" if capture.image is None else "img-src data:; ",
        "script-hash": digest(script),
        "style-hash": digest(style),
        "style": style,
        "data": inert(payload(capture)),
        "script": script,
    }
    template = (STATIC / "page.html").read_text(encoding="utf-8")
    first, *rest = template.split("{{")  # one pass: what a part contains is never looked at again
    pieces = [first]
    for piece in rest:
        name, _, after = piece.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces)


def own_script() -> str:
    """The one script of every page."""
    script = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{script}\n}})();\n'


def own_style() -> str:
    return (STATIC / "page.css").read_text(encoding="utf-8")


def digest(source: str) -> str:
    """The name by which a content security policy knows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def inert(data: object) -> str:
    """JSON that cannot end the element it stands in, in ASCII, so that odd characters survive any reader."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def payload(capture: MapSet) -> dict[str, object]:
    """What the script reads.  Each text stands there once; maps point to it."""
    texts: dict[tuple[str, ...], int] = {}
    levels = FINE if sum(map.weights.size for map in capture.maps) <= FINE_CELLS else COARSE
    maps = []
    for map in capture.maps:
        queries = texts.setdefault(tuple(map.queries), len(texts))
        keys = texts.setdefault(tuple(map.keys), len(texts))
        row: dict[str, object] = {"kind": map.kind, "layer": map.layer, "head": map.head}
        row |= {"queries": queries, "keys": keys, "weights": pack_weights(map.weights, levels)}
        maps.append(row | {"vectors": pack_head(map)})
    kinds = [{"name": name} | vars(capture.about(name)) for name in capture.kinds]
    words = [[[visible(t), int(space)] for t, space in zip(ts, begins_word(ts), strict=True)] for ts in texts]
    opens = None if capture.opens is None else dict(zip(("kind", "layer", "head"), capture.opens, strict=True))
    data = {"title": visible(capture.title), "levels": levels, "opens": opens, "query": capture.query}
    return data | {
        "notes": capture.notes,
        "kinds": kinds,
        "texts": words,
        "maps": maps,
        "image": None if capture.image is None else picture(capture.image),
    }


def picture(image: Pictured) -> dict[str, object]:
    rows, columns = image.shape
    return {"png": image.to_png(), "rows": rows, "columns": columns, "class_row": image.class_row}


def pack_weights(weights: np.ndarray, levels: int) -> str:
    """√w in `levels` steps, so that small weights keep their digits; compressed, as base64."""
    steps = np.rint(np.sqrt(np.minimum(weights.astype(np.float64), 1)) * levels)
    return pack(steps.astype("<u2" if levels == FINE else "u1"))


def pack_head(map: Map) -> dict[str, object] | None:
    """The queries, keys and values of one head in 16 bits, each with the scale that restores it."""
    roles = {"queries": map.query_vectors, "keys": map.key_vectors, "values": map.value_vectors}
    packed: dict[str, object] = {}
    for role, vectors in roles.items():
        if vectors is None:
            return None
        scale = float(np.abs(vectors).max(initial=0)) / 32767 or 1.0
        data = pack(np.rint(vectors.astype(np.float64) / scale).astype("<i2"))
        packed[role] = {"width": vectors.shape[1], "scale": scale, "data": data}
    return packed


def pack(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 6)).decode()
