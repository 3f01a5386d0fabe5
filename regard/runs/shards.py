"""Tensors in several safetensors files with an index, named as Hugging Face names them.

Each file has whole tensors, so safetensors alone reads it; the index says which file has which.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from regard.errors import RunError
from regard.processes import Processes
from regard.runs.records import read_record

SUFFIX, INDEX = ".safetensors", ".safetensors.index.json"


def file_name(stem: str, number: int, n: int) -> str:
    """Of one of n files; counted from 1."""
    return f"{stem}{SUFFIX}" if n == 1 else f"{stem}-{number:05d}-of-{n:05d}{SUFFIX}"


def stem_of(name: str) -> str | None:
    """What a file has a part of; None: it has no tensors."""
    match = re.fullmatch(r"(.+?)(-\d{5}-of-\d{5})?\.safetensors", name)
    return match[1] if match else None


def own_names(stems: list[str], processes: Processes) -> dict[str, str]:
    """The file of this process for each of its stems: one of several where other processes have a part too."""
    rows = processes.gather(stems)
    names = {}
    for stem in stems:
        ranks = [rank for rank, row in enumerate(rows) if stem in row]
        names[stem] = file_name(stem, ranks.index(processes.rank) + 1, len(ranks))
    return names


def indexes(files: Mapping[str, list[str]], sizes: Mapping[str, int]) -> dict[str, bytes]:
    """By name, the index of each stem that has several files; these are given with the names of their tensors."""
    stems: dict[str, list[str]] = {}
    for name in sorted(files):
        stems.setdefault(stem_of(name) or name, []).append(name)
    return {
        f"{stem}{INDEX}": json.dumps(
            {
                "metadata": {"total_size": sum(sizes[name] for name in names)},
                "weight_map": {tensor: name for name in names for tensor in files[name]},
            },
            indent=2,
        ).encode()
        for stem, names in stems.items()
        if len(names) > 1
    }


def weights_in(folder: Path, stem: str) -> Path:
    """Their file, or the index of several."""
    index = folder / f"{stem}{INDEX}"
    return index if index.is_file() else folder / file_name(stem, 1, 1)


def files_of(index: Path) -> list[Path]:
    """Those that an index lists, beside it."""
    listed = (read_record(index) or {}).get("weight_map")
    if not isinstance(listed, dict) or not all(
        isinstance(n, str) and stem_of(n) and "/" not in n for n in listed.values()
    ):
        raise RunError(f"{index} is damaged: it does not list files of weights beside it")
    return [index.parent / name for name in sorted(set(listed.values()))]


def shares(tensors: Mapping[str, Tensor], n: int) -> dict[str, int]:
    """Which of n processes keeps which tensor: the largest first, each to the one that has the least so far."""
    loads = [0] * n
    owners = {}
    for name in sorted(tensors, key=lambda name: (-tensors[name].numel(), name)):
        owners[name] = loads.index(min(loads))
        loads[owners[name]] += tensors[name].nbytes
    return owners
