import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import ConfigError, RegardError
from regard.viewer.capture import Capture
from regard.viewer.kinds import KINDS
from regard.viewer.map_set import Map, MapKey, begins_word, visible


def small(**changes: object) -> Map:
    settings = {"kind": "self", "layer": 0, "head": 0, "queries": ["a", "b"], "keys": ["c"]}
    return Map(**({**settings, "weights": np.ones((2, 1))} | changes))  # type: ignore[arg-type]


def test_json_brings_the_capture_back(capture: Capture) -> None:
    back = Capture.from_json(capture.to_json())
    assert back.title == capture.title
    for one, other in zip(capture.maps, back.maps, strict=True):
        assert (one.name, one.queries, one.keys) == (other.name, other.queries, other.keys)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
        assert one.value_vectors is not None and other.value_vectors is not None
        np.testing.assert_allclose(one.value_vectors, other.value_vectors, atol=1e-6)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"title": "x", "maps": [{}]}', '{"title": "x", "maps": [3]}'])
def test_what_is_no_capture_is_a_clear_error(text: str) -> None:
    with pytest.raises(RegardError, match="not a capture"):
        Capture.from_json(text)


def test_json_with_a_wrong_shape_is_refused(capture: Capture) -> None:
    read = json.loads(capture.to_json())
    read["maps"][0]["weights"].pop()
    with pytest.raises(RegardError, match="shape"):
        Capture.from_json(json.dumps(read))


def test_pick_one_head_and_means(capture: Capture) -> None:
    assert capture.pick("cross", 1, 2).name == "Cross-attention, layer 1, head 2"
    mean = capture.pick("cross", layer=1)
    heads = [capture.pick("cross", 1, head).weights for head in capture.heads("cross")]
    np.testing.assert_allclose(mean.weights, sum(heads) / 3)
    assert (mean.layer, mean.head) == (1, None)
    np.testing.assert_allclose(capture.pick("encoder").weights.sum(axis=1), 1)


def test_pick_says_what_there_is(capture: Capture) -> None:
    with pytest.raises(RegardError, match=r"'cross', layer 7; there are: encoder \(layers \[0, 1\]"):
        capture.pick("cross", layer=7)


def test_strongest_first(capture: Capture) -> None:
    head = capture.pick("encoder", 1, 0)
    assert head.keys[head.strongest(3)[8][0]] == " animal"
    assert small(keys=["x", "y"], weights=np.full((2, 2), 0.5)).strongest() == [[0], [0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": np.ones((1, 2))}, "shape"),
        ({"weights": np.full((2, 1), np.nan)}, "finite"),
        ({"weights": -np.ones((2, 1))}, "negative"),
        ({"queries": [], "weights": np.ones((0, 1))}, "no words"),
        ({"key_vectors": np.ones((2, 4))}, "key_vectors must have 1 rows"),
    ],
)
def test_maps_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        small(**changes)


def test_unknown_kind_lists_the_kinds() -> None:
    with pytest.raises(ConfigError, match=", ".join(sorted(KINDS))):
        small(kind="crosss")
    with pytest.raises(RegardError, match="nothing to show"):
        Capture(title="", maps=[])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_it_means(kind: str) -> None:
    assert KINDS[kind].meaning.endswith(".") and KINDS[kind].title[0].isupper()


def test_visible_spells_out_what_has_no_shape() -> None:
    shown = {" animal": "animal", "  ": "␣␣", "": "∅", "a\n": "a⏎", "\x1b[31m": r"\x1b[31m", "\u202e": r"\u202e"}
    assert {token: visible(token) for token in shown} == shown
    assert visible("\ud800") == r"\ud800" and visible("<script>") == "<script>" and visible("猫") == "猫"


@given(st.text(st.characters(codec=None), max_size=20))
def test_visible_is_one_harmless_line(token: str) -> None:
    shown = visible(token)
    assert shown and len(shown.splitlines()) == 1
    assert shown.encode() and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)


def test_spaces_come_from_the_tokens_or_stand_everywhere() -> None:
    assert begins_word(["The", " cat", "s"]) == [False, True, False]
    assert begins_word(["The", "cat"]) == [True, True]


@pytest.mark.parametrize("opens", [None, ("cross", 1, 2), ("cross", None, None), ("decoder", 0, None)])
def test_json_keeps_where_the_page_opens(opens: MapKey | None, capture: Capture) -> None:
    assert Capture.from_json(replace(capture, opens=opens).to_json()).opens == opens


def test_a_capture_of_an_earlier_version_opens_nowhere(capture: Capture) -> None:
    read = json.loads(capture.to_json())
    del read["opens"]
    assert Capture.from_json(json.dumps(read)).opens is None


@pytest.mark.parametrize("opens", [("cross", 7, 0), ("self", 0, 0)])
def test_a_page_cannot_open_where_there_is_nothing(opens: MapKey, capture: Capture) -> None:
    with pytest.raises(RegardError, match="no map of kind"):
        replace(capture, opens=opens)


@pytest.mark.parametrize("opens", ['"cross"', '["cross"]', '["cross", "x", 0]', "3"])
def test_json_that_opens_at_no_place_is_refused(opens: str, capture: Capture) -> None:
    read = json.loads(capture.to_json()) | {"opens": json.loads(opens)}
    with pytest.raises(RegardError, match="not a capture"):
        Capture.from_json(json.dumps(read))


def test_a_capture_saves_itself_by_the_ending_of_the_name(tmp_path: Path) -> None:
    capture = Capture(title="a <b>", maps=[one_map("self", 0, 0), one_map("self", 1, 0)])
    capture.save(tmp_path / "maps.json")
    again = Capture.from_json((tmp_path / "maps.json").read_text(encoding="utf-8"))
    assert type(again) is Capture and len(again.maps) == 2
    assert "needs no network" in capture.save(tmp_path / "maps.html")
    assert (tmp_path / "maps.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert capture.save(tmp_path / "maps.png", layer=1, head=0) == "Self-attention, layer 1, head 0"
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RegardError, match=r"unknown ending of a file .*'.jpg'"):
        capture.save(tmp_path / "maps.jpg")
    assert not (tmp_path / "maps.jpg").exists()


def test_a_notebook_shows_the_page_in_a_frame_that_its_words_cannot_leave() -> None:
    shown = Capture(title='"></iframe><script>', maps=[one_map("self", 0, 0)])._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html') and shown.count("<") == 2  # the frame and its end
    signed = Capture(title="votes", maps=[one_map("ngrams", None, None)])._repr_html_()
    assert signed.startswith('<img src="data:image/png;base64,')


def test_a_capture_is_named_in_one_line() -> None:
    capture = Capture(title="The dog.", maps=[one_map("self", 0, 0), one_map("self", 0, 1)])
    assert repr(capture) == "<Capture of 'The dog.': self (1 × 2), layers × heads>"


def one_map(kind: str, layer: int | None, head: int | None) -> Map:
    weights = np.array([[0.9, 0.1], [0.5, 0.5]], np.float32)
    return Map(kind=kind, layer=layer, head=head, queries=["a", "b"], keys=["a", "b"], weights=weights)
