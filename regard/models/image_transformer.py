"""A Transformer whose encoder reads the patches of an image, as a Vision Transformer does, and whose decoder writes."""

from dataclasses import dataclass

from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vit import PatchesConfig
from regard.nn.positions import Space

# The parts of a Vision Transformer, by the names that they have here.
IN_VIT = {
    "source_inputs": "embedding",
    "source_position": "position",
    "source_norm": "embedding_norm",
    "encoder": "blocks",
    "encoder_norm": "norm",
}


@dataclass(frozen=True, kw_only=True)
class ImageTransformerConfig(PatchesConfig, TransformerConfig):
    """The settings of a Transformer; its source has places on a grid."""

    max_length: int = 1024  # tokens of a text that is written; at least data.max_length + 1
    # of tokens by their place, of patches by row and column: `sinusoidal`, `learned`, `rotary` or `none`
    position: str = "sinusoidal"

    def __post_init__(self) -> None:
        TransformerConfig.__post_init__(self)
        PatchesConfig.__post_init__(self)
        self.check_places(self.heads.width)

    def source_space(self) -> Space:
        return self.on_grid(super().source_space())


class ImageTransformer(Transformer):
    """The encoder is that of Dosovitskiy et al. 2021, the decoder that of Vaswani et al. 2017  (Liu et al. 2021, "CPTR:
    Full Transformer Network for Image Captioning", figure 1)."""

    role = "captioner"
    config: ImageTransformerConfig
    is_recordable = is_exportable = False
    dynamic_shapes = None

    def __init__(self, config: ImageTransformerConfig):
        super().__init__(config, config.make_inputs(config.d_model))

    def name_in_reader(self, name: str) -> str | None:
        """In a Vision Transformer."""
        part, _, rest = name.partition(".")
        return f"{IN_VIT[part]}.{rest}" if part in IN_VIT else None

    def n_source_rows(self, length: int) -> int:
        """Of the largest image."""
        return self.config.grid.n_rows((self.config.side, self.config.side))
