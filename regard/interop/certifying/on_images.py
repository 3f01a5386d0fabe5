"""Our run and the same model in another tool, on images: from tensors to logits, and from files to probabilities."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from regard.checks import expect
from regard.interop.certifying.certificate import Certificate, Finding, compare_ids, compare_rows, issue
from regard.interop.certifying.in_transformers import without_rounding
from regard.interop.certifying.sample_images import write_pictures
from regard.interop.families.labels import told_apart
from regard.interop.families.settings import exchange_of
from regard.models.vit import ViTConfig
from regard.nn.grid import Grid
from regard.runs.run import Run
from regard.tasks.images.task import ImageClassification
from regard.tasks.images.use import pixels_given

N_RANDOM = 24
EXACT = 0.01  # of 255 levels of a pixel: rounding, and nothing else
NEAREST = 1.01  # what two ways of resizing may differ in


@dataclass(frozen=True)
class ToolReading:
    """What a tool makes of image files."""

    pixels: list[Tensor]  # (C, H, W) each, as its model reads them
    probabilities: Tensor  # (images, labels)


class ImageTool(Protocol):
    """Another tool with its model, and how it makes pixels."""

    model: nn.Module
    packages: tuple[str, ...]
    resizes_with: str  # "pil", or what else
    names: list[str]  # of its labels

    def logits(self, pixels: Tensor) -> Tensor:
        """Pixels as the model reads them (B, C, H, W) -> (B, labels)."""
        ...

    def see(self, paths: Sequence[Path]) -> ToolReading: ...


class OursOnImages:
    def __init__(self, run: Run):
        self.run, self.model = run, run.model
        self.task, self.config = expect(run.task, ImageClassification), expect(run.recipe.model, ViTConfig)

    def normalized(self, images: Tensor) -> Tensor:
        """(B, C, H, W) from 0 to 1 -> less the mean, divided by the deviation."""
        mean, deviation = (
            images.new_tensor(values).expand(self.config.channels)[:, None, None]
            for values in (self.config.mean, self.config.deviation)
        )
        return (images - mean) / deviation

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """(B, C, H, W) from 0 to 1, of one size -> (B, labels)."""
        form = self.config.grid
        layout = Grid([form.shape_of(*images.shape[2:])] * len(images), form)
        rows = exchange_of(self.run.recipe).rows
        return rows(self.model, layout.patches([images]).to(self.run.device), layout.to(self.run.device)).cpu()

    def see(self, paths: Sequence[Path]) -> ToolReading:
        pixels = pixels_given([str(path) for path in paths], self.task.config, self.task.grid)
        answers = self.run.classify([str(path) for path in paths])
        as_read = [self.normalized(torch.from_numpy(image.copy()).permute(2, 0, 1)[None] / 255)[0] for image in pixels]
        return ToolReading(as_read, torch.tensor([list(answer.probabilities.values()) for answer in answers]))


def certify_images(
    run: Run, folder: Path, family: str, tools: Sequence[ImageTool], notes: tuple[str, ...] = ()
) -> Certificate:
    """`tools` are one model with several ways to make pixels of a file, the usual one first."""
    ours = OursOnImages(run)
    findings = compare_tensors(ours, tools[0])
    with tempfile.TemporaryDirectory() as place:
        paths = write_pictures(Path(place))
        for tool in tools:
            of_files, more_notes = compare_files(ours, tool, paths)
            findings, notes = [*findings, *of_files], notes + more_notes
    names = told_apart(tools[0].names)
    findings.append(compare_names(ours.task.config.shown_labels, names))
    if changed := [name for name, theirs in zip(names, tools[0].names, strict=True) if name != theirs]:
        notes = (*notes, f"names that several labels share were told apart: {', '.join(changed)[:200]}")
    return issue(run.folder, folder, family, findings, tools[0].packages, notes)


def compare_tensors(ours: OursOnImages, theirs: ImageTool) -> list[Finding]:
    """The same random pixels, already in the model's size."""
    side = ours.config.side * ours.config.patch
    chance = np.random.default_rng(0)
    images = torch.from_numpy(chance.random((N_RANDOM, ours.config.channels, side, side), np.float32))
    exchange, of = exchange_of(ours.run.recipe), f"{N_RANDOM} tensors of random pixels"
    rows = [ours.logits(images), theirs.logits(ours.normalized(images))]
    finding = compare_rows(exchange.compared, rows[:1], rows[1:], of)
    if not finding.holds:
        finding = without_rounding(finding, largest_in_double(ours, theirs, images[:3].double()))
    likeliest = [row.argmax(-1)[:, None].tolist() for row in rows]
    return [finding, compare_ids(exchange.likeliest, likeliest[0], likeliest[1], of)]


def largest_in_double(ours: OursOnImages, theirs: ImageTool, images: Tensor) -> float:
    for model in (ours.model, theirs.model):
        nn.Module.double(model)
    exact = float((ours.logits(images) - theirs.logits(ours.normalized(images))).abs().max())
    for model in (ours.model, theirs.model):
        nn.Module.float(model)
    return exact


def compare_files(
    ours: OursOnImages, theirs: ImageTool, paths: Sequence[Path]
) -> tuple[list[Finding], tuple[str, ...]]:
    """From the file to the probabilities, through the other tool's own preprocessing.  Where it resizes with something
    else than PIL, pixels may differ in a level; what that does to the probabilities is a note."""
    our_reading, their_reading = ours.see(paths), theirs.see(paths)
    is_pil = theirs.resizes_with == "pil"
    of = f"{len(paths)} image files" + ("" if is_pil else f", resized by {theirs.resizes_with}")
    levels = largest_in_levels(ours, our_reading.pixels, their_reading.pixels)
    most = EXACT if is_pil else NEAREST
    pixels = Finding(
        what="largest difference of pixels, of 255",
        value=levels,
        wanted=f"at most {most:g}",
        holds=levels <= most,
        of=of,
    )
    if not is_pil:
        change = float((our_reading.probabilities - their_reading.probabilities).abs().max())
        return [pixels], (f"with {theirs.resizes_with}'s pixels, probabilities differ by up to {change:.3g}",)
    labels = [row.argmax(-1)[:, None].tolist() for row in (our_reading.probabilities, their_reading.probabilities)]
    findings = [
        pixels,
        compare_rows("probabilities, from the file", [our_reading.probabilities], [their_reading.probabilities], of),
        compare_ids("labels, from the file", labels[0], labels[1], of),
    ]
    return findings, ()


def compare_names(ours: Sequence[str], theirs: Sequence[str]) -> Finding:
    same = [a == b for a, b in zip(ours, theirs, strict=True)]
    share, of = sum(same) / len(same), f"{len(same):,} labels"
    return Finding(what="share of identical names", value=share, wanted="1", holds=all(same), of=of)


def largest_in_levels(ours: OursOnImages, our_pixels: Sequence[Tensor], their_pixels: Sequence[Tensor]) -> float:
    """Pixels that were normalized, compared as levels from 0 to 255; endless where the sizes differ."""
    deviation = torch.tensor(ours.config.deviation).expand(ours.config.channels)[:, None, None]
    return max(
        float(((a - b).abs() * deviation).max()) * 255 if a.shape == b.shape else float("inf")
        for a, b in zip(our_pixels, their_pixels, strict=True)
    )
