"""A small capture with a known answer: "it" looks at the animal."""

from collections.abc import Iterator

import numpy as np
import pytest
from chromium import started_browser
from playwright.sync_api import Browser

from regard.viewer.capture import Capture
from regard.viewer.map_set import Map

SOURCE = ["The", " animal", " did", "n't", " cross", " the", " street", " because", " it", " was", " tired", "."]
TARGET = ["<s>", "L'", "animal", " n'a", " pas", " traversé"]


def attend(queries: np.ndarray, keys: np.ndarray, causal: bool = False) -> np.ndarray:
    """softmax(QKᵀ/√d), written here so that the vectors and the weights of the capture agree."""
    scores = queries @ keys.T / np.sqrt(keys.shape[1])
    if causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture
def capture() -> Capture:
    random = np.random.default_rng(0)
    maps = []
    sides = {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}
    for kind, (queries, keys) in sides.items():
        for layer in range(2):
            for head in range(3):
                q, k, v = (random.normal(size=(len(words), 8)) for words in (queries, keys, keys))
                if (kind, layer, head) == ("encoder", 1, 0):
                    q[8] = 4 * k[1]
                weights = attend(q, k, causal=kind == "decoder")
                vectors = {"query_vectors": q, "key_vectors": k, "value_vectors": v}
                maps.append(
                    Map(kind=kind, layer=layer, head=head, queries=queries, keys=keys, weights=weights, **vectors)
                )
    return Capture(title="The animal didn't cross the street because it was tired.", maps=maps)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with started_browser() as browser:
        yield browser
