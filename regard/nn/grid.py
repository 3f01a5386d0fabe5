"""Images as sequences of patches, row by row from the top left, and where on a grid each patch stands."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.layout import Ragged, filled

Shape = tuple[int, int]  # patches from top to bottom, and from left to right


@dataclass(frozen=True)
class GridForm:
    """How images become rows: squares of `patch` x `patch` pixels, at most `side` of them in each direction.

    With a class row an empty patch comes first, whose row stands for the whole image (Dosovitskiy et al. 2021).
    """

    patch: int
    channels: int
    side: int
    class_row: bool
    in_blocks: bool = False  # convolutions read images whole, those of one size together; otherwise rows are enough

    @property
    def d_patch(self) -> int:
        """Numbers of a patch: C P P."""
        return self.channels * self.patch**2

    @property
    def n_places(self) -> int:
        return 1 + self.side**2

    def shape_of(self, height: int, width: int) -> Shape:
        """Of an image of so many pixels; a patch that is not full counts."""
        return -(-height // self.patch), -(-width // self.patch)

    def n_rows(self, shape: Shape) -> int:
        return int(self.class_row) + shape[0] * shape[1]  # not a bool: the compiler would not add it


class Grid(Ragged):
    """Images of any sizes, one after the other, without padding.

    The place of a patch is 1 + side * row + column, so a patch has one place in images of all sizes; the class row's
    is 0.  Images of one shape that follow each other can be worked on as one block (B, C, H, W).
    """

    def __init__(self, shapes: Sequence[Shape], form: GridForm, device: torch.device | str | None = None):
        super().__init__([form.n_rows(shape) for shape in shapes])
        self.form = form
        self.runs = [(len(list(equal)), shape) for shape, equal in groupby(shapes)]
        of_runs = [places(shape, form).repeat(n) for n, shape in self.runs]
        self.positions = torch.cat([self.positions[:0], *of_runs])
        if device is not None:
            self.__dict__ = self.to(device).__dict__

    def to(self, device: torch.device | str) -> "Grid":
        """Images of one size are a rectangle wherever they are: every batch of such a training is."""
        moved = self.mapped(lambda tensor: tensor.to(device, non_blocking=True))
        assert isinstance(moved, Grid)
        return moved

    def blocks(self, pixels: Tensor) -> list[Tensor]:
        """The pixels of all images, each (H, W, C), one after the other -> a block (B, C, H, W) for each run."""
        p, channels = self.form.patch, self.form.channels
        sizes = [n * height * width * self.form.d_patch for n, (height, width) in self.runs]
        return [
            part.view(n, height * p, width * p, channels).permute(0, 3, 1, 2)
            for part, (n, (height, width)) in zip(pixels.split(sizes), self.runs, strict=True)
        ]

    def images(self, rows: Tensor) -> list[Tensor]:
        """Rows of patches (N, C P P) -> a block of images (B, C, H, W) for each run."""
        p, blocks, start = self.form.patch, [], 0
        for n, (height, width) in self.runs:
            end = start + n * self.form.n_rows((height, width))
            patches = rows[start:end].view(n, -1, rows.shape[1])[:, int(self.form.class_row) :]
            squares = patches.reshape(n, height, width, -1, p, p)
            blocks.append(squares.permute(0, 3, 1, 4, 2, 5).reshape(n, -1, height * p, width * p))
            start = end
        return blocks

    def patches(self, blocks: Sequence[Tensor]) -> Tensor:
        """The opposite of `images`: blocks (B, C, H, W) -> rows (N, C P P), a class row being zeros."""
        p, parts = self.form.patch, []
        for block, (n, (height, width)) in zip(blocks, self.runs, strict=True):
            squares = block.reshape(n, -1, height, p, width, p).permute(0, 2, 4, 1, 3, 5)
            parts.append(squares.reshape(n, height * width, -1))
        return self.joined(parts)

    def rows(self, maps: Sequence[Tensor]) -> Tensor:
        """Maps with one column for each patch (B, D, H / P, W / P) -> rows (N, D), a class row being zeros."""
        return self.joined([block.flatten(2).transpose(1, 2) for block in maps])

    def filled(self) -> Ragged:
        """The rows alone, with more after them, so that there are few sizes; the new ones are all at place 0."""
        (rows,) = filled(self)
        rows.positions = F.pad(self.positions, (0, rows.n_rows - self.n_rows))
        return rows

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        rows = [F.pad(part, (0, 0, int(self.form.class_row), 0)).flatten(0, 1) for part in parts]
        return rows[0] if len(rows) == 1 else torch.cat(rows)


def places(shape: Shape, form: GridForm) -> Tensor:
    """Of the rows of one image."""
    height, width = shape
    of_patches = 1 + form.side * torch.arange(height)[:, None] + torch.arange(width)
    return F.pad(of_patches.flatten(), (int(form.class_row), 0))


@dataclass(frozen=True)
class ImagePrompt:
    """One image, to be read before a text about it is written: its 8-bit patches (n, C P P), on the host."""

    patches: Tensor
    shape: Shape

    def __len__(self) -> int:
        return len(self.patches)

    def __iter__(self) -> Iterator[int]:
        """A digest of the pixels and the shape."""
        content = self.patches.numpy().tobytes() + repr(self.shape).encode()
        return iter(hashlib.blake2b(content, digest_size=16).digest())


def joined_images(prompts: Sequence[ImagePrompt], form: GridForm, device: torch.device) -> tuple[Tensor, Grid]:
    """The patches (N, C P P) of all images, and how they lie."""
    patches = torch.cat([prompt.patches for prompt in prompts])
    return patches.to(device), Grid([prompt.shape for prompt in prompts], form, device)
