"""Classification of images: pixels in, one label out."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.checks import expect, share
from regard.choose import choose
from regard.data.config import DataConfig
from regard.data.files.labelled import named
from regard.data.files.splits import Parts
from regard.data.images.augment import Augmentation
from regard.data.images.examples import LabelledImages
from regard.data.images.files import labelled_images
from regard.data.images.pixels import Picture, Resizing, name_of, pictures_of
from regard.data.images.recognizing import images_with_labels
from regard.data.images.report import image_rows, overlap_rows
from regard.data.report import Row
from regard.errors import RegardError
from regard.models.heads import Classifier
from regard.models.interface import AnyReader
from regard.nn.grid import GridForm
from regard.nn.loss import IGNORED
from regard.nn.pooling import POOLINGS
from regard.tasks.classification.labels import LabelsConfig, LabelTask
from regard.tasks.classification.verbs import Classified, Classify
from regard.tasks.exchange import IMAGE_LABELS
from regard.tasks.images.batches import ImageArrays, ImageBatch, ImagePart, read_each, read_patches
from regard.tasks.images.changes import draw_changes
from regard.tasks.images.sizing import draft
from regard.tasks.images.use import embed_images, pixels_given
from regard.tasks.request import Embed
from regard.tasks.setup import Setup, TaskConfig, Use
from regard.tasks.wire import IMAGE
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus, look_at_image


@dataclass(frozen=True, kw_only=True)
class ImageLabelsConfig(LabelsConfig, Resizing, Augmentation):
    # how a reader's rows become one: `mean`, `max`, or `first`, the class row where the model has one
    pooling: str = "mean"
    dropout: float = 0.0  # on the pooled row

    def __post_init__(self) -> None:
        for settings in (LabelsConfig, Resizing, Augmentation):
            settings.__post_init__(self)
        choose(POOLINGS, self.pooling, "summary (pooling)")
        share(self, "dropout")

    def build(self, reader: AnyReader) -> Classifier:
        return Classifier(reader, self.n_labels, self.pooling, self.dropout)


@dataclass(frozen=True)
class LabeledImageBatch(ImageBatch):
    labels: Tensor  # B

    def filled(self) -> Self:
        more = super().filled()
        return replace(more, labels=F.pad(self.labels, (0, more.n_added[1]), value=IGNORED))


class LabeledImagePart(ImagePart):
    def __init__(self, raw: LabelledImages, config: ImageLabelsConfig, grid: GridForm, setup: Setup):
        self.raw, self.labels = raw, raw.ids(config.labels)
        super().__init__(raw.images, config.form(grid.channels), grid, setup.cache)

    def shown(self, i: int) -> str:
        return self.images.where(i)


class ImageClassification(LabelTask[LabelledImages, LabeledImagePart, Classifier, LabeledImageBatch]):
    settings = ImageLabelsConfig
    exchange = IMAGE_LABELS
    roles = ("image reader",)
    reads_text, takes_files = False, True
    commands = ("regard classify RUN image.jpg ...", "regard look RUN image.jpg", "regard evaluate RUN")
    recognize = staticmethod(images_with_labels)
    draft = staticmethod(draft)
    listed = staticmethod(pictures_of)
    wire = IMAGE
    config: ImageLabelsConfig

    @property
    def grid(self) -> GridForm:
        """How the model reads images."""
        return expect(self.setup.grid, GridForm)

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[LabelledImages]:
        return labelled_images(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        """The labels, the only texts that there are."""
        return sorted(set(labelled_images(data).train.labels))

    def part(self, raw: LabelledImages, to_learn: bool) -> LabeledImagePart:
        return LabeledImagePart(raw, self.config, self.grid, self.setup)

    # Learning.

    def collate(self, part: LabeledImagePart, chosen: np.ndarray, epoch: int | None = None) -> LabeledImageBatch:
        places = part.by_shape(part.kept[chosen])
        draws = part.draw(self.config, self.setup.seed, epoch, places, places)
        return LabeledImageBatch(part.lines(places), *part.read(places), draws, torch.from_numpy(part.labels[places]))

    def nats(self, model: Classifier, batch: LabeledImageBatch, smoothing: float) -> Tensor:
        """-log P of all labels; of a mixture of two images, of both labels by their shares."""
        logits = model(batch.patches(), batch.layout).float()
        nats = F.cross_entropy(logits, batch.labels, reduction="none", label_smoothing=smoothing)
        if batch.draws is not None:
            others = batch.labels[batch.draws.partner]
            theirs = F.cross_entropy(logits, others, reduction="none", label_smoothing=smoothing)
            nats = torch.lerp(theirs, nats, batch.draws.share)
        return nats.sum()

    # Validation and measuring.

    def log_probabilities(self, model: Classifier, part: LabeledImagePart, places: np.ndarray) -> np.ndarray:
        return self.read_pixels(model, [part.store[int(i)] for i in part.kept[places]])

    def read_pixels(self, model: Classifier, images: ImageArrays) -> np.ndarray:
        """log P(label | image), (images, labels)."""
        return read_each(model, images, self.grid, self.batch_tokens, model.device).log_softmax(-1).numpy()

    def classify_all(self, use: Use[Classifier], test: LabelledImages) -> list[Classified]:
        part = self.part(test, to_learn=False)
        rows = self.log_probabilities(use.model, part, np.arange(len(part)))
        return [self.answer(row, []) for row in rows]

    # For people.

    def inspect(self) -> list[Row]:
        parts = self.parts()
        names = dict(zip(self.config.labels, self.config.shown_labels, strict=True))
        rows = [
            row
            for name, part in parts.items()
            for row in image_rows(name, part.images, part.store, [names[label] for label in part.raw.labels])
        ]
        stores = {name: part.store for name, part in parts.items()}
        return rows + overlap_rows(stores, {name: part.images for name, part in parts.items()})

    def draw_examples(self, path: Path) -> None:
        draw_changes(len(self.train), partial(self.collate, self.train), path)

    @property
    def purpose(self) -> str:
        return f"was trained to predict the label of an image ({named(self.config.shown_labels)})"

    # Use.

    def look(self, use: Use[Classifier], source: Picture, target: str | None, focus: Focus) -> Capture:
        name = name_of(source)
        if target is not None or not name:
            raise RegardError("this run reads one image: give the image, and no target")
        pixels = pixels_given([source], self.config, self.grid)
        answer = self.answer(self.read_pixels(use.model, pixels)[0], [])
        title = f"{name} → {answer.label} ({answer.probability:.1%})"
        return look_at_image(use.model, *read_patches(pixels, self.grid), title, focus)

    def classify(self, use: Use[Classifier], ask: Classify) -> list[Classified]:
        images = pixels_given(ask.lines, self.config, self.grid)
        return [self.answer(row, []) for row in self.read_pixels(use.model, images)]

    def embed(self, use: Use[Classifier], ask: Embed) -> np.ndarray:
        images = pixels_given(ask.lines, self.config, self.grid)
        return embed_images(use.model, images, self.grid, ask.pooling, ask.layer)
