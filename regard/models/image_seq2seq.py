"""A convolutional net reads an image, and a recurrent net that looks at it writes (Xu et al. 2015)."""

from dataclasses import dataclass

from torch import Tensor

from regard.checks import at_least, expect, not_negative
from regard.errors import ConfigError
from regard.inputs import InputTable
from regard.models.residual import ResidualNetwork, ResidualNetworkConfig, check_channels
from regard.models.seq2seq import RecurrentTranslator, RecurrentTranslatorConfig
from regard.models.vit import ImageModelConfig
from regard.nn.attention import GlobalAttention
from regard.nn.layout import Layout
from regard.nn.pooling import present, summary
from regard.nn.sight import everywhere


@dataclass(frozen=True, kw_only=True)
class ImageSeq2SeqConfig(ImageModelConfig, RecurrentTranslatorConfig):
    patch: int = 8  # pixels of the side of a square that becomes one row: a power of two, as images are halved
    d_image: int = 256  # channels of what is read of an image; before each halving they are half as many
    n_blocks: int = 2  # residual blocks at each size of the image
    # λ of the penalty λ Σ_i (1 - Σ_t a_ti)², which is small where every part i of an image is looked at (doubly
    # stochastic attention), often 1; 0: none
    doubly_stochastic: float = 0.0

    def __post_init__(self) -> None:
        RecurrentTranslatorConfig.__post_init__(self)
        ImageModelConfig.__post_init__(self)
        at_least(self, 1, "d_image", "n_blocks")
        not_negative(self, "doubly_stochastic")
        self.check_halving("residual blocks")
        check_channels("d_image", self.d_image, self.patch)
        if self.doubly_stochastic and self.score == "none":
            raise ConfigError('doubly_stochastic is a penalty on attention: set it to 0, or score to other than "none"')

    @property
    def d_encoder(self) -> int:
        return self.d_image

    @property
    def n_source_places(self) -> int:
        return self.grid.n_places

    def make_encoder(self) -> ResidualNetwork:
        return ResidualNetwork(
            ResidualNetworkConfig(
                vocab_size=self.vocab_size,
                patch=self.patch,
                channels=self.channels,
                side=self.side,
                mean=self.mean,
                deviation=self.deviation,
                d_model=self.d_image,
                n_blocks=self.n_blocks,
            )
        )


class ImageSeq2Seq(RecurrentTranslator):
    """x_s is what the convolutions make of patch s, x̄ the mean of all  (Xu et al. 2015, "Show, Attend and Tell",
    section 3.1 and 4.2, soft attention).  Their decoder looks before each of its steps: look = "before".
    """

    role = "captioner"
    config: ImageSeq2SeqConfig
    encoder: ResidualNetwork
    sees_future = True
    dynamic_shapes = None

    def __init__(self, config: ImageSeq2SeqConfig):
        super().__init__(config)

    @property
    def inputs(self) -> InputTable:
        return self.encoder.embedding

    def name_in_reader(self, name: str) -> str | None:
        """In a residual network's, all is called as in the encoder."""
        return name.removeprefix("encoder.") if name.startswith("encoder.") else None

    def encode(self, source: Tensor, layout: Layout) -> Tensor:
        return self.encoder(source, layout)

    def summarize(self, rows: Tensor, layout: Layout) -> Tensor:
        return summary(rows, layout, "mean")

    def penalized(
        self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout
    ) -> tuple[Tensor, Tensor]:
        if not self.config.doubly_stochastic:
            return super().penalized(source, source_layout, target, target_layout)
        read = self.read_both(source, source_layout, target, target_layout)
        attention = expect(self.attention, GlobalAttention)
        context, weights = attention.weighed(read.queries, target_layout, read.memory, everywhere)
        penalty = stochastic_penalty(weights, source_layout, target_layout)
        return self.dropout(self.conclude(read.hidden, context)), self.config.doubly_stochastic * penalty

    def n_source_rows(self, length: int) -> int:
        """Of the largest image."""
        return self.config.side**2

    def reading_cost(self, n_source: int) -> float:
        return self.encoder.multiplications(n_source)


def stochastic_penalty(weights: Tensor, source_layout: Layout, target_layout: Layout) -> Tensor:
    """Σ_i (1 - Σ_t a_ti)², summed over images: weights (B, Q, K) -> one number  (Xu et al. 2015, eq. 14)"""
    of_words = weights.float() * present(weights, target_layout.lengths)  # nor does padding count as a part i
    return (1 - source_layout.flatten(of_words.sum(1))).square().sum()
