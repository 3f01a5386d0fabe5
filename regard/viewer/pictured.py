"""The image that a capture is of: its patches by name, and its pixels lit where the model looks.

All pixels of a patch get the patch's own weight (nearest neighbor): a model attends to patches, not to pixels.
"""

import base64
import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from regard.data.images.pixels import PixelForm, decode
from regard.errors import RegardError
from regard.nn.grid import Shape

CLASS_ROW = "[CLASS]"
HUE = (255, 150, 30)  # of what is looked at; page.css says the same
FADED = 0.6  # how much darker a patch is that nobody looks at; picture.js says the same, and ...
TINTED = 0.5  # ... of the hue in the patch that is looked at most


@dataclass(frozen=True, eq=False)
class Pictured:
    """Pixels as the model saw them; where an image did not fill its last patches, they repeat its last pixels."""

    pixels: np.ndarray  # (H, W, C), 8-bit, gray or in color
    patch: int  # pixels of the side of a square patch
    class_row: bool  # whether a row for the whole image comes before those of the patches

    def __post_init__(self) -> None:
        shape, kind = self.pixels.shape, self.pixels.dtype
        if len(shape) != 3 or shape[2] not in (1, 3) or kind != np.uint8:
            raise RegardError(f"an image has shape (H, W, 1 or 3) and 8-bit numbers, got {shape} and {kind}")
        if self.patch < 1 or 0 in shape or shape[0] % self.patch or shape[1] % self.patch:
            raise RegardError(f"an image of {shape[0]} x {shape[1]} pixels is not made of patches of {self.patch}")

    @property
    def shape(self) -> Shape:
        """Patches from top to bottom, and from left to right."""
        return self.pixels.shape[0] // self.patch, self.pixels.shape[1] // self.patch

    @property
    def names(self) -> list[str]:
        """Of all rows that the model made of the image, in their order: "2,3" is row 2, column 3, counted from 0."""
        patches = [f"{row},{column}" for row, column in np.ndindex(self.shape)]
        return [CLASS_ROW, *patches] if self.class_row else patches

    def place(self, row: int, column: int) -> int:
        """Which of `names` a patch is."""
        if not (0 <= row < self.shape[0] and 0 <= column < self.shape[1]):
            rows, columns = self.shape
            raise RegardError(f"there is no patch {row},{column}; the image has {rows} x {columns}, counted from 0,0")
        return self.class_row + row * self.shape[1] + column

    def square(self, place: int) -> tuple[slice, slice] | None:
        """The pixels of one of `names`; None: the class row has none."""
        if place < self.class_row:
            return None
        row, column = divmod(place - self.class_row, self.shape[1])
        down, across = (slice(at * self.patch, (at + 1) * self.patch) for at in (row, column))
        return down, across

    def on_grid(self, weights: np.ndarray) -> np.ndarray:
        """Those of the patches, (rows, columns), of one weight for each of `names`."""
        return weights[int(self.class_row) :].reshape(self.shape)

    def strongest(self, weights: np.ndarray, n: int) -> list[tuple[str, float]]:
        """The n patches that are looked at most, strongest first, and after them the class row, which has no place."""
        patches, names = weights[int(self.class_row) :], self.names
        order = np.argsort(-patches, kind="stable")[:n] + int(self.class_row)
        return [(names[i], float(weights[i])) for i in [*order, *[0] * self.class_row]]

    @property
    def colors(self) -> np.ndarray:
        """(H, W, 3)."""
        return np.broadcast_to(self.pixels, (*self.pixels.shape[:2], 3))

    def lit(self, weights: np.ndarray) -> np.ndarray:
        """The image (H, W, 3), dark where a weight is 0 and tinted where it is the largest of all patches."""
        shares = self.on_grid(weights) / (float(self.on_grid(weights).max()) or 1.0)
        share = shares.repeat(self.patch, axis=0).repeat(self.patch, axis=1)[..., None]
        faded = self.colors * (1 - FADED * (1 - share))
        return np.rint(faded + TINTED * share * (np.array(HUE) - faded)).astype(np.uint8)

    def to_png(self) -> str:
        """A PNG file as base64."""
        file = io.BytesIO()
        gray = self.pixels.shape[2] == 1
        Image.fromarray(self.pixels[..., 0] if gray else self.pixels).save(file, "PNG", optimize=True)
        return base64.b64encode(file.getvalue()).decode()

    def to_record(self) -> dict[str, object]:
        return {
            "png": self.to_png(),
            "channels": self.pixels.shape[2],
            "patch": self.patch,
            "class_row": self.class_row,
        }

    @classmethod
    def from_record(cls, record: dict[str, object]) -> "Pictured":
        """What `to_record` made, perhaps elsewhere: the pixels are read as carefully as those of any image file."""
        png, channels, patch = str(record["png"]), record["channels"], record["patch"]
        if not isinstance(channels, int) or not isinstance(patch, int):
            raise RegardError("the image of this capture has no whole numbers for channels and patch")
        pixels = decode(base64.b64decode(png), "the image of this capture", PixelForm(channels=channels))
        return cls(pixels, patch, bool(record["class_row"]))
