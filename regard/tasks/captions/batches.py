"""Images with captions as patches and tokens, and the batches made of them: every caption of an image is an example."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from torch import Tensor

from regard.data.batching.shards import shard
from regard.data.images.augment import Augmentation, DrawnChanges
from regard.data.images.examples import CaptionedImages
from regard.data.images.pixels import PixelForm
from regard.data.notes import Notes
from regard.nn.grid import GridForm
from regard.tasks.framing import Frame
from regard.tasks.images.batches import ImagePart, patches_of, pictures
from regard.tasks.setup import Setup
from regard.tasks.translation.batches import PairBatch, framed, keys
from regard.text.dropout import SampledTexts


@dataclass(frozen=True)
class CaptionBatch(PairBatch):
    """`source` are the 8-bit pixels of images on a grid; with draws they change before the model reads them."""

    draws: DrawnChanges | None = None

    is_fillable: ClassVar[bool] = False

    def halves(self) -> list[Self]:
        return []

    def patches(self) -> Tensor:
        """What the model reads."""
        return patches_of(self.source, self.source_layout, self.draws)

    def pictures(self) -> list[np.ndarray]:
        return pictures(self.patches(), self.source_layout)


class CaptionSet:
    """One part of a data set; `kept` are the captions to learn from or to measure the loss of, see `notes`."""

    def __init__(self, raw: CaptionedImages, form: PixelForm, grid: GridForm, setup: Setup, frame: Frame):
        self.raw, self.setup, self.frame, self.max_length = raw, setup, frame, setup.data.max_length
        self.pictures = ImagePart(raw.images, form, grid, setup.cache)
        self.captions = [caption for captions in raw.captions for caption in captions]
        self.image_of = np.repeat(np.arange(len(raw)), [len(captions) for captions in raw.captions])
        self.shard = shard(self.captions, setup.tokenizer, setup.cache)
        self.notes = Notes()
        self.notes.update(self.pictures.notes)
        n_tokens = self.shard.lengths
        self.drop(n_tokens == 0, "dropped: caption has no tokens")
        self.drop(n_tokens > self.max_length, f"dropped: caption is longer than {self.max_length} tokens")
        self.kept = np.flatnonzero((n_tokens > 0) & (n_tokens <= self.max_length))
        self.lengths = self.pictures.lengths[self.image_of[self.kept]] + n_tokens[self.kept] + 1

    def drop(self, unfit: np.ndarray, why: str) -> None:
        if unfit.any():
            self.notes.add(why, self.where(int(unfit.argmax())), int(unfit.sum()))

    def __len__(self) -> int:
        return len(self.kept)

    def describe(self) -> str:
        n_tokens = int(self.shard.lengths[self.kept].sum())
        return f"{len(self.raw):,} images, {len(self):,} captions, {n_tokens:,} target tokens"

    def where(self, caption: int) -> str:
        return self.raw.images.where(int(self.image_of[caption]))

    @property
    def references(self) -> Sequence[Sequence[str]]:
        """All captions of each image."""
        return self.raw.captions

    def by_shape(self, captions: np.ndarray) -> np.ndarray:
        """Images of one shape beside each other, so that they are one block."""
        return captions[np.lexsort(self.pictures.shapes[self.image_of[captions]].T)]

    def batch(self, chosen: np.ndarray, augmentation: Augmentation, epoch: int | None) -> CaptionBatch:
        """The captions at these places of `kept`, each with an image of its own."""
        captions = self.by_shape(self.kept[chosen])
        images = self.image_of[captions]
        draws = self.pictures.draw(augmentation, self.setup.seed, epoch, images, captions)
        pixels, layout = self.pictures.read(images)
        target, labels, target_layout = framed(self.tokens(captions, epoch), self.frame)
        lines = self.pictures.lines(images)
        return CaptionBatch(lines, pixels, layout, target, labels, target_layout, draws=draws)

    def first_of_each(self, chosen: np.ndarray) -> np.ndarray:
        """Of these places of `kept`, the first caption of each image."""
        _, first = np.unique(self.image_of[self.kept[chosen]], return_index=True)
        return chosen[np.sort(first)]

    def tokens(self, captions: np.ndarray, epoch: int | None) -> list[np.ndarray]:
        """With BPE-dropout, the cut of a caption into tokens depends on the epoch alone."""
        usual = [self.shard[i] for i in captions]
        if epoch is None or not self.setup.dropout:
            return usual
        drawn = self.sampler.sample(captions, keys(epoch, captions, 0))
        return [new if len(new) <= self.max_length else old for new, old in zip(drawn, usual, strict=True)]

    @cached_property
    def sampler(self) -> SampledTexts:
        return SampledTexts(self.captions, self.setup.tokenizer.pairs, self.setup.dropout)
