"""What was seen of one forward pass: attention and other tables, with their words.  Every view takes a `MapSet`."""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from regard.choose import choose
from regard.errors import RegardError
from regard.viewer.kinds import KINDS, OF_IMAGES, MapKind
from regard.viewer.pictured import CLASS_ROW, Pictured

VECTORS = ("query_vectors", "key_vectors", "value_vectors")

MapKey = tuple[str, int | None, int | None]  # kind, layer, head; None: the mean over them


@dataclass(frozen=True, kw_only=True, eq=False)
class Map:
    """One head: weights[q, k] is the share of its attention that query word q gives to key word k.

    The vectors are those of this head, one row a word, if they were asked for.  A map made by averaging
    several layers or heads has `None` there.
    """

    kind: str
    layer: int | None
    head: int | None
    queries: list[str]
    keys: list[str]
    weights: np.ndarray  # (Q, K)
    query_vectors: np.ndarray | None = None  # (Q, E)
    key_vectors: np.ndarray | None = None  # (K, E)
    value_vectors: np.ndarray | None = None  # (K, E)

    def __post_init__(self) -> None:
        choose(KINDS, self.kind, "kind of attention")
        expected = (len(self.queries), len(self.keys))
        if 0 in expected:
            raise RegardError(f"{self.name} has no words to show: {expected[0]} queries, {expected[1]} keys")
        if self.weights.shape != expected:
            raise RegardError(f"{self.name}: weights must have shape {expected}, got {self.weights.shape}")
        if not np.isfinite(self.weights).all() or (self.weights.min() < 0 and not KINDS[self.kind].is_signed):
            raise RegardError(f"{self.name}: weights must be finite and not negative")
        for name in VECTORS:
            vectors = getattr(self, name)
            rows = expected[0] if name == "query_vectors" else expected[1]
            if vectors is not None and (vectors.ndim != 2 or len(vectors) != rows):
                raise RegardError(f"{self.name}: {name} must have {rows} rows, got shape {vectors.shape}")

    @property
    def sides(self) -> dict[str, list[str]]:
        return {"queries": self.queries, "keys": self.keys}

    @property
    def name(self) -> str:
        kind = KINDS[self.kind]
        if not kind.has_heads:
            return kind.title
        layer = "mean of layers" if self.layer is None else f"layer {self.layer}"
        head = f"mean of {kind.head}s" if self.head is None else f"{kind.head} {self.head}"
        return f"{kind.title}, {layer}, {head}"

    def strongest(self, n: int = 1) -> list[list[int]]:
        """For every query the keys it looks at most, strongest first, whatever the sign; the earlier key wins a tie."""
        order = np.argsort(-np.abs(self.weights), axis=1, kind="stable")[:, :n]
        return [[int(key) for key in row] for row in order]


@dataclass(frozen=True, kw_only=True, eq=False)
class MapSet:
    """The maps of one text (and its translation) or image (and its caption), layers and heads numbered as the model
    numbers them."""

    title: str
    maps: list[Map]
    opens: MapKey | None = None  # the map that a page shows first; None: the page chooses
    image: Pictured | None = None  # what was read, where it is no text
    query: int | None = None  # the patch whose look is shown first; None: the class row, or the mean of all
    n_parts: int = 1  # of the text, if it was too long to be read at once; the title says which this is
    notes: tuple[str, ...] = ()  # what there is to say of how it was read, such as "cut to the first 100 of 105 tokens"

    def __post_init__(self) -> None:
        if not self.maps:
            raise RegardError("nothing to show: no attention was captured")
        if self.opens is not None:
            self.pick(*self.opens)  # an error where there is no such map
        rows = [] if self.image is None else self.image.names
        for map in self.maps:
            for side in self.about(map.kind).patches:
                if len(map.sides[side]) != len(rows):
                    raise RegardError(f"{map.name}: the image has {len(rows)} rows, the {side} {len(map.sides[side])}")
        if self.query is not None and not 0 <= self.query < len(rows):
            raise RegardError(f"there is no row {self.query} of an image here; it has {len(rows)}")

    def about(self, kind: str) -> MapKind:
        return (KINDS if self.image is None else OF_IMAGES)[kind]

    @property
    def has_page(self) -> bool:
        """The page shows shares; numbers with a sign are for the terminal and for pictures."""
        return not any(KINDS[kind].is_signed for kind in self.kinds)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind in KINDS if any(map.kind == kind for map in self.maps)]

    def layers(self, kind: str) -> list[int]:
        return sorted({map.layer for map in self.maps if map.kind == kind and map.layer is not None})

    def heads(self, kind: str) -> list[int]:
        return sorted({map.head for map in self.maps if map.kind == kind and map.head is not None})

    def pick(self, kind: str, layer: int | None = None, head: int | None = None) -> Map:
        """The map of one head; where layer or head is None, the mean over all of them; of units, which are others in
        every layer, the last layer and the first direction."""
        if kind in KINDS and KINDS[kind].has_units:
            layer = max(self.layers(kind), default=None) if layer is None else layer
            head = min(self.heads(kind), default=None) if head is None else head
        chosen = [m for m in self.maps if m.kind == kind and layer in (None, m.layer) and head in (None, m.head)]
        if not chosen:
            has = ", ".join(f"{k} (layers {self.layers(k)}, heads {self.heads(k)})" for k in self.kinds)
            wanted = "".join(f", {n} {i}" for n, i in (("layer", layer), ("head", head)) if i is not None)
            raise RegardError(f"no map of kind {kind!r}{wanted}; there are: {has}")
        if len(chosen) == 1:
            return chosen[0]
        if any(m.queries != chosen[0].queries or m.keys != chosen[0].keys for m in chosen):
            raise RegardError(f"the {kind} maps are of different words; choose one layer and head")
        mean = np.mean([m.weights for m in chosen], axis=0)
        return Map(kind=kind, layer=layer, head=head, queries=chosen[0].queries, keys=chosen[0].keys, weights=mean)

    def look_of(self, map: Map) -> tuple[str, np.ndarray]:
        """Whose look an image shows, and its weight for every key: the chosen patch, the class row, or all together."""
        is_of_patches = "queries" in self.about(map.kind).patches
        has_class_row = self.image is not None and self.image.class_row
        query = 0 if self.query is None and has_class_row else self.query
        if not is_of_patches or query is None:
            return f"mean of all {'patches' if is_of_patches else 'words'}", map.weights.mean(axis=0)
        return CLASS_ROW if has_class_row and query == 0 else f"patch {map.queries[query]}", map.weights[query]

    def looks(self, map: Map) -> list[tuple[str, np.ndarray]]:
        """What there is to show of a map on an image: the look of every word, or that of one patch."""
        if "queries" in self.about(map.kind).patches:
            return [self.look_of(map)]
        return [(visible(word), weights) for word, weights in zip(map.queries, map.weights, strict=True)]

    def to_json(self) -> str:
        """Plain lists for any reader; weights and vectors are rounded to seven decimals."""
        maps = []
        for map in self.maps:
            row: dict[str, object] = {"kind": map.kind, "layer": map.layer, "head": map.head}
            row |= {"queries": map.queries, "keys": map.keys, "weights": rounded(map.weights)}
            row |= {name: rounded(getattr(map, name)) for name in VECTORS if getattr(map, name) is not None}
            maps.append(row)
        image = None if self.image is None else self.image.to_record()
        record: dict[str, object] = {"title": self.title, "maps": maps, "opens": self.opens, "image": image}
        return json.dumps(record | {"query": self.query, "notes": self.notes})

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            read = json.loads(text)
            maps = []
            for row in read["maps"]:
                kind = row["kind"]
                layer, head = (None if row[name] is None else int(row[name]) for name in ("layer", "head"))
                queries, keys = ([str(word) for word in row[name]] for name in ("queries", "keys"))
                arrays = {name: np.array(row[name], np.float32) for name in ("weights", *VECTORS) if name in row}
                maps.append(Map(kind=kind, layer=layer, head=head, queries=queries, keys=keys, **arrays))
            opens, image, query = (read.get(name) for name in ("opens", "image", "query"))  # earlier versions had none
            return cls(
                title=str(read["title"]),
                maps=maps,
                opens=None if opens is None else read_place(*opens),
                image=None if image is None else Pictured.from_record(image),
                query=None if query is None else int(query),
                notes=tuple(map(str, read.get("notes", ()))),
            )
        except RegardError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise RegardError(f"this is not a capture that regard wrote: {error!r}") from None


def read_place(kind: str, layer: int | None, head: int | None) -> MapKey:
    return str(kind), None if layer is None else int(layer), None if head is None else int(head)


def rounded(array: np.ndarray) -> list[list[float]]:
    return np.round(array.astype(np.float64), 7).tolist()


def visible(token: str) -> str:
    """The token as one harmless line: no outer spaces, and what has no shape of its own is spelled out.

    " animal" → "animal", " " → "␣", "a\\n" → "a⏎", the escape character → "\\x1b".
    """
    inner = token.strip(" ")
    if not inner:
        return "␣" * len(token) or "∅"
    return "".join(SHAPES.get(c) or (spelled(c) if unicodedata.category(c) in HIDDEN else c) for c in inner)


SHAPES = {"\n": "⏎", "\r": "↵", "\t": "⇥", "\u200d": "\u200d", "\u200c": "\u200c"}  # joiners shape real words
HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def spelled(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def begins_word(tokens: Sequence[str]) -> list[bool]:
    """Whether a space stands before each token: as the tokens say it, or everywhere if none says so."""
    if any(token.startswith(" ") for token in tokens):
        return [token.startswith(" ") for token in tokens]
    return [True] * len(tokens)
