"""A module's weights as one safetensors file.  A tensor with two names (tied) is written once, under the first."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.errors import RunError
from regard.runs.durable import write_file
from regard.runs.shards import files_of

WeightShape = tuple[int, ...]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The module's own tensors by name; those of `state_dict`, each once."""
    once = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict().items() if name in once}


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    check_fit(model, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, where)
    try:
        model.load_state_dict(dict(tensors), strict=False)  # not strict: the second names of tied tensors are absent
    except RuntimeError as error:
        raise RunError(f"{where} does not fit the model: {error}") from None


def check_fit(model: nn.Module, shapes: Mapping[str, WeightShape], where: str) -> None:
    """Raise unless tensors of these names and shapes are the weights of the model, which may be on the meta device."""
    expected = weights_of(model)
    missing = sorted(expected.keys() - shapes.keys())
    unknown = sorted(shapes.keys() - expected.keys())
    if missing or unknown:
        raise RunError(f"{where} does not fit the model: missing {missing[:3]}, unknown {unknown[:3]}")
    parameters = {name for name, _ in model.named_parameters()}  # counts, which are buffers, have the size they have
    for name, shape in shapes.items():
        if name in parameters and shape != tuple(expected[name].shape):
            wanted = tuple(expected[name].shape)
            raise RunError(f"{where} does not fit the model: {name} is {shape}, the model has {wanted}")


def read_shapes(path: Path) -> dict[str, WeightShape]:
    """By name, from the header of a file, or of all that an index lists: nothing else of it is read."""
    if path.suffix == ".json":
        return {name: shape for part in files_of(path) for name, shape in read_shapes(part).items()}
    try:
        with safe_open(path, framework="pt") as tensors:
            return {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise RunError(f"{path} is damaged: {error}") from None


def pack_tensors(tensors: Mapping[str, Tensor], about: dict[str, str] | None = None) -> bytes:
    """As safetensors, with a few words about them.  Made in memory: the library's own writer hides the reason when a
    disk is full."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(ready, about)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Of a file, or of all files that an index lists."""
    if path.suffix == ".json":
        return {name: tensor for part in files_of(path) for name, tensor in read_tensors(part).items()}
    try:
        return safetensors.torch.load(path.read_bytes())
    except SafetensorError as error:
        raise RunError(f"{path} is damaged: {error}") from None


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    write_file(path, pack_tensors(tensors))


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
