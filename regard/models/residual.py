"""A residual network (He et al. 2016): images, halved again and again by convolutions, as rows."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import at_least, share
from regard.errors import ConfigError
from regard.models.interface import Reader
from regard.models.vit import ImageModelConfig
from regard.nn.grid import Grid
from regard.nn.layout import Layout
from regard.nn.linear import n_weights
from regard.nn.state import State

GROUPS = 8  # of channels, each of which a norm brings to one size


@dataclass(frozen=True, kw_only=True)
class ResidualNetworkConfig(ImageModelConfig):
    patch: int = 8  # pixels of the side of a square that becomes one row: a power of two, as images are halved
    d_model: int = 256  # channels at the end; before each halving they are half as many
    n_blocks: int = 2  # residual blocks at each size
    dropout: float = 0.0  # of whole channels, in each block
    max_length: int = 1024  # rows of the largest image

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "d_model", "n_blocks", "max_length")
        share(self, "dropout")
        self.check_halving("residual blocks")
        check_channels("d_model", self.d_model, self.patch)

    @property
    def widths(self) -> list[int]:
        """Channels at each size, that of the image first."""
        return [self.d_model >> i for i in reversed(range(self.patch.bit_length()))]


def check_channels(name: str, n_channels: int, patch: int) -> None:
    if n_channels % (GROUPS * patch):
        raise ConfigError(f"{name} must be a multiple of {GROUPS} x patch, got {n_channels} and {patch}")


class ResidualBlock(nn.Module):
    """x + W_2 * f(W_1 * f(x)); f is a norm and a ReLU, * a convolution of 3 x 3  (He et al. 2016b, figure 4 e)

    The norm is of groups of channels (Wu and He 2018), so what stands beside an image in a batch changes nothing.
    """

    def __init__(self, d_in: int, d_out: int, stride: int, dropout: float):
        super().__init__()
        self.norm_in, self.norm_inner = nn.GroupNorm(GROUPS, d_in), nn.GroupNorm(GROUPS, d_out)
        self.first = nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.shortcut = None if d_in == d_out else nn.Conv2d(d_in, d_out, 1, stride, bias=False)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm_in(x))
        kept = x if self.shortcut is None else self.shortcut(active)
        return kept + self.second(self.dropout(F.relu(self.norm_inner(self.first(active)))))


class ResidualNetwork(Reader[State]):
    """Blocks at the image's own size, then at half of it, and so on, until a patch is one row of d_model numbers."""

    role = "image reader"
    config: ResidualNetworkConfig
    sees_future = True
    is_recordable, dynamic_shapes = True, False

    def __init__(self, config: ResidualNetworkConfig):
        super().__init__()
        self.config = c = config
        self.embedding = c.make_pixels()
        self.stem = nn.Conv2d(c.channels, c.widths[0], 3, padding=1, bias=False)
        sizes, before = [], c.widths[0]
        for width in c.widths:
            first = ResidualBlock(before, width, 1 if before == width else 2, c.dropout)
            rest = (ResidualBlock(width, width, 1, c.dropout) for _ in range(c.n_blocks - 1))
            sizes.append(nn.Sequential(first, *rest))
            before = width
        self.sizes = nn.ModuleList(sizes)
        self.norm = nn.GroupNorm(GROUPS, c.d_model)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, tokens: Tensor, layout: Layout) -> Tensor:
        assert isinstance(layout, Grid)
        return layout.rows([self.convolve(block) for block in layout.images(self.embedding(tokens, layout))])

    def convolve(self, x: Tensor) -> Tensor:
        """Images (B, C, H, W) -> (B, d_model, H / patch, W / patch)."""
        x = self.stem(x)
        for blocks in self.sizes:
            x = blocks(x)
        return F.relu(self.norm(x))

    def multiplications(self, length: int) -> float:
        """A weight counts once for each pixel that it makes of a patch."""
        n_pixels = self.config.patch**2
        sizes = (n_weights(blocks) * n_pixels >> 2 * i for i, blocks in enumerate(self.sizes))
        return self.stem.weight.numel() * n_pixels + sum(sizes)
