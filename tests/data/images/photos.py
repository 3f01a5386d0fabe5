"""Small images, and their way to PIL and back."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def random_images(n: int, n_channels: int = 3, size: tuple[int, int] = (12, 9)) -> Tensor:
    return torch.rand(n, n_channels, *size, generator=torch.Generator().manual_seed(n))


def photo(n_channels: int) -> Tensor:
    """8 bits, with levels from 40 to 240: contrast can be gained, and some pixels become too bright."""
    image = 40 + random_images(1, n_channels, (30, 23))[0] * 160
    image[:, :10, :10] *= 1.2
    return image.round() / 255


def as_pil(image: Tensor) -> Image.Image:
    pixels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return Image.fromarray(pixels if len(image) == 3 else pixels[..., 0])


def as_tensor(image: Image.Image) -> Tensor:
    pixels = torch.from_numpy(np.array(image)).float() / 255
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
