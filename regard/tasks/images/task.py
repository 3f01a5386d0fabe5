"""Classification of images: pixels in, one label out."""

from collections.abc import Iterable
from dataclasses import dataclass

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
from regard.data.images.pixels import Resizing, pictures_of, pixels_of
from regard.data.images.recognizing import labeled_images
from regard.data.images.report import image_rows, overlap_rows
from regard.data.report import Row
from regard.models.heads import Classifier
from regard.models.interface import AnyReader
from regard.nn.grid import Grid, GridForm
from regard.nn.pooling import POOLINGS, summary
from regard.tasks.classification.labels import LabelsConfig, LabelTask
from regard.tasks.classification.verbs import Classified, Classify
from regard.tasks.exchange import IMAGE_LABELS
from regard.tasks.images.batches import ImageBatch, ImagePart, Pixels, by_shape, check_shape, read_each
from regard.tasks.request import Embed
from regard.tasks.setup import Setup, TaskConfig, Use


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
    recognize = staticmethod(labeled_images)
    listed = staticmethod(pictures_of)
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
        places = by_shape(part.kept[chosen], part.shapes)
        draws = part.draw(self.config, self.setup.seed, epoch, places)
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

    def read_pixels(self, model: Classifier, images: Pixels) -> np.ndarray:
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

    @property
    def purpose(self) -> str:
        return f"was trained to predict the label of an image ({named(self.config.shown_labels)})"

    # Use.

    def pixels(self, pictures: Iterable[object]) -> Pixels:
        """What the model reads of what a user gives: paths, PIL images, arrays or tensors."""
        form, images = self.config.form(self.grid.channels), []
        for i, picture in enumerate(pictures):
            where = str(picture) if isinstance(picture, str) else f"image {i}"
            images.append(pixels_of(picture, form, where))  # type: ignore[arg-type]
            check_shape(self.grid.shape_of(*images[-1].shape[:2]), self.grid, where)
        return images

    def classify(self, use: Use[Classifier], ask: Classify) -> list[Classified]:
        return [self.answer(row, []) for row in self.read_pixels(use.model, self.pixels(ask.lines))]

    def embed(self, use: Use[Classifier], ask: Embed) -> np.ndarray:
        choose(POOLINGS, ask.pooling, "pooling")

        def vectors(patches: Tensor, layout: Grid) -> Tensor:
            return summary(use.model.features(patches, layout), layout, ask.pooling)

        return read_each(vectors, self.pixels(ask.lines), self.grid, self.batch_tokens, use.model.device).numpy()
