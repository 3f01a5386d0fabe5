"""A classifier of texts with scikit-learn's interface, `fit`, `predict`, `predict_proba`: for pipelines, searches."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from regard.errors import ConfigError, missing
from regard.runs.run import Run, load
from regard.training.call import GivenTables, train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d
except ImportError:
    raise missing("scikit-learn", "sklearn") from None

# A bag of words and word pairs: seconds on a CPU, and hard to beat on small data.
BAG: GivenTables = MappingProxyType(
    {
        "data": {"max_length": 1000, "batch_tokens": 800},
        "tokenizer": {"kind": "words", "vocab_size": 20000},
        "model": {"architecture": "bag", "features": "nb", "ngrams": 2, "n_features": 50000},
        "training": {
            "steps": 200,
            "schedule": "linear",
            "learning_rate": 0.02,
            "warmup": 0,
            "clip": 0.0,
            "compile": "off",
            "save_every": 1000,
            "keep": 1,
        },
    }
)
FILES = ("recipe.toml", "tokenizer.json", "model.safetensors", "result.json")  # of a run: what classifying needs


class TextClassifier(ClassifierMixin, BaseEstimator):
    """`TextClassifier().fit(texts, labels).predict(texts)`.

    recipe:        the tables of a recipe, as a dict, or the name or file of one; the texts that are given to `fit` take
                   the place of its files; None: a bag of words and word pairs
    settings:      changes of single settings, such as {"training.steps": 400}
    folder:        where the run is kept; None: nowhere after the program ends
    random_state:  the seed: equal data give equal weights
    device:        "cpu", "cuda" or "cuda:N"; None: a GPU if there is one
    """

    def __init__(
        self,
        recipe: str | Path | GivenTables | None = None,
        settings: Mapping[str, object] | None = None,
        folder: str | Path | None = None,
        random_state: int = 0,
        device: str | None = None,
    ) -> None:
        self.recipe, self.settings, self.folder = recipe, settings, folder
        self.random_state, self.device = random_state, device

    def fit(self, X: Sequence[str], y: Sequence[object]) -> Self:
        """Train on texts and their labels, which may be of any type that sorts."""
        texts = checked_texts(X)
        if y is None:
            raise ConfigError("TextClassifier requires y to be passed, but the target y is None")
        labels = column_or_1d(y, warn=True)
        check_consistent_length(texts, labels)
        check_classification_targets(labels)
        classes, places = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ConfigError(f"a classifier needs at least 2 classes, and y has 1 class: {classes[0]!r}")
        names = [f"{place:08d}" for place in range(len(classes))]  # sorted as the classes are
        if self.folder is None:
            self.place_ = tempfile.TemporaryDirectory()  # removed with this object
        place = Path(self.place_.name if self.folder is None else self.folder)
        place.mkdir(parents=True, exist_ok=True)
        rows = ({"text": text, "label": names[i]} for text, i in zip(texts, places, strict=True))
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (place / "train.jsonl").write_text("".join(lines), encoding="utf-8", errors="surrogatepass")
        settings = {
            "task.labels": names,
            "task.names": [],
            "data.root": str(place),
            "data.train": ["train.jsonl"],
            "data.valid": [],
            "data.test": [],
            "data.test_share": 0.0,
            "data.columns": ["text", "label"],
            "training.seed": self.random_state,
        }
        recipe = BAG if self.recipe is None else self.recipe
        if isinstance(recipe, Mapping):
            recipe = {**recipe, "task": {"kind": "classification", **recipe.get("task", {})}}
        self.run_ = train(
            recipe, place / "run", settings={**settings, **(self.settings or {})}, device=self.device, quiet=True
        )
        self.classes_ = classes
        return self

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """(texts, classes), in the order of `classes_`."""
        check_is_fitted(self, "run_")
        texts = checked_texts(X)
        answers = self.run_.classify(texts)
        return np.array([list(answer.probabilities.values()) for answer in answers]).reshape(-1, len(self.classes_))

    def predict(self, X: Sequence[str]) -> np.ndarray:
        """The likeliest class of each text."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:  # scikit-learn's Tags
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array, tags.input_tags.string = True, False, True
        return tags

    # Pickled with the files of its run, so that it can be sent to other processes and kept.

    def __getstate__(self) -> dict[str, object]:
        state = dict(super().__getstate__())
        run: Run | None = state.pop("run_", None)
        state.pop("place_", None)
        if run is not None:
            state["files_"] = {name: (run.folder / name).read_bytes() for name in FILES}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("files_", None)
        super().__setstate__(state)
        if files is not None:
            self.place_ = tempfile.TemporaryDirectory()
            folder = Path(self.place_.name) / "run"
            folder.mkdir()
            for name in FILES:
                (folder / name).write_bytes(files[name])
            self.run_ = load(folder, self.device)


def checked_texts(texts: object) -> list[str]:
    """A list, an array or a column of texts."""
    if isinstance(texts, str):
        raise ConfigError("expected a list of texts, got one text; put it into a list")
    array = np.asarray(texts, dtype=object)
    if array.ndim != 1:
        raise ConfigError(f"expected one column of texts, got an array of {array.ndim} dimensions; Reshape your data")
    if not len(array):
        raise ConfigError("expected at least one text, found array with 0 sample(s)")
    for place, text in enumerate(array):
        if not isinstance(text, str):
            raise ConfigError(f"expected texts, got {type(text).__name__} at place {place}")
    return array.tolist()
