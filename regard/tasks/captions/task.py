"""Captions: an image in, a text about it out."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.checks import expect, not_negative, one_of, share
from regard.data.config import DataConfig
from regard.data.files.splits import Parts
from regard.data.images.augment import Augmentation
from regard.data.images.boxes import BoxesByImage, read_boxes
from regard.data.images.examples import CaptionedImages
from regard.data.images.files import captioned_images
from regard.data.images.pixels import Picture, Resizing, name_of, pictures_of
from regard.data.images.recognizing import images_with_captions
from regard.data.images.report import image_rows, overlap_rows
from regard.data.report import AT, PERCENTILES, Row, column_rows, note_rows
from regard.decoding.engine import Engine
from regard.errors import ConfigError, RegardError
from regard.evaluation.measured import Measured, Versus, count_notes, metric_row
from regard.evaluation.pointing import Pointing
from regard.evaluation.translation import ORDERS, caption_bleu, caption_match, paired_captions, side_by_side
from regard.models.interface import AnyTranslator
from regard.nn.grid import GridForm
from regard.nn.loss import cross_entropy
from regard.processes import spread_lines
from regard.tasks.captions.batches import CaptionBatch, CaptionSet
from regard.tasks.captions.pointing import measure_pointing, point
from regard.tasks.captions.sizing import draft
from regard.tasks.captions.use import look_at_caption, write_captions
from regard.tasks.captions.verbs import Caption, Captioned, Point
from regard.tasks.framing import Frame
from regard.tasks.images.batches import ImageArrays
from regard.tasks.images.changes import draw_changes
from regard.tasks.images.use import embed_images, pixels_given
from regard.tasks.request import Embed
from regard.tasks.setup import Sample, Setup, TaskConfig, Use, Verbs
from regard.tasks.task import AnyTask, Task
from regard.tasks.translation.use import least_expected, unusual
from regard.tasks.wire import IMAGE
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus

N_EXPECTED = 200  # validation images that say what captions are like


@dataclass(frozen=True, kw_only=True)
class CaptionsConfig(TaskConfig, Resizing, Augmentation):
    # A mirrored image with a caption that says left or right teaches the wrong thing: `flip` is the user's choice.
    metric: str = "loss"  # the validation figure that chooses the best checkpoint: `loss` or `bleu`
    smoothing: float = 0.1  # label smoothing ε: the label gets 1 - ε, the vocabulary ε
    validation_lines: int = 500  # how many validation images also get a caption, greedily, for BLEU; 0: none
    shown: int = 3  # fixed validation samples printed at each validation
    # A control: every training image gets the captions of another one, so a model can learn only what captions are like
    shuffled: bool = False

    def __post_init__(self) -> None:
        for settings in (Resizing, Augmentation):
            settings.__post_init__(self)
        one_of(self, ("loss", "bleu"), "metric")
        not_negative(self, "validation_lines", "shown")
        share(self, "smoothing")
        if self.metric == "bleu" and self.validation_lines < 1:
            raise ConfigError('metric = "bleu" needs validation_lines above 0')
        if self.mixup or self.cutmix:
            raise ConfigError("a mixture of two images has no caption: mixup and cutmix must be 0")

    @property
    def written(self) -> int:
        return self.validation_lines + self.shown


class Captioning(Task[CaptionedImages, CaptionSet, AnyTranslator, CaptionBatch]):
    """-Σ_t log P(y_t | y_<t, image), of every caption of every image once an epoch, and what the model adds to it."""

    settings = CaptionsConfig
    roles = ("captioner",)
    compared_as, has_outputs, takes_files = "captions", True, True
    purpose = "was trained to write the caption of an image"
    commands = ("regard caption RUN image.jpg ...", "regard look RUN image.jpg", "regard evaluate RUN")
    recognize = staticmethod(images_with_captions)
    draft = staticmethod(draft)
    listed = staticmethod(pictures_of)
    wire = IMAGE
    config: CaptionsConfig

    def __init__(self, config: TaskConfig, setup: Setup):
        super().__init__(config, setup)
        self.frame = Frame(self.tokenizer.start_id, self.tokenizer.end_id)

    @property
    def grid(self) -> GridForm:
        """How the model reads images."""
        return expect(self.setup.grid, GridForm)

    # Files.

    @classmethod
    def read_parts(cls, config: TaskConfig, data: DataConfig) -> Parts[CaptionedImages]:
        return captioned_images(data)

    @classmethod
    def texts(cls, data: DataConfig) -> Iterable[str]:
        return (caption for captions in captioned_images(data).train.captions for caption in captions)

    def part(self, raw: CaptionedImages, to_learn: bool) -> CaptionSet:
        if to_learn and self.config.shuffled:
            raw = raw.exchanged(self.setup.seed)
        return CaptionSet(raw, self.config.form(self.grid.channels), self.grid, self.setup, self.frame)

    # Learning.

    def collate(self, part: CaptionSet, chosen: np.ndarray, epoch: int | None = None) -> CaptionBatch:
        return part.batch(chosen, self.config, epoch)

    def small_batch(self, n_tokens: int) -> CaptionBatch:
        """With one caption of an image: two of them could not both be known by heart."""
        [chosen, *_] = self.packing(self.train, min(n_tokens, self.batch_tokens), "random", 0).epoch(0)
        return self.collate(self.train, self.train.first_of_each(chosen))

    def nats(self, model: AnyTranslator, batch: CaptionBatch, smoothing: float) -> Tensor:
        hidden = model(batch.patches(), batch.source_layout, batch.target, batch.target_layout)
        return cross_entropy(hidden, model.output_table, batch.labels, smoothing, model.output_bias)

    def loss(self, model: AnyTranslator, batch: CaptionBatch) -> Tensor:
        hidden, penalty = model.penalized(batch.patches(), batch.source_layout, batch.target, batch.target_layout)
        nats = cross_entropy(hidden, model.output_table, batch.labels, self.config.smoothing, model.output_bias)
        return nats + penalty

    # Validation and measuring.

    @torch.no_grad()
    def figures(self, model: AnyTranslator, part: CaptionSet) -> dict[str, float]:
        """The loss in nats a token, without smoothing; BLEU of greedy captions, with all references of each image."""
        values = {
            "loss": self.mean_loss(model, part, self.packing(part, self.batch_tokens, "grouped", seed=0).epoch(0))
        }
        n = min(self.config.validation_lines, len(part.raw))
        if n:
            outputs = spread_lines(range(n), lambda own: [a.text for a in self.greedily(model, part, own)])
            values["bleu"] = caption_bleu(outputs, part.references[:n], resamples=0).value
        return values

    def first_samples(self, model: AnyTranslator, valid: CaptionSet) -> list[Sample]:
        images = range(min(self.config.shown, len(valid.raw)))
        outputs = [answer.text for answer in self.greedily(model, valid, images)]
        references = [valid.references[i] for i in images]
        chosen = [output if output in own else own[0] for output, own in zip(outputs, references, strict=True)]
        return list(zip(map(valid.raw.images.where, images), chosen, outputs, strict=True))

    def greedily(self, model: AnyTranslator, part: CaptionSet, images: Sequence[int]) -> list[Captioned]:
        quick = replace(self.setup.decoding, beam=1, n_best=1, sample=False)
        use = Use(model, Engine(model), quick)
        return self.write(use, [part.pictures.store[i] for i in images], Caption(()))

    def expected(self, model: AnyTranslator) -> dict[str, float]:
        """How likely its own captions of some validation images, spread over all, are to the model."""
        if self.valid is None:
            return {}
        n = len(self.valid.raw)
        return least_expected(self.greedily(model, self.valid, range(0, n, -(-n // N_EXPECTED))))

    def measure(self, use: Use[AnyTranslator], files: Sequence[str] = ()) -> Measured:
        """BLEU-1 to BLEU-4 and exact match with all references, how many captions are distinct, and the speed."""
        of, raw = self.test(files)
        part, begin = self.part(raw, to_learn=False), time.perf_counter()

        def write(images: list[int]) -> list[tuple[str, list[str]]]:
            answers = self.write(use, [part.pictures.store[i] for i in images], Caption(()))
            return [(answer.text, answer.notes) for answer in answers]

        written = spread_lines(range(len(raw)), write)
        seconds = time.perf_counter() - begin
        outputs = [text for text, _ in written]
        metrics = [caption_bleu(outputs, raw.captions, order) for order in ORDERS]
        metrics.append(caption_match(outputs, raw.captions))
        notes = count_notes((note for _, own in written for note in own), (":",))
        record: dict[str, object] = {"images": len(outputs), "distinct_captions": len(set(outputs))}
        record |= {"metrics": [asdict(metric) for metric in metrics], "decoding": asdict(use.decoding)}
        record |= {"images_per_second": round(len(outputs) / seconds, 1), "seconds": round(seconds, 2), "notes": notes}
        way = f"beam {use.decoding.beam}, length penalty {use.decoding.length_penalty}"
        rows = [
            ("what", "value", "95 % interval"),
            *(metric_row(metric, "{:.2f}", "{:.1f}") for metric in metrics),
            ("decoding", "sampling" if use.decoding.sample else way, ""),
            ("speed", f"{record['images_per_second']:,} images/s", ""),
            ("images", f"{len(outputs):,}", ""),
            ("distinct captions", f"{len(set(outputs)):,}", ""),
            *((f"images: {note}", f"{n:,}", "") for note, n in notes.items()),
        ]
        footing = [f"{metric.name}: {metric.signature}" for metric in metrics]
        remarks = list(part.pictures.notes.rows())
        return Measured(of, metrics, record, [("", rows)], (), footing, outputs, remarks)

    def versus(self, use: Use[AnyTranslator], other: AnyTask, its: Use, files: Sequence[str]) -> Versus:
        """The paired bootstrap test of both runs' captions; each run may read images in a size of its own."""
        (_, ours), (_, theirs) = self.test(files), other.test(files)
        if ours.captions != theirs.captions or ours.images.digests != theirs.images.digests:
            raise ConfigError(
                "the two runs have different test sets, so nothing was compared; name one for both: "
                "regard evaluate RUN RUN FILE..."
            )
        sides = [self.measure(use, files), other.measure(its, files)]
        return side_by_side(paired_captions(list(sides[0].outputs), list(sides[1].outputs), ours.captions), sides)

    # For people.

    def inspect(self) -> list[Row]:
        parts = self.parts()
        known = set().union(*parts["train"].captions)
        rows = [row for name, part in parts.items() for row in self.part_rows(name, part, known)]
        stores = {name: part.pictures.store for name, part in parts.items()}
        return rows + overlap_rows(stores, {name: part.raw.images for name, part in parts.items()})

    def draw_examples(self, path: Path) -> None:
        draw_changes(len(self.train), partial(self.collate, self.train), path)

    def part_rows(self, name: str, part: CaptionSet, known: set[str]) -> list[Row]:
        n_each = np.percentile([len(captions) for captions in part.references], PERCENTILES, method="higher")
        dropped = [row for row in note_rows(name, part.notes) if row.what.startswith("dropped")]
        return [
            *image_rows(name, part.raw.images, part.pictures.store),
            Row(name, "captions", f"{len(part.captions):,}"),
            Row(name, f"captions an image, {AT.replace('longest', 'most')}", "/".join(str(int(n)) for n in n_each)),
            *column_rows(name, "caption", part.captions, part.where, part.shard, self.tokenizer, known),
            *dropped,
        ]

    # Use.

    @property
    def verbs(self) -> Verbs:
        return {"caption": self.caption, "point": self.point, **super().verbs}

    def caption(self, use: Use[AnyTranslator], ask: Caption) -> list[Captioned]:
        return self.write(use, pixels_given(ask.images, self.config, self.grid), ask)

    def point(self, use: Use[AnyTranslator], ask: Point) -> Measured:
        parts, boxes = self.read_parts(self.config, self.setup.data), read_boxes(Path(ask.boxes))
        if self.config.size:
            raise ConfigError(f"boxes are in pixels of the files, and this run resizes images to {self.config.size}")
        if parts.valid is None:
            raise ConfigError("the head is chosen on validation data, and the recipe names none")
        of, test = parts.to_evaluate(tuple(ask.files), or_valid=False)
        valid, tested = (self.pointing(use.model, raw, boxes) for raw in (parts.valid, test))
        learned = (boxes.get(name, []) for _, name in parts.train.images.origins)
        return measure_pointing(of, valid, tested, {named.name for objects in learned for named in objects})

    def pointing(self, model: AnyTranslator, raw: CaptionedImages, boxes: BoxesByImage) -> Pointing:
        part = self.part(raw, to_learn=False)
        return point(model, part, boxes, self.packing(part, self.batch_tokens, "grouped", seed=0).epoch(0))

    def write(self, use: Use[AnyTranslator], images: ImageArrays, ask: Caption) -> list[Captioned]:
        """Captions of images as the model reads them; none is longer than those that can be learned."""
        config = (ask.decoding or use.decoding).within(min(use.model.max_length, self.max_length + 1))
        answers = write_captions(use.engine, self.tokenizer, images, self.grid, self.frame, config, ask.on_progress)
        for answer in answers:
            if not config.sample:  # otherwise what was written is not the model's own choice
                answer.notes.extend(unusual(answer, use.expected))
        return answers

    def embed(self, use: Use[AnyTranslator], ask: Embed) -> np.ndarray:
        images = pixels_given(ask.lines, self.config, self.grid)
        return embed_images(use.model, images, self.grid, ask.pooling, ask.layer)

    def look(self, use: Use[AnyTranslator], source: Picture, target: str | None, focus: Focus) -> Capture:
        focus.check(use.model)
        name = name_of(source)
        if not name:
            raise RegardError("this run reads an image: give one")
        [image] = pixels_given([source], self.config, self.grid)
        text = self.write(use, [image], Caption(()))[0].text if target is None else target
        return look_at_caption(use.model, self.tokenizer, image, self.grid, self.frame, name, text, focus)
