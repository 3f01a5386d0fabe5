"""Pointing: how often the largest attention weight, while a noun is written, lies on what the noun names.

This is the pointing game (Zhang et al. 2016) for words: a patch lies on an object if its center is inside its box.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from regard.data.images.boxes import Box
from regard.evaluation.measured import Metric, proportion
from regard.nn.grid import Shape

LayerHead = tuple[int, int]  # layer and head, counted from 0


def patches_inside(box: Box, shape: Shape, patch: int) -> np.ndarray:
    """Whether the center of each patch of an image is inside a box; row by row (patches)."""
    down, across = ((np.arange(n) + 0.5) * patch for n in shape)
    is_in_rows = (box.top <= down) & (down < box.bottom)
    is_in_columns = (box.left <= across) & (across < box.right)
    return (is_in_rows[:, None] & is_in_columns).flatten()


def holds_center(box: Box, height: int, width: int) -> bool:
    """Whether the center of an image is inside a box."""
    return box.top <= height / 2 < box.bottom and box.left <= width / 2 < box.right


def points_inside(weights: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Weights (N, H, K) of N nouns in H heads, and which rows are on what is named (N, K) -> whether each is (N, H)."""
    return np.take_along_axis(inside, weights.argmax(-1), axis=1)


@dataclass(frozen=True)
class Pointing:
    """What every head did while each of N nouns was written, and two who know nothing of the image."""

    names: list[str]  # of the objects: "red circle"
    hits: dict[LayerHead, np.ndarray]  # whether the head pointed at the object (N)
    chance: np.ndarray  # the share of the patches on the object (N): of pointing anywhere
    center: np.ndarray  # whether the center of the image is inside the object's box (N)

    def best(self) -> LayerHead:
        return max(self.hits, key=lambda head: self.hits[head].mean())

    def metric(self, name: str, is_hit: np.ndarray) -> Metric:
        return proportion(name, int(is_hit.sum()), len(is_hit), f"n:{len(is_hit)}|largest weight inside the box")

    def metrics(self, head: LayerHead, known: Iterable[str]) -> list[Metric]:
        """Of one head, for all nouns; apart for objects of known names and of others, where there are both."""
        is_known = np.isin(self.names, list(known))
        hits = self.hits[head]
        metrics = [self.metric("all nouns", hits)]
        if not is_known.all():
            parts = {"objects of the training data": is_known, "other objects": ~is_known}
            metrics += [self.metric(name, hits[part]) for name, part in parts.items() if part.any()]
        signature = metrics[0].signature
        chance = Metric(name="pointing anywhere", value=100 * float(self.chance.mean()), signature=signature)
        return [*metrics, self.metric("pointing at the center", self.center), chance]
