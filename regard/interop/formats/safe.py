"""An untrusted folder, read as safetensors and JSON only.  Everything is checked before memory is allocated for it."""

import json
import math
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.config import Settings
from regard.errors import RunError
from regard.memory import check_memory

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
FLOATS = ("F64", "F32", "F16", "BF16")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
LONGEST_JSON = 16 << 20  # bytes


class SafeFolder:
    """`config` is config.json, `shapes` what the headers of the weights say."""

    def __init__(self, path: Path):
        self.path = path
        if not path.is_dir():
            refuse_pickle([path] if path.is_file() else [])
            refuse_bare(path)
            raise RunError(
                f"{path} is not a folder; name one with config.json and {WEIGHTS}, as transformers writes it"
            )
        self.config = read_json(path / "config.json")
        if self.config.get("quantization_config"):
            raise RunError(
                f"{path / 'config.json'} has a quantization_config: the weights are not plain numbers. Load the folder "
                "in transformers, call the model's dequantize() and save it with save_pretrained(NEW)"
            )
        self.files = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.others: dict[str, str] = {}  # what is not floating point, such as masks and positions, and its type
        for file in weight_files(path):
            with opened(file) as tensors:
                for name in tensors.keys():  # noqa: SIM118 (it is not a dict)
                    if name in self.shapes or name in self.others:
                        raise RunError(f"{file.name} holds {name} a second time; {path} is corrupted")
                    stored = tensors.get_slice(name)
                    if stored.get_dtype() in FLOATS:
                        self.files[name], self.shapes[name] = file, tuple(stored.get_shape())
                    else:
                        self.others[name] = stored.get_dtype()
        check_memory(4 * sum(map(math.prod, self.shapes.values())), f"{path} in float32", "use a larger machine")

    def read(self, name: str) -> Tensor:
        file = self.files[name]
        with opened(file) as tensors:
            tensor: Tensor = tensors.get_tensor(name).float()
        if not torch.isfinite(tensor).all():
            raise RunError(f"{file.name}: {name} contains NaN or infinity; nothing was imported")
        return tensor


def refuse_links_out(folder: Path) -> None:
    """A link of an untrusted folder could bring any file of this machine into a run that is then handed on.  The cache
    of the hub has all files of a model in one folder, `blobs`, beside those of its versions: such links are fine."""
    inside = [Path(os.path.realpath(folder))]
    if inside[0].parent.name == "snapshots":
        inside.append(inside[0].parent.parent / "blobs")
    for path in (entry for place in (folder, folder / "model") if place.is_dir() for entry in sorted(place.iterdir())):
        target = Path(os.path.realpath(path))  # unlike resolve, it takes links in a circle, too
        if path.is_symlink() and not any(target.is_relative_to(place) for place in inside):
            raise RunError(f"{path} is a link to {target}, out of the folder; if you trust it, copy the file there")


def weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        names = read_json(folder / INDEX).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise RunError(f"{folder / INDEX} has no weight_map of tensor names to file names; it is corrupted")
        files = sorted(set(names.values()))
        for name in files:
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise RunError(f"{folder / INDEX} names {name!r}, which is not a safetensors file of this folder")
            if not (folder / name).is_file():
                raise RunError(f"{folder / name} is missing, and {INDEX} names it; copy the folder again")
        return [folder / name for name in files]
    refuse_pickle(sorted(folder.iterdir()))
    raise RunError(f"{folder} has no {WEIGHTS} (and no {INDEX}): there are no weights to read")


def refuse_pickle(files: list[Path]) -> None:
    for file in files:
        if file.suffix in PICKLES:
            raise RunError(
                f"{file} is a pickle: to load it is to run whatever program its maker put into it, so regard does not. "
                "Ask its maker for safetensors, or turn it into them where nothing can be harmed: "
                "transformers' CLASS.from_pretrained(FOLDER).save_pretrained(NEW) writes them, CLASS being what "
                "config.json names under architectures; its AutoTokenizer does the same for the tokenizer"
            )


def refuse_bare(path: Path) -> None:
    if path.is_file() and path.suffix == ".safetensors":
        raise RunError(
            f"{path} has tensors and no settings: their shapes do not say how many heads there are, nor how pixels are "
            f"made. Put it as {WEIGHTS} into a folder with the config.json that belongs to it; timm's has "
            '{"architecture": "vit_base_patch16_224", "num_classes": .., "pretrained_cfg": {"mean": .., "std": .., ..}}'
        )


def read_json(path: Path) -> Settings:
    """A JSON object.  Deep, long or broken ones are an error like any other."""
    if not path.is_file():
        raise RunError(f"{path} is missing; a folder that transformers wrote has it")
    if path.stat().st_size > LONGEST_JSON:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes, more than settings need ({LONGEST_JSON:,})")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, a number of 5,000 digits
        raise RunError(f"{path} is not usable JSON: {error}") from None
    if not isinstance(content, dict):
        raise RunError(f"{path} must hold a JSON object, not {type(content).__name__}")
    return content


def opened(file: Path) -> safe_open:
    """The library checks the header: its length, that offsets lie in the file, follow each other and fit the shapes."""
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{file} is not a usable safetensors file: {error}") from None
