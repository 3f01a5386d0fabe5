"""The folder of an encoder-decoder of CTranslate2.  What it has and we do not is refused.

Its model.bin is read strictly: a name for the kind of model, then variables, then second names of some.  Every length
is compared with what the file still holds before anything is read; numbers are read on demand.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.errors import RunError
from regard.interop.formats.ctranslate2_settings import frame_of, settings_of
from regard.interop.formats.safe import read_json
from regard.text.foreign import read_words

VERSION = 6  # of the binary format
TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "bfloat16")  # by their number
MOST_DIMENSIONS = 8
LONGEST_NAME = 1024
VOCABULARY = "shared_vocabulary.json"
LAST_NORM = ("decoder/layer_norm/gamma", "decoder/layer_norm/beta")
NEVER = -1e4  # the logit of a token that is not to be written, also in half precision
# What has a row for every word, and what a row more is made of.
TABLES = {
    "decoder/embeddings/weight": 0.0,
    "encoder/embeddings_0/weight": 0.0,
    "decoder/projection/weight": 0.0,
    "decoder/projection/bias": NEVER,
}


class Variable(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    offset: int
    n_bytes: int


class CTranslate2File:
    """`shapes` are those of the weights (as `Stored` has them), `settings` the variables that are single numbers."""

    def __init__(self, path: Path):
        self.path = path
        with path.open("rb") as file:
            reader = BinaryReader(file, path)
            version = reader.number("<I")
            if version != VERSION:
                raise RunError(f"{path} has version {version} of CTranslate2's format, and regard reads {VERSION}")
            self.kind, self.revision = reader.name(), reader.number("<I")
            self.variables = reader.variables()
            self.variables |= reader.aliases(self.variables)
            if reader.left:
                raise RunError(f"{path} goes on for {reader.left:,} bytes after its end; it is corrupted")
        single = {name for name, variable in self.variables.items() if not variable.shape}
        scales = {f"{name}_scale" for name in self.variables} & self.variables.keys()
        self.settings = {name: self.numbers(name).item() for name in single - scales}
        self.shapes: Mapping[str, tuple[int, ...]] = {
            name: variable.shape for name, variable in self.variables.items() if name not in single | scales
        }

    def read(self, name: str) -> Tensor:
        """In float32: whole numbers divided by the scale of their row (of all rows, for int16)."""
        tensor = self.numbers(name).float()
        scale = f"{name}_scale"
        if scale in self.variables:
            rows = self.numbers(scale).float()
            if rows.ndim and rows.shape != tensor.shape[:1]:
                raise RunError(f"{self.path}: {scale} has {tuple(rows.shape)} numbers for {tuple(tensor.shape)}")
            tensor = tensor / (rows.reshape(-1, *[1] * (tensor.ndim - 1)) if rows.ndim else rows)
        elif self.variables[name].dtype in ("<i1", "<i2", "<i4"):
            raise RunError(f"{self.path}: {name} has integers without a scale; nothing was imported")
        if not torch.isfinite(tensor).all():
            raise RunError(f"{self.path}: {name} contains NaN or infinity; nothing was imported")
        return tensor

    def numbers(self, name: str) -> Tensor:
        """As they are stored."""
        variable = self.variables[name]
        with self.path.open("rb") as file:
            file.seek(variable.offset)
            content = file.read(variable.n_bytes)
        if variable.dtype == "bfloat16":
            return torch.frombuffer(bytearray(content), dtype=torch.bfloat16).reshape(variable.shape)
        return torch.from_numpy(np.frombuffer(content, variable.dtype).copy()).reshape(variable.shape)


class BinaryReader:
    """Goes through a file once and never asks for more than it holds."""

    def __init__(self, file: BinaryIO, path: Path):
        self.file, self.path, self.size = file, path, path.stat().st_size

    @property
    def left(self) -> int:
        return self.size - self.file.tell()

    def take(self, n_bytes: int) -> bytes:
        if n_bytes > self.left:
            raise RunError(f"{self.path} is cut short: {n_bytes:,} bytes should follow, and there are {self.left:,}")
        return self.file.read(n_bytes)

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(value)

    def name(self) -> str:
        """Its length with the zero at its end, and its bytes."""
        length = self.number("<H")
        if not 1 < length <= LONGEST_NAME:
            raise RunError(f"{self.path} holds a name of {length - 1} bytes; it is corrupted")
        content = self.take(length)
        try:
            text = content[:-1].decode("ascii")
        except UnicodeDecodeError:
            text = ""
        if content[-1] or not text.isprintable() or not text:
            raise RunError(f"{self.path} holds a name that is not text; it is corrupted")
        return text

    def variables(self) -> dict[str, Variable]:
        variables: dict[str, Variable] = {}
        for _ in range(self.number("<I")):  # each takes some bytes, so the end of the file ends this
            name = self.name()
            if name in variables:
                raise RunError(f"{self.path} holds {name} twice; it is corrupted")
            n_dimensions = self.number("<B")
            if n_dimensions > MOST_DIMENSIONS:
                raise RunError(f"{self.path}: {name} has {n_dimensions} dimensions; it is corrupted")
            shape = tuple(self.number("<I") for _ in range(n_dimensions))
            type_number = self.number("<B")
            if type_number >= len(TYPES):
                raise RunError(f"{self.path}: {name} has the type {type_number}, which is none of {len(TYPES)}")
            dtype, n_bytes = TYPES[type_number], self.number("<I")
            item = 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize
            if math.prod(shape) * item != n_bytes or n_bytes == 0:
                raise RunError(f"{self.path}: {name} of {shape} has {n_bytes:,} bytes; it is corrupted")
            variables[name] = Variable(shape, dtype, self.file.tell(), n_bytes)
            if n_bytes > self.left:
                self.take(n_bytes)
            self.file.seek(n_bytes, 1)
        return variables

    def aliases(self, variables: Mapping[str, Variable]) -> dict[str, Variable]:
        """The scale of a variable is that of its second name, too."""
        aliases: dict[str, Variable] = {}
        for _ in range(self.number("<I")):
            alias, name = self.name(), self.name()
            if name not in variables or alias in variables or alias in aliases:
                raise RunError(f"{self.path} says that {alias} is {name}, which cannot be; it is corrupted")
            aliases[alias] = variables[name]
            if f"{name}_scale" in variables:
                aliases[f"{alias}_scale"] = variables[f"{name}_scale"]
        return aliases


class CTranslate2Folder:
    """model.bin and what lies beside it, or in the folder above, as Argos packs it; the settings as one `config`.

    `shapes` and `read` give the tensors as ours have them: where theirs start from an embedding of zeros, ours have a
    row more, for a token that is never written; where theirs scale the last rows, the norm that makes them is scaled.
    """

    def __init__(self, path: Path):
        self.folder = folder = model_folder(path)
        self.file = file = CTranslate2File(folder / "model.bin")
        if file.kind != "TransformerSpec":
            raise RunError(f"{file.path} is a {file.kind}; of CTranslate2's models regard reads TransformerSpec")
        settings = read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
        model = settings_of(file)
        if not (folder / VOCABULARY).is_file():
            raise RunError(f"{folder} has no {VOCABULARY}; regard's translators have one for source and target")
        self.words = read_words(folder / VOCABULARY)
        try:
            frame = frame_of(settings, model, self.words)
        except RunError as error:
            raise RunError(f"{folder}: {error}") from None
        self.adds_end = settings.get("add_source_eos", True)
        self.config = model | frame | {"layer_norm_epsilon": settings.get("layer_norm_epsilon")}
        self.shapes = dict(file.shapes)
        if model["start_from_zero_embedding"]:
            n_words = file.shapes["decoder/embeddings/weight"][0]
            self.shapes |= {name: (n_words + 1, *file.shapes[name][1:]) for name in TABLES if name in file.shapes}
            self.shapes["decoder/projection/bias"] = (n_words + 1,)

    def read(self, name: str) -> Tensor:
        is_stored = name in self.file.shapes
        tensor = self.file.read(name) if is_stored else torch.zeros(self.shapes[name][0] - 1)
        if name in LAST_NORM:
            tensor = tensor * self.config["scale_outputs"]
        if name in TABLES and self.config["start_from_zero_embedding"]:
            tensor = torch.cat([tensor, torch.full_like(tensor[:1], TABLES[name])])
        return tensor


def is_ctranslate2(path: Path) -> bool:
    file = model_folder(path) / "model.bin"
    if not file.is_file() or (path / "model.safetensors").is_file():
        return False
    with open(file, "rb") as opened:
        return not opened.read(4).startswith((b"PK", b"\x80"))  # the pickles of PyTorch may have that name, too


def model_folder(path: Path) -> Path:
    return path / "model" if (path / "model" / "model.bin").is_file() else path
