"""Readers of images: alone as in company of other sizes, positions that count, and the counts of published models."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.models.interface import Reader
from regard.models.residual import ResidualNetwork, ResidualNetworkConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.grid import Grid

SMALL = {"vocab_size": 5, "d_model": 32, "n_heads": 4, "n_layers": 2, "d_ff": 64, "patch": 4, "side": 8, "dropout": 0.0}
SHAPES = [(8, 8), (8, 8), (3, 5)]


def make(name: str) -> Reader:
    torch.manual_seed(0)
    if name == "residual":
        return ResidualNetwork(ResidualNetworkConfig(vocab_size=5, d_model=64, patch=4)).eval()
    if name == "convolved":
        return ViT(ViTConfig(**SMALL, convolutions=True, class_row=False)).eval()
    return ViT(ViTConfig(**SMALL, position=name)).eval()


READERS = ["learned", "sinusoidal", "rotary", "none", "convolved", "residual"]


def read(model: Reader, shapes: list[tuple[int, int]], blocks: list[torch.Tensor]) -> tuple[torch.Tensor, Grid]:
    grid = Grid(shapes, model.config.grid)
    return model(grid.patches(blocks), grid), grid


@pytest.mark.parametrize("name", READERS)
def test_alone_as_beside_images_of_other_sizes(name: str) -> None:
    model = make(name)
    blocks = [torch.rand(2, 3, 32, 32), torch.rand(1, 3, 12, 20)]
    rows, grid = read(model, SHAPES, blocks)
    assert rows.shape == (grid.n_rows, model.d_out)
    parts = rows.split(grid.lengths.tolist())
    for i, (block, shape) in enumerate([(blocks[0][:1], (8, 8)), (blocks[0][1:], (8, 8)), (blocks[1], (3, 5))]):
        alone, _ = read(model, [shape], [block])
        assert torch.allclose(alone, parts[i], atol=1e-5)


@pytest.mark.parametrize("name", READERS)
def test_bytes_and_shares_are_the_same_pixels(name: str) -> None:
    model = make(name)
    pixels = torch.randint(0, 256, (1, 3, 12, 20), dtype=torch.uint8)
    assert torch.equal(read(model, [(3, 5)], [pixels])[0], read(model, [(3, 5)], [pixels / 255])[0])


@pytest.mark.parametrize("name", ["learned", "sinusoidal", "rotary"])
def test_patches_in_another_order_are_another_image(name: str) -> None:
    model, image = make(name), torch.rand(1, 3, 16, 16)
    turned = image.flip(3)
    rows = [read(model, [(4, 4)], [block])[0][0] for block in (image, turned)]
    assert not torch.allclose(*rows, atol=1e-4)
    bag = make("none")
    swapped = torch.cat([image[:, :, 4:], image[:, :, :4]], 2)
    class_rows = [read(bag, [(4, 4)], [block])[0][0] for block in (image, swapped)]
    assert torch.allclose(*class_rows, atol=1e-5)  # without positions it is a bag of patches


def test_patches_are_the_convolution_of_the_paper() -> None:
    model = make("none")
    image = torch.rand(1, 3, 16, 16)
    project = model.embedding.project
    kernel = project.weight.view(32, 3, 4, 4)
    convolved = F.conv2d((image - 0.5) / 0.5, kernel, project.bias, stride=4).flatten(2)[0].T
    grid = Grid([(4, 4)], model.config.grid)
    assert torch.allclose(model.embedding(grid.patches([image]), grid)[1:], convolved, atol=1e-5)


@pytest.mark.parametrize(("width", "heads", "n_layers", "patch", "published"), [
    (192, 3, 12, 16, 5_717_416),  # DeiT-tiny, as its authors' code counts with 1,000 labels
    (384, 6, 12, 16, 22_050_664),  # DeiT-small
    (768, 12, 12, 16, 86_567_656),  # ViT-B/16 (Dosovitskiy et al. 2021: 86 M)
])  # fmt: skip
def test_the_counts_of_published_models(width: int, heads: int, n_layers: int, patch: int, published: int) -> None:
    sizes = {"d_model": width, "n_heads": heads, "n_layers": n_layers, "d_ff": 4 * width}
    with torch.device("meta"):
        model = ViT(ViTConfig(vocab_size=5, **sizes, patch=patch, side=224 // patch))
        head = nn.Linear(width, 1000)
    assert sum(p.numel() for part in (model, head) for p in part.parameters()) == published


def test_wrong_settings_say_what_is_wrong() -> None:
    for wrong, message in [
        ({"channels": 2}, "channels must be 1"),
        ({"position": "alibi"}, "position encoding of images"),
        ({"side": 40}, "1,601 places, and max_length is 1,024"),
        ({"mean": (0.1, 0.2)}, "mean lists one number"),
        ({"deviation": (0.0,)}, "deviation must be above 0"),
        ({"patch": 3, "convolutions": True}, "power of two"),
        ({"n_segments": 2}, "n_segments must be 0"),
    ]:
        with pytest.raises(ConfigError, match=message):
            ViTConfig(**{**SMALL, **wrong})
    with pytest.raises(ConfigError, match="multiple of 8 x patch"):
        ResidualNetworkConfig(vocab_size=5, d_model=60, patch=4)
