"""Checkpoints in several files: names, indexes, who writes what, and an index that is damaged or hostile."""

import json
from pathlib import Path

import pytest
import torch

from regard.errors import RunError
from regard.runs.shards import file_name, indexes, shares, stem_of, weights_in
from regard.runs.weights import read_shapes, read_tensors, save_weights


def test_names_and_stems() -> None:
    assert file_name("model", 1, 1) == "model.safetensors"
    assert file_name("model", 2, 4) == "model-00002-of-00004.safetensors"
    assert stem_of("model.safetensors") == stem_of("model-00002-of-00004.safetensors") == "model"
    assert stem_of("model.safetensors.index.json") is None


def test_each_tensor_has_one_owner_and_loads_are_even() -> None:
    tensors = {f"{i}": torch.zeros(i + 1) for i in range(40)}
    owners = shares(tensors, 4)
    assert owners == shares(dict(reversed(tensors.items())), 4), "whatever their order"
    loads = [sum(tensors[name].numel() for name, owner in owners.items() if owner == i) for i in range(4)]
    assert sum(loads) == 820 and max(loads) - min(loads) <= 2


def write_shards(folder: Path) -> Path:
    parts = {"model-00001-of-00002.safetensors": ["a", "b"], "model-00002-of-00002.safetensors": ["c"]}
    for i, (name, inside) in enumerate(parts.items()):
        save_weights({tensor: torch.full((2, 3), float(i)) for tensor in inside}, folder / name)
    for name, content in indexes({**parts, "random.safetensors": ["cpu"]}, dict.fromkeys(parts, 10)).items():
        (folder / name).write_bytes(content)
    assert not (folder / "random.safetensors.index.json").exists(), "one file needs no index"
    return weights_in(folder, "model")


def test_an_index_is_read_as_one_file(tmp_path: Path) -> None:
    index = write_shards(tmp_path)
    assert index.name == "model.safetensors.index.json"
    assert read_shapes(index) == {name: (2, 3) for name in "abc"}
    assert [float(tensor[0, 0]) for _, tensor in sorted(read_tensors(index).items())] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["../model-00001-of-00002.safetensors", "state.json", 7])
def test_an_index_names_only_weights_beside_it(tmp_path: Path, name: object) -> None:
    index = write_shards(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": name}}), encoding="utf-8")
    for read in (read_shapes, read_tensors):
        with pytest.raises(RunError, match="is damaged: it does not list files of weights beside it"):
            read(index)
