"""What stands in front of a model: tables that turn inputs of some kind into the rows that its blocks read."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.checks import expect
from regard.errors import ConfigError
from regard.nn.grid import Grid, GridForm, ImagePrompt, joined_images
from regard.nn.layout import Layout, Prompt, Ragged, joined
from regard.nn.linear import Linear
from regard.nn.masked_weights import MaskedWeights


class InputTable(nn.Module, ABC):
    """Inputs of some kind, one for each row of a layout -> rows (N, d_out)."""

    scale = 1.0  # the last thing that rows are multiplied with

    @property
    @abstractmethod
    def d_out(self) -> int:
        """The width of a row."""

    @property
    def vectors(self) -> nn.Parameter | None:
        """(inputs, d_out): one for each known input, with which outputs can be compared; None: there are none."""
        return None

    def replace_vectors(self, vectors: nn.Parameter) -> None:
        """Take other vectors, or more of them, or those of another table."""
        raise ConfigError("this model does not read words: its inputs have no vectors")

    def multiplications(self) -> float:
        """For each row; what is looked up costs nothing."""
        return 0.0

    def join(self, prompts: Sequence[Prompt], device: torch.device) -> tuple[Tensor, Ragged]:
        """Inputs of this kind, one after the other, and how they lie; here, token ids (N)."""
        return joined(prompts, device)

    @abstractmethod
    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        """Inputs as they lie in the layout, (N, ...) or (B, T, ...) -> one row each, (N, d_out) or (B, T, d_out)."""


class Words(nn.Embedding, InputTable, MaskedWeights):
    """Words, or the tokens of any vocabulary, with a learned vector for each: x_t = scale * E[token_t]

    The Transformer scales by sqrt(d_model) (Vaswani et al. 2017, section 3.4).  `dropout` leaves out whole words: in
    training some of the vocabulary are absent, wherever they stand (Merity et al. 2018, section 4.3).
    """

    weight: nn.Parameter

    def __init__(self, vocab_size: int, d_out: int, scale: float = 1.0, dropout: float = 0.0):
        super().__init__(vocab_size, d_out)
        self.scale, self.dropout = scale, dropout

    @property
    def d_out(self) -> int:
        return self.embedding_dim

    @property
    def vectors(self) -> nn.Parameter:
        return self.weight

    def replace_vectors(self, vectors: nn.Parameter) -> None:
        self.weight, self.num_embeddings = vectors, len(vectors)

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:  # type: ignore[override]
        x = super().forward(inputs)
        if self.training and self.dropout:
            present = self.without_some(torch.ones(self.num_embeddings, 1, device=x.device), self.dropout)
            x = x * F.embedding(inputs, present)
        return x if self.scale == 1 else x * self.scale


class LabeledWords(InputTable):
    """[x; y_t]: the vector of a text's label beside that of each of its words; [x; 0] before the first.

    The inputs are ids that `paired` gives.  The vectors that outputs are compared with are those of words.
    """

    def __init__(self, words: Words, n_labels: int, d_label: int):
        super().__init__()
        self.words, self.labels = words, nn.Embedding(n_labels, d_label)
        nn.init.normal_(self.labels.weight, std=d_label**-0.5)

    @property
    def d_out(self) -> int:
        return self.labels.embedding_dim + self.words.d_out

    @property
    def vectors(self) -> nn.Parameter:
        return self.words.weight

    def replace_vectors(self, vectors: nn.Parameter) -> None:
        self.words.replace_vectors(vectors)

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        n_words = self.words.num_embeddings
        labels, words = inputs // (n_words + 1), inputs % (n_words + 1)
        of_words = self.words(words.clamp(max=n_words - 1), layout) * (words < n_words)[..., None]
        return torch.cat([self.labels(labels), of_words], dim=-1)


IdsOrTensor = TypeVar("IdsOrTensor", int, np.ndarray, Tensor)


def paired(words: IdsOrTensor, labels: IdsOrTensor, vocab_size: int) -> IdsOrTensor:
    """One id for a word and the label of its text; `vocab_size` as a word means that there is none yet."""
    return labels * (vocab_size + 1) + words


def words_or(
    inputs: InputTable | None, vocab_size: int, d_out: int, scale: float = 1.0, dropout: float = 0.0
) -> InputTable:
    """The inputs that a model was given, or new words."""
    if inputs is None:
        return Words(vocab_size, d_out, scale, dropout)
    if inputs.d_out != d_out:
        raise ConfigError(f"the inputs become rows of {inputs.d_out} numbers, and the model reads rows of {d_out}")
    return inputs


class Pixels(InputTable):
    """Patches (N, C P P), as bytes or from 0 to 1 -> the same rows, less the mean and divided by the deviation."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, form: GridForm, mean: Sequence[float], deviation: Sequence[float]):
        super().__init__()
        self.form = form
        for name, values in (("mean", mean), ("deviation", deviation)):
            of_channels = torch.tensor(values).expand(form.channels).repeat_interleave(form.patch**2)
            self.register_buffer(name, of_channels, persistent=False)

    @property
    def d_out(self) -> int:
        return self.form.d_patch

    def join(self, prompts: Sequence[Prompt], device: torch.device) -> tuple[Tensor, Grid]:
        return joined_images([expect(prompt, ImagePrompt) for prompt in prompts], self.form, device)

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        x = inputs / 255 if inputs.dtype == torch.uint8 else inputs
        return (x - self.mean) / self.deviation


class ImageInputs(InputTable):
    """Rows made of patches, and a learned vector for the class row, if there is one."""

    def __init__(self, pixels: Pixels, d_out: int):
        super().__init__()
        self.pixels, self.width = pixels, d_out
        self.class_vector = nn.Parameter(torch.randn(d_out) * 0.02) if pixels.form.class_row else None

    @property
    def d_out(self) -> int:
        return self.width

    def join(self, prompts: Sequence[Prompt], device: torch.device) -> tuple[Tensor, Grid]:
        return self.pixels.join(prompts, device)

    @abstractmethod
    def embed(self, pixels: Tensor, layout: Layout) -> Tensor:
        """Patches (N, C P P) -> rows (N, d_out)."""

    def forward(self, inputs: Tensor, layout: Layout) -> Tensor:
        x = self.embed(self.pixels(inputs, layout), layout)
        if self.class_vector is None:
            return x
        return torch.where((layout.positions == 0)[..., None], self.class_vector.to(x.dtype), x)


class Patches(ImageInputs):
    """x_t = W patch_t + b  (Dosovitskiy et al. 2021, eq. 1)"""

    def __init__(self, pixels: Pixels, d_out: int):
        super().__init__(pixels, d_out)
        self.project = Linear(pixels.d_out, d_out)

    def multiplications(self) -> float:
        return self.project.weight.numel()

    def embed(self, pixels: Tensor, layout: Layout) -> Tensor:
        return self.project(pixels)


class ConvolvedPatches(ImageInputs):
    """Convolutions of 3 x 3, each followed by a maximum that halves the image, until a patch is one pixel
    (Hassani et al. 2021, eq. 2).  Neighboring rows overlap in what they see.
    """

    def __init__(self, pixels: Pixels, d_out: int):
        super().__init__(pixels, d_out)
        n_halvings = pixels.form.patch.bit_length() - 1
        widths = [pixels.form.channels, *(max(64, d_out >> i) for i in range(n_halvings - 1, 0, -1)), d_out]
        layers = (nn.Conv2d(narrow, wide, 3, padding=1, bias=False) for narrow, wide in pairwise(widths))
        self.convolutions = nn.ModuleList(layers)

    def multiplications(self) -> float:
        """A weight counts once for each pixel that it makes of a patch."""
        sizes = (self.pixels.form.patch**2 >> 2 * i for i in range(len(self.convolutions)))
        weights = (layer.weight.numel() for layer in self.convolutions)  # type: ignore[operator]
        return sum(size * n for size, n in zip(sizes, weights, strict=True))

    def embed(self, pixels: Tensor, layout: Layout) -> Tensor:
        assert isinstance(layout, Grid)
        return layout.rows([self.convolve(block) for block in layout.images(pixels)])

    def convolve(self, x: Tensor) -> Tensor:
        for convolution in self.convolutions:
            x = F.max_pool2d(F.relu(convolution(x)), 3, stride=2, padding=1)
        return x
