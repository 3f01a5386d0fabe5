"""What images look like before anything is learned from them: rows for `regard doctor`."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regard.data.images.examples import Images
from regard.data.images.opening import Traits
from regard.data.images.store import PixelStore
from regard.data.report import Row, note_rows

N_MEASURED = 2000  # images at most, evenly spread, for the mean and the spread of pixels
KINDS = {Traits.GRAY: "gray", Traits.COLOR: "color", Traits.CMYK: "CMYK", Traits.ALPHA: "with alpha"}
CHANNELS = {1: "gray", 3: "red/green/blue"}
PlaceOfImage = Callable[[int], str]  # the place of image i


def image_rows(name: str, images: Images, store: PixelStore, labels: Sequence[str] | None = None) -> list[Row]:
    """Of one part of the data; sizes and pixels are those that a model reads."""
    rows = [Row(name, "images", f"{len(images):,}"), *size_rows(name, store)]
    counts = {kind: int(np.count_nonzero(store.traits & trait)) for trait, kind in KINDS.items()}
    rows.append(Row(name, "channels in the files", ", ".join(f"{kind} {n:,}" for kind, n in counts.items() if n)))
    rows += pixel_rows(name, store)
    one_color = [i for i in range(len(store)) if is_constant(store[i])]
    rows.append(counted(name, "images of one color", one_color, images.where))
    rows += duplicate_rows(name, store, labels, images.where)
    if labels is not None:
        n_each = Counter(labels)
        rows += [Row(name, f"label {label}", f"{n:,} ({n / len(labels):.1%})") for label, n in sorted(n_each.items())]
    return [*rows, *note_rows(name, images.notes), *note_rows(name, store.notes)]


def size_rows(name: str, store: PixelStore) -> list[Row]:
    """By the number of pixels."""
    order = np.argsort(store.sizes.prod(1), kind="stable")
    picked = [store.sizes[order[i]] for i in (0, (len(order) - 1) // 2, -1)]
    shown = " / ".join(f"{height} x {width}" for height, width in picked)
    return [
        Row(name, "height x width, smallest / median / largest", shown),
        Row(name, "different sizes", f"{len(np.unique(store.sizes, axis=0)):,}"),
    ]


def pixel_rows(name: str, store: PixelStore) -> list[Row]:
    """The mean and the standard deviation of each channel, from 0 to 1, over the pixels of all images."""
    places = np.unique(np.linspace(0, len(store) - 1, min(N_MEASURED, len(store))).astype(np.int64))
    pixels = (store[int(i)].reshape(-1, store.channels) for i in places)
    sums = np.sum([channel_sums(rows) for rows in pixels], axis=0)
    mean = sums[1] / sums[0] / 255
    spread = np.sqrt(np.maximum(sums[2] / sums[0] / 255**2 - mean**2, 0))
    of = f"{CHANNELS[store.channels]}, of {len(places):,} images"
    return [
        Row(name, f"mean, {of}", "/".join(f"{value:.3f}" for value in mean)),
        Row(name, f"standard deviation, {of}", "/".join(f"{value:.3f}" for value in spread)),
    ]


def channel_sums(rows: np.ndarray) -> np.ndarray:
    """How many pixels there are, their sum, and that of their squares: 8-bit (n, C) → exact (3, C)."""
    squares = np.square(rows.astype(np.uint16))  # at most 65,025
    counts = np.full(rows.shape[1], len(rows))
    return np.stack([counts, rows.sum(0, dtype=np.int64), squares.sum(0, dtype=np.int64)])


def is_constant(pixels: np.ndarray) -> bool:
    """Whether all pixels are equal."""
    return bool((pixels == pixels[:1, :1]).all())


def duplicate_rows(name: str, store: PixelStore, labels: Sequence[str] | None, where: PlaceOfImage) -> list[Row]:
    first: dict[str, int] = {}
    earlier = [first.setdefault(key, i) for i, key in enumerate(store.digests)]
    repeated = [i for i, j in enumerate(earlier) if j < i]
    rows = [counted(name, "the same as an earlier image", repeated, where)]
    if labels is not None:
        differing = [i for i in repeated if labels[i] != labels[earlier[i]]]
        rows.append(counted(name, "the same as an earlier image, with another label", differing, where))
    return rows


def overlap_rows(parts: Mapping[str, PixelStore], images: Mapping[str, Images]) -> list[Row]:
    """Images of validation and test that training has too, by their pixels, and those of the test in validation."""
    rows = []
    names = list(parts)
    for i, name in enumerate(names):
        for other in names[:i]:
            known = set(parts[other].digests)
            shared = [k for k, key in enumerate(parts[name].digests) if key in known]
            of = {"train": "training", "valid": "validation"}.get(other, other)
            rows.append(counted(name, f"also in {of}", shared, images[name].where))
    return rows


def counted(name: str, what: str, places: Sequence[int], where: PlaceOfImage) -> Row:
    return Row(name, what, f"{len(places):,}", where(places[0]) if places else "")
