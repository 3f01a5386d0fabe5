"""Small images and archives for the tests of this folder."""

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

SEED = np.random.default_rng(7)


def noise(height: int = 5, width: int = 7, channels: int = 3) -> np.ndarray:
    """(H, W) for one channel, else (H, W, C)."""
    pixels = SEED.integers(0, 256, (height, width, channels), np.uint8)
    return pixels[..., 0] if channels == 1 else pixels


def encoded(pixels: np.ndarray, kind: str = "PNG", **settings: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **settings)
    return file.getvalue()


def write_png(path: Path, pixels: np.ndarray | None = None) -> np.ndarray:
    pixels = noise() if pixels is None else pixels
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(pixels))
    return pixels


def write_archive(path: Path, members: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, data in members.items():
                packed.writestr(name, data)
        return path
    mode = {".xz": "w:xz", ".gz": "w:gz", ".tgz": "w:gz"}.get(path.suffix, "w:")
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()
