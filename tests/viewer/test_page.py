import base64
import hashlib
import html.parser
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.viewer.capture import Capture
from regard.viewer.map_set import Map
from regard.viewer.page import COARSE, FINE, STATIC, pack_weights, page, payload, write_page

HOSTILE = [
    "<script>alert(1)</script>",
    "</script>",
    "<!--",
    "]]>",
    "{{data}}",
    "\u2028",
    "&lt;",
    "\ud800",
    "'\"",
    "</style>",
    "</script ",  # no ">": the element's own end completes it
    "<!--<script",
    "<title",
]


class Elements(html.parser.HTMLParser):
    """What a browser's parser would see: elements, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style", "title") and data.strip():
            self.raw.append((self.tags[-1][0], data))


def hostile() -> Capture:
    weights = np.eye(len(HOSTILE))
    maps = [Map(kind="self", layer=0, head=0, queries=HOSTILE, keys=HOSTILE, weights=weights)]
    return Capture(title="</title ><script>alert(2)</script>", maps=maps)


def test_what_was_cut_is_said_on_the_page() -> None:
    maps = [Map(kind="self", layer=0, head=0, queries=["a"], keys=["a"], weights=np.eye(1))]
    notes = ("cut to the first 1 of 2 tokens",)
    assert payload(Capture(title="a b", maps=maps, notes=notes))["notes"] == notes
    assert 'id="notes"' in (STATIC / "page.html").read_text() and "data.notes" in (STATIC / "page.js").read_text()


def test_hostile_words_stay_data() -> None:
    text = page(hostile())
    seen = Elements(text)
    assert [tag for tag, _ in seen.tags].count("script") == 2
    assert [kind for kind, _ in seen.raw].count("script") == 2
    data = json.loads(next(raw for kind, raw in seen.raw if kind == "script" and raw.startswith("{")))
    labels = [label for label, _ in data["texts"][0]]
    assert labels[:2] == HOSTILE[:2] and "{{data}}" in labels
    assert "<" not in re.search('<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)[1]
    assert "<" not in re.search("<title>(.*?)</title>", text, re.DOTALL)[1]
    assert text.encode()  # a lone surrogate does not stop the file from being written


def test_the_policy_allows_exactly_what_is_inside_and_no_network(capture: Capture) -> None:
    seen = Elements(page(capture))
    policy = next(a["content"] for t, a in seen.tags if t == "meta" and a.get("http-equiv")) or ""
    script = [raw for kind, raw in seen.raw if kind == "script"][-1]
    style = next(raw for kind, raw in seen.raw if kind == "style")
    for source, rule in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not any(name in ("src", "href", "onclick", "style") for _, a in seen.tags for name in a)


def test_the_file_names_no_address(capture: Capture) -> None:
    assert not re.search(r"https?:|//[a-z]+\.[a-z]", page(capture))


def test_the_script_never_parses_html() -> None:
    for path in STATIC.glob("*.js"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", source), path


def unpack(packed: str, kind: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), kind)


def test_packed_weights_keep_their_digits() -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(50, 0.1), size=20)
    for levels, kind in ((FINE, "<u2"), (COARSE, "u1")):
        back = (unpack(pack_weights(weights, levels), kind).reshape(20, 50) / levels) ** 2
        half_a_step = np.sqrt(weights) / levels + 0.25 / levels**2  # d(w) = 2√w d(√w)
        assert (np.abs(back - weights) <= half_a_step * 1.001).all()


def test_vectors_travel_with_their_scale(capture: Capture) -> None:
    head: dict[str, Any] = payload(capture)["maps"][0]["vectors"]["keys"]
    keys = capture.maps[0].key_vectors
    assert keys is not None
    back = unpack(head["data"], "<i2").reshape(-1, head["width"]) * head["scale"]
    np.testing.assert_allclose(back, keys, atol=np.abs(keys).max() / 30000)


def test_each_text_stands_in_the_page_once(capture: Capture) -> None:
    assert len(payload(capture)["texts"]) == 2  # source and target, for eighteen maps


def test_write_page(capture: Capture, tmp_path: Path) -> None:
    write_page(capture, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page(capture)


@pytest.mark.parametrize("path", sorted(STATIC.iterdir()), ids=lambda path: path.name)
def test_static_files_stay_readable(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 300
