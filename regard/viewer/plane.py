"""A picture (PNG) of embeddings in the plane of their two principal components, each with its word."""

from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.errors import RegardError
from regard.viewer.map_set import begins_word, visible
from regard.viewer.style import LIGHT, Drawing, Style, blank, drawable, fonts, legend, note, plain, shown

SIDES = [
    (dx, dy)
    for r in (5, 11, 19, 29)
    for dx, dy in ((r, 0), (-r, 0), (0, r), (0, -r), (r, r), (-r, r), (r, -r), (-r, -r))
]
SHAPES = "os^Dv"  # of dots
LONGEST_NAME = 40  # letters of a class
INSIDE = "·"  # before a token that goes on a word, or begins a text
FAR = 8  # points of the offset from which on a thin line leads from the word to its dot
SIZE, WIDE, HIGH = 8.5, 5.6, 10.5  # points: of the letters, and of the room that one takes
LabelBox = tuple[float, float, float, float]  # left, low, right, high


def embeddings(
    vectors: np.ndarray,
    tokens: list[str],
    path: Drawing,
    classes: list[str] | None = None,
    marked: Collection[int] = (),
    style: Style = LIGHT,
) -> None:
    """A color for each class; those at the `marked` places, such as words asked about, are ringed and bold."""
    if vectors.ndim != 2 or len(vectors) != len(tokens) or len(tokens) < 2:
        raise RegardError(
            f"embeddings need two or more rows and a label for each, got {vectors.shape} and {len(tokens)}"
        )
    begin = begins_word(tokens)
    labels = [("" if begins else INSIDE) + visible(token) for token, begins in zip(tokens, begin, strict=True)]
    points, shares = principal_plane(vectors)
    figure = blank(8.5, 6.5, style)
    axes = figure.add_subplot()
    names = list(dict.fromkeys(classes or ()))
    kinds = [names.index(name) for name in classes] if classes else [0] * len(labels)
    for kind in sorted(set(kinds)):
        places = [place for place, other in enumerate(kinds) if other == kind]
        color, shape = mark_of(kind, style)
        x, y = points[places].T
        axes.scatter(x, y, s=22, color=color, marker=shape, alpha=0.8, linewidths=0, zorder=2)
    rings = sorted(marked)
    axes.scatter(
        points[rings, 0], points[rings, 1], s=90, facecolors="none", edgecolors=style.ink, linewidths=1.3, zorder=3
    )
    if len(names) > 1:
        for i, name in enumerate(names):
            color, shape = mark_of(i, style)
            axes.scatter([], [], s=22, color=color, marker=shape, label=drawable(visible(name))[:LONGEST_NAME])
        legend(axes, style, n_above=min(len(names), max(1, 100 // (4 + max(map(len, names))))))
    axes.set_xlabel(f"first principal component ({shares[0]:.0%} of the variance)", color=style.soft)
    axes.set_ylabel(f"second ({shares[1]:.0%})", color=style.soft)
    axes.grid(color=style.rule, linewidth=0.6)
    axes.margins(0.09)
    plain(axes, style)
    n_hidden = place_labels(figure, axes, points, labels, rings, style)
    notes = ["" if all(begin) else f"{INSIDE}word: no space stands before it"]
    notes += [f"{n_hidden} of {len(labels)} words are not written: there is no room beside their dots"] * bool(n_hidden)
    if any(notes):
        note(figure, "; ".join(filter(None, notes)), style)
    figure.savefig(path, format="png")


def mark_of(kind: int, style: Style) -> tuple[str, str]:
    """A color for each class, and another shape once the colors are used up."""
    n = len(style.lines)
    return style.lines[kind % n], SHAPES[kind // n % len(SHAPES)]


def principal_plane(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PCA: with X centered and X = U S Vᵀ, the points are U S (two columns); a share is s² / Σ s²."""
    centered = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    left, singular, right = np.linalg.svd(centered, full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(axis=1)])  # a component has no sign: fix it
    points, shares = np.zeros((len(vectors), 2)), np.zeros(2)
    n = min(2, len(singular))
    points[:, :n] = (left * singular * signs)[:, :n]
    shares[:n] = singular[:n] ** 2 / max(float((singular**2).sum()), 1e-30)
    return points, shares


def place_labels(
    figure: Figure, axes: Axes, points: np.ndarray, labels: list[str], marked: list[int], style: Style
) -> int:
    """Each word beside its dot, at the nearest place where it hides no other word and no dot, marked ones first; one
    for which there is none is left out.  Returns how many are."""
    figure.draw_without_rendering()
    pixels, scale = axes.transData.transform(points), figure.dpi / 72
    taken = [(x - 2 * scale, y - 2 * scale, x + 2 * scale, y + 2 * scale) for x, y in pixels]
    inside = axes.get_window_extent()
    n_hidden = 0
    for i in [*marked, *(i for i in range(len(labels)) if i not in marked)]:
        text = shown(labels[i])
        others = [box for j, box in enumerate(taken) if j != i]
        boxes = ((side, box_at(pixels[i], side, len(text), scale)) for side in SIDES)
        free = [(side, box) for side, box in boxes if fits(box, others, (*inside.min, *inside.max))]
        if not free:
            n_hidden += 1
            continue
        side, box = free[0]
        taken.append(box)
        line = {"arrowstyle": "-", "color": style.soft, "linewidth": 0.5, "shrinkA": 0}
        axes.annotate(
            text,
            points[i],
            side,
            textcoords="offset points",
            ha=("right", "center", "left")[1 + int(np.sign(side[0]))],
            va=("top", "center", "bottom")[1 + int(np.sign(side[1]))],
            fontsize=SIZE,
            color=style.ink,
            parse_math=False,
            fontfamily=list(fonts()),
            fontweight="bold" if i in marked else "normal",
            arrowprops=line if max(map(abs, side)) > FAR else None,
        )
    return n_hidden


def box_at(pixel: np.ndarray, side: tuple[int, int], n_letters: int, scale: float) -> LabelBox:
    """What a word takes, in pixels, at an offset from its dot."""
    width, height = (WIDE * n_letters + 2) * scale, HIGH * scale
    left = pixel[0] + side[0] * scale - (width if side[0] < 0 else width / 2 if side[0] == 0 else 0)
    low = pixel[1] + side[1] * scale - (height if side[1] < 0 else height / 2 if side[1] == 0 else 0)
    return left, low, left + width, low + height


def fits(box: LabelBox, others: list[LabelBox], inside: LabelBox) -> bool:
    is_inside = inside[0] <= box[0] and inside[1] <= box[1] and box[2] <= inside[2] and box[3] <= inside[3]
    return is_inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in others)
