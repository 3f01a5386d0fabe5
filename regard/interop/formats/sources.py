"""What can be imported: a folder of transformers or CTranslate2, a GGUF file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.choose import choose
from regard.errors import RunError
from regard.interop.families.ctranslate2 import CTRANSLATE2
from regard.interop.families.family import Family
from regard.interop.families.settings import Theirs
from regard.interop.families.table import FAMILIES
from regard.interop.formats.from_ctranslate2 import CTranslate2Folder, is_ctranslate2
from regard.interop.formats.gguf_file import GgufFile
from regard.interop.formats.safe import FLOATS, SafeFolder, Stored
from regard.text.tokenizer import Tokenizer


class Source(NamedTuple):
    """A model in files: their path, its family, its settings and its tensors."""

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
    """A folder as transformers or CTranslate2 writes it, or a GGUF file."""
    if is_ctranslate2(path):
        model = CTranslate2Folder(path)
        return Source(path, "ctranslate2", CTRANSLATE2, model.config, model)
    files: SafeFolder | GgufFile = GgufFile(path) if path.suffix == ".gguf" and path.is_file() else SafeFolder(path)
    model_type = files.config.get("model_type")
    if not isinstance(model_type, str):
        raise RunError(f"{path / 'config.json'} names no model_type; the families are: {', '.join(FAMILIES)}")
    family = choose(FAMILIES, model_type, "family of models (model_type)")
    for name, kind in files.others.items():
        if not family.is_spare(name) and not family.is_head(name):
            raise RunError(
                f"{path}: {name} is of the type {kind}; weights are read in {', '.join(FLOATS)}, and without this one "
                "it would not be the same model"
            )
    return Source(path, model_type, family, files.config, files)


def read_tokenizer(source: Source) -> Tokenizer:
    return Tokenizer.load(source.path)
