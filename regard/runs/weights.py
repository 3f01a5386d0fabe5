"""A module's weights as one safetensors file.  A tensor with two names (tied) is written once, under the first."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from regard.errors import RunError
from regard.runs.durable import write_file


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The module's own tensors by name; those of `state_dict`, each once."""
    once = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    return {name: tensor for name, tensor in model.state_dict().items() if name in once}


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    expected = weights_of(model)
    missing = sorted(expected.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - expected.keys())
    if missing or unknown:
        raise RunError(f"{where} does not fit the model: missing {missing[:3]}, unknown {unknown[:3]}")
    parameters = {name for name, _ in model.named_parameters()}  # counts, which are buffers, have the size they have
    for name, tensor in tensors.items():
        if name in parameters and tensor.shape != expected[name].shape:
            got, wanted = tuple(tensor.shape), tuple(expected[name].shape)
            raise RunError(f"{where} does not fit the model: {name} is {got}, the model has {wanted}")
    try:
        model.load_state_dict(dict(tensors), strict=False)  # not strict: the second names of tied tensors are absent
    except RuntimeError as error:
        raise RunError(f"{where} does not fit the model: {error}") from None


def pack_tensors(tensors: Mapping[str, Tensor], about: dict[str, str] | None = None) -> bytes:
    """As safetensors, with a few words about them.  Made in memory: the library's own writer hides the reason when a
    disk is full."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(ready, about)


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(path.read_bytes())
    except SafetensorError as error:
        raise RunError(f"{path} is damaged: {error}") from None


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    write_file(path, pack_tensors(tensors))


def checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
