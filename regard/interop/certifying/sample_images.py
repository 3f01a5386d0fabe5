"""The images of a certificate: files as users have them, made for the occasion."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from regard.data.images.opening import ORIENTATION


def write_pictures(folder: Path, seed: int = 0) -> list[Path]:
    """Photograph-like noise and gradients, in color and gray, wide, tall, small and turned, as PNG and JPEG."""
    chance = np.random.default_rng(seed)
    pictures = {
        "photo.jpg": clouds(chance, 120, 160),
        "photo.png": clouds(chance, 161, 119),
        "noise.png": Image.fromarray(chance.integers(0, 256, (90, 130, 3)).astype(np.uint8)),
        "gradient.png": gradient(200, 300),
        "gray.png": clouds(chance, 97, 131).convert("L"),
        "gray.jpg": clouds(chance, 64, 64).convert("L"),
        "tall.png": clouds(chance, 311, 60),
        "wide.jpg": clouds(chance, 50, 301),
        "small.png": clouds(chance, 7, 11),
    }
    paths = []
    for name, picture in pictures.items():
        paths.append(folder / name)
        picture.save(paths[-1])
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    paths.append(folder / "turned.jpg")
    clouds(chance, 80, 140).save(paths[-1], exif=exif)
    return paths


def clouds(chance: np.random.Generator, height: int, width: int) -> Image.Image:
    """Neighboring pixels are alike, as in a photograph, with some grain."""
    coarse = Image.fromarray(chance.integers(0, 256, (5, 5, 3)).astype(np.uint8))
    smooth = coarse.resize((width, height), Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(1))
    grain = chance.normal(0, 6, (height, width, 3))
    return Image.fromarray((np.asarray(smooth) + grain).clip(0, 255).astype(np.uint8))


def gradient(height: int, width: int) -> Image.Image:
    down, across = np.mgrid[0:height, 0:width]
    colors = np.stack([255 * down / height, 255 * across / width, 255 * (down + across) / (height + width)], axis=-1)
    return Image.fromarray(colors.astype(np.uint8))
