"""A model of images in transformers or timm, with all that the tool does between a file and the probabilities."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from regard.errors import need
from regard.interop.certifying.certificate import Certificate, faults_of
from regard.interop.certifying.in_transformers import found_at, load_model, quiet
from regard.interop.certifying.on_images import ImageTool, ToolReading, certify_images
from regard.interop.families.labels import numbers
from regard.interop.families.settings import exchange_of
from regard.runs.run import Run

TORCHVISION = (
    "transformers resizes with torchvision, if that is installed; AutoImageProcessor.from_pretrained(FOLDER, "
    "backend='pil') gives the very pixels that regard reads"
)


class ViTInTransformers:
    """`pipeline("image-classification")`, by its defaults or with another way to make pixels."""

    packages: tuple[str, ...] = ("transformers", "pillow")

    def __init__(self, run: Run, folder: Path, backend: str | None = None):
        self.folder, transformers = folder, need("transformers")
        exchange = exchange_of(run.recipe)
        self.model: Any = load_model(folder, exchange.loaded_by)
        with quiet(transformers), faults_of("transformers", folder):
            self.processor = transformers.AutoImageProcessor.from_pretrained(**found_at(folder), backend=backend)
            config = self.model.config
            self.names = [str(config.id2label[i]) for i in range(config.num_labels)]
            config.id2label = {i: str(i) for i in range(config.num_labels)}  # names need not be all different
            self.pipeline = transformers.pipeline(
                exchange.pipeline, model=self.model, image_processor=self.processor, device="cpu"
            )
        self.resizes_with = str(self.processor.backend)

    @torch.no_grad()
    def logits(self, pixels: Tensor) -> Tensor:
        with faults_of("transformers", self.folder):
            logits: Tensor = self.model(pixel_values=pixels).logits
        return logits

    def see(self, paths: Sequence[Path]) -> ToolReading:
        with faults_of("transformers", self.folder):
            pixels = [self.pipeline.preprocess(str(path))["pixel_values"][0] for path in paths]
            answers = self.pipeline([str(path) for path in paths], top_k=len(self.names))
        scores = [{answer["label"]: answer["score"] for answer in answers_of_one} for answers_of_one in answers]
        return ToolReading(pixels, torch.tensor([[row[str(i)] for i in range(len(self.names))] for row in scores]))


class ViTInTimm:
    """`timm.create_model("local-dir:FOLDER", pretrained=True)` after the transform that its settings describe."""

    packages: tuple[str, ...] = ("timm", "torchvision", "pillow")
    resizes_with = "pil"

    def __init__(self, run: Run, folder: Path):
        timm = need("timm", "timm")
        with faults_of("timm", folder):
            self.model: nn.Module = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
            self.transform = timm.data.create_transform(**timm.data.resolve_model_data_config(self.model))
        given: Any = self.model.pretrained_cfg
        names = given.get("label_names") or list(numbers(run.recipe.task.n_labels))
        self.folder, self.names = folder, list(names.values() if isinstance(names, dict) else names)

    @torch.no_grad()
    def logits(self, pixels: Tensor) -> Tensor:
        with faults_of("timm", self.folder):
            logits: Tensor = self.model(pixels)
        return logits

    def see(self, paths: Sequence[Path]) -> ToolReading:
        with faults_of("timm", self.folder):
            upright = [ImageOps.exif_transpose(Image.open(path)).convert("RGB") for path in paths]
            pixels = [self.transform(image) for image in upright]
        return ToolReading(pixels, self.logits(torch.stack(pixels)).softmax(-1))


def in_transformers(run: Run, folder: Path) -> list[ImageTool]:
    usual = ViTInTransformers(run, folder)
    return [usual] if usual.resizes_with == "pil" else [usual, ViTInTransformers(run, folder, backend="pil")]


def in_timm(run: Run, folder: Path) -> list[ImageTool]:
    return [ViTInTimm(run, folder)]


# By the family of the model.
TOOLS: dict[str, Callable[[Run, Path], list[ImageTool]]] = {"vit": in_transformers, "timm": in_timm}


def certify_vit(run: Run, folder: Path, family: str, notes: tuple[str, ...] = ()) -> Certificate:
    """Compare a run on images with the folder that it came from, or that it became."""
    tools = TOOLS[family](run, folder)
    if len(tools) > 1:
        notes = (*notes, TORCHVISION)
    return certify_images(run, folder, family, tools, notes)
