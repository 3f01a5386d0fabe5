"""Where a model computes, how exactly, and whether it is compiled."""

from collections.abc import Callable

import torch

from regard.errors import RegardError


def choose_device(name: str | None, number: int = 0) -> torch.device:
    """The named device, or the best there is; of several processes on a machine, each has the GPU of its number."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise RegardError(f"unknown device {name!r}; use cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RegardError(f"device {name!r} was asked for, but PyTorch sees no GPU here; use cpu")
    if device.type == "cuda" and device.index is None and number:
        device = torch.device("cuda", number)
    if device.index is not None:
        torch.cuda.set_device(device)  # kernels of our own and recordings go to the current one
    return device


# Whether the products of the loss are taken in bfloat16; the weights are float32 always.
PRECISIONS: dict[str, Callable[[torch.device], bool]] = {
    "auto": lambda device: device.type == "cuda" and torch.cuda.is_bf16_supported(),
    "float32": lambda device: False,
    "bfloat16": lambda device: True,
}

# Whether to try to compile the model.
COMPILING: dict[str, Callable[[torch.device], bool]] = {
    "auto": lambda device: device.type == "cuda",
    "on": lambda device: True,
    "off": lambda device: False,
}
