"""What can be imported: a folder of transformers."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.choose import choose
from regard.errors import RunError
from regard.interop.families import FAMILIES
from regard.interop.family import Family, Theirs
from regard.interop.safe import SafeFolder, Stored
from regard.text.tokenizer import Tokenizer


class Source(NamedTuple):
    """A model in files: where it lies, its family, its settings and its tensors."""

    path: Path
    model_type: str
    family: Family
    settings: Mapping[str, Any]
    stored: Stored

    @property
    def n_weights(self) -> int:
        return sum(map(math.prod, self.stored.shapes.values()))

    @property
    def theirs(self) -> Theirs:
        return Theirs(self.settings, self.n_weights, len(self.stored.shapes))


def open_source(path: Path) -> Source:
    """A folder as transformers writes it."""
    folder = SafeFolder(path)
    model_type = folder.config.get("model_type")
    if not isinstance(model_type, str):
        raise RunError(f"{path / 'config.json'} names no model_type; the families are: {', '.join(FAMILIES)}")
    family = choose(FAMILIES, model_type, "family of models (model_type)")
    return Source(path, model_type, family, folder.config, folder)


def read_tokenizer(source: Source) -> Tokenizer:
    return Tokenizer.load(source.path)
