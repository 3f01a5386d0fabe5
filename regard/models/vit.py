"""The Vision Transformer (Dosovitskiy et al. 2021): a stack that reads patches of images as others read words."""

import math
from dataclasses import dataclass, replace

from regard.checks import at_least
from regard.choose import choose
from regard.errors import ConfigError
from regard.inputs import ConvolvedPatches, ImageInputs, Patches, Pixels
from regard.models.config import ModelConfig
from regard.models.stack import Stack, StackConfig
from regard.nn.grid import GridForm
from regard.nn.positions import GRID_POSITIONS, Space


@dataclass(frozen=True, kw_only=True)
class ImageModelConfig(ModelConfig):
    """How a model reads images, whatever comes after."""

    patch: int = 16  # pixels of the side of a square patch, one row each
    channels: int = 3  # of the pixels: 1 is gray, 3 red, green and blue
    side: int = 14  # patches of the longest side that an image may have
    mean: tuple[float, ...] = (0.5,)  # of the pixels, from 0 to 1, for each channel or all: it is subtracted ...
    deviation: tuple[float, ...] = (0.5,)  # ... and the rest divided by this

    def __post_init__(self) -> None:
        at_least(self, 1, "patch", "side")
        if self.channels not in (1, 3):
            raise ConfigError(f"channels must be 1 (gray) or 3 (color), got {self.channels}")
        for name, values in (("mean", self.mean), ("deviation", self.deviation)):
            if len(values) not in (1, self.channels) or not all(math.isfinite(value) for value in values):
                raise ConfigError(f"{name} lists one number for all channels or one for each, got {list(values)}")
        if not all(value > 0 for value in self.deviation):
            raise ConfigError(f"deviation must be above 0, got {list(self.deviation)}")

    @property
    def class_row(self) -> bool:
        """Whether a row of its own stands for the whole image."""
        return False

    @property
    def in_blocks(self) -> bool:
        """Whether convolutions read images whole."""
        return True

    @property
    def grid(self) -> GridForm:
        return GridForm(self.patch, self.channels, self.side, self.class_row, self.in_blocks)

    def make_pixels(self) -> Pixels:
        return Pixels(self.grid, self.mean, self.deviation)

    def check_halving(self, what: str) -> None:
        if self.patch & (self.patch - 1):
            raise ConfigError(f"{what} halve images until a patch is one pixel: patch must be a power of two")


@dataclass(frozen=True, kw_only=True)
class PatchesConfig(ImageModelConfig):
    """How a Transformer reads images: patches become vectors, which have places on a grid."""

    class_row: bool = False  # a row of its own stands for the whole image
    convolutions: bool = False  # patches are made by overlapping convolutions (CCT), not by one product (ViT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.convolutions:
            self.check_halving("convolutions")
            at_least(self, 2, "patch")

    @property
    def in_blocks(self) -> bool:
        return self.convolutions

    def check_places(self, d_head: int) -> None:
        choose(GRID_POSITIONS, self.position or "none", "position encoding of images")
        if self.position == "rotary" and d_head % 4:
            raise ConfigError(f"rotary positions turn pairs in both halves of a head, got a head of {d_head}")

    def on_grid(self, space: Space) -> Space:
        return replace(space, max_length=self.grid.n_places, side=self.side)

    def make_inputs(self, d_out: int) -> ImageInputs:
        return (ConvolvedPatches if self.convolutions else Patches)(self.make_pixels(), d_out)


@dataclass(frozen=True, kw_only=True)
class ViTConfig(PatchesConfig, StackConfig):
    """The settings of a stack; the defaults are ViT-B/16's."""

    causal: bool = False  # `true`: a patch sees only those above it, and to its left
    scale_embedding: bool = False
    position: str = "learned"  # of a patch by its row and column: `learned`, `sinusoidal`, `rotary` or `none`
    class_row: bool = True  # a row of its own stands for the whole image; read it with task.pooling = "first"

    def __post_init__(self) -> None:
        StackConfig.__post_init__(self)
        PatchesConfig.__post_init__(self)
        self.check_places(self.heads.width)
        if self.grid.n_places > self.max_length:
            places = f"side = {self.side} has {self.grid.n_places:,} places"
            raise ConfigError(f"{places}, and max_length is {self.max_length:,}; raise it")
        if self.n_segments:
            raise ConfigError("an image has no segments: n_segments must be 0")

    def space(self, one_sided: bool) -> Space:
        return self.on_grid(super().space(one_sided))


class ViT(Stack):
    """h_0 = patches + positions; h_l = block_l(h_(l-1))  (Dosovitskiy et al. 2021, eq. 1 to 3)"""

    role = "image reader"
    is_exportable = False
    config: ViTConfig
    embedding: ImageInputs

    def __init__(self, config: ViTConfig):
        super().__init__(config, config.make_inputs(config.embedding_width))
        self.dynamic_shapes = not config.convolutions

    def multiplications(self, length: int) -> float:
        return super().multiplications(length) + self.embedding.multiplications()
