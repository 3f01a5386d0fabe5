"""What the figures were measured on."""

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import torch

PACKAGES = ("regard", "torch", "transformers", "ctranslate2", "nltk")


def describe(device: torch.device) -> dict[str, str | int]:
    versions = {name: version(name) for name in PACKAGES}
    chip = {"gpu": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}
    return {
        "date": date.today().isoformat(),
        "device": device.type,
        **chip,
        "cpu": processor(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **versions,
    }


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from its folder" if is_there(package) else "not installed"


def is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def processor() -> str:
    """The processor's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def which_can_run(
    contenders: Iterable[str], packages: Mapping[str, tuple[str, ...]], skip: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """The contenders whose packages are here and that nobody wants left out; and a note on each of the others."""
    names, notes = [], []
    for name in contenders:
        missing = [package for package in packages.get(name, ()) if not is_there(package)]
        if name in skip:
            notes.append(f"{name}: left out on request")
        elif missing:
            notes.append(f"{name}: missing, because {' and '.join(missing)} is not installed")
        else:
            names.append(name)
    return names, notes


def reason(error: Exception) -> str:
    """An error in one short line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:150] if lines else 'no message'}"
