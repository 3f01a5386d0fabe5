"""Which head looks at what is named?  A model is watched while it writes captions of objects whose boxes are known."""

import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import torch

from regard.data.images.augment import Augmentation
from regard.data.images.boxes import BoxesByImage, NamedObject
from regard.errors import DataError, RunError
from regard.evaluation.measured import Measured, Metric, metric_row
from regard.evaluation.pointing import LayerHead, Pointing, holds_center, patches_inside, points_inside
from regard.models.interface import AnyTranslator
from regard.nn.watch import watch
from regard.tasks.captions.batches import CaptionSet
from regard.text.unicode import well_formed
from regard.viewer.kinds import KINDS


class CaptionNoun(NamedTuple):
    token: int  # of a caption; the row of the decoder that writes it has its number
    named: NamedObject


def nouns_of(part: CaptionSet, boxes: BoxesByImage) -> list[list[CaptionNoun]]:
    """The nouns of every caption; of those that are not in `kept`, none."""
    nouns: list[list[CaptionNoun]] = [[] for _ in part.captions]
    places = part.setup.tokenizer.encode_places(part.captions)
    first_of_image = np.searchsorted(part.image_of, part.image_of)
    for caption in part.kept.tolist():
        where, text = part.where(caption), part.captions[caption]
        number = caption - int(first_of_image[caption])  # among the captions of its image
        for named in objects_of(part, int(part.image_of[caption]), boxes):
            begin, end = word_span(text, named.nouns[number], where)
            tokens = (token for token, (first, last) in enumerate(places[caption][1]) if first < end and last > begin)
            token = next(tokens, None)
            if token is None:
                raise DataError(f"{where}: the tokenizer has no token for the word {text[begin:end]!r} of {text!r}")
            nouns[caption].append(CaptionNoun(token, named))
    return nouns


def objects_of(part: CaptionSet, image: int, boxes: BoxesByImage) -> list[NamedObject]:
    (_, name), where, n = part.raw.images.origins[image], part.raw.images.where(image), len(part.references[image])
    if name not in boxes:
        raise DataError(f"the file of boxes has no line for {where}; add one with its objects")
    height, width = part.pictures.store.sizes[image].tolist()
    for named in boxes[name]:
        if len(named.nouns) != n:
            raise DataError(f"{where}: {named.name!r} has {len(named.nouns)} nouns in {n} captions; name one in each")
        if named.box.bottom > height or named.box.right > width:
            box = list(named.box)
            raise DataError(f"{where}: the box {box} of {named.name!r} ends outside of the {height} x {width} pixels")
    return boxes[name]


def word_span(text: str, word: int, where: str) -> tuple[int, int]:
    """Where a word, counted between white space, begins and ends."""
    words = list(re.finditer(r"\S+", well_formed(text)))
    if word >= len(words):
        raise DataError(f"{where}: {text!r} has no word {word}, counted from 0; fix the nouns of its objects")
    return words[word].span()


@torch.no_grad()
def point(model: AnyTranslator, part: CaptionSet, boxes: BoxesByImage, groups: Iterable[np.ndarray]) -> Pointing:
    """What every head of the cross-attention points at, while the captions at these places of `kept` are written."""
    nouns, grid, sizes = nouns_of(part, boxes), part.pictures.grid, part.pictures.store.sizes.tolist()
    names: list[str] = []
    center: list[bool] = []
    chance: list[float] = []
    hits: dict[LayerHead, list[np.ndarray]] = {}
    for chosen in groups:
        captions = part.by_shape(part.kept[chosen])  # in the order of the batch
        images = part.image_of[captions]
        batch = part.batch(chosen, Augmentation(), None).to(model.device)
        with watch(model) as seen:
            model(batch.patches(), batch.source_layout, batch.target, batch.target_layout)
        places = [(row, noun) for row, caption in enumerate(captions) for noun in nouns[caption]]
        inside = np.zeros((len(places), part.pictures.lengths[images].max()), np.bool_)
        for i, (row, noun) in enumerate(places):
            height, width = sizes[images[row]]
            on_object = patches_inside(noun.named.box, grid.shape_of(height, width), grid.patch)
            inside[i, grid.class_row : grid.class_row + len(on_object)] = on_object
            names.append(noun.named.name)
            chance.append(float(on_object.mean()))
            center.append(holds_center(noun.named.box, height, width))
        rows, tokens = [row for row, _ in places], [noun.token for _, noun in places]
        for sighting in seen.sightings:
            if sighting.kind == "cross":
                is_hit = points_inside(sighting.weights[rows, :, tokens].cpu().numpy(), inside)  # nouns, heads
                for head in sighting.heads:
                    hits.setdefault((sighting.layer, head), []).append(is_hit[:, head])
    if not hits:
        raise RunError("this model has no cross-attention, so it points at nothing")
    if not names:
        raise DataError("the file of boxes has no objects of these images")
    joined = {head: np.concatenate(parts) for head, parts in hits.items()}
    return Pointing(names, joined, np.array(chance), np.array(center))


def measure_pointing(of: str, valid: Pointing, test: Pointing, known: set[str]) -> Measured:
    """The head that points best on validation images, on the test; `known` are names of objects in training."""
    chosen = valid.best()
    heads = {head: valid.metric(head_name(head), is_hit) for head, is_hit in valid.hits.items()}
    metrics = test.metrics(chosen, known)
    record: dict[str, object] = {"of": of, "head": chosen, "metrics": [asdict(metric) for metric in metrics]}
    record["validation"] = [asdict(metric) for metric in heads.values()]
    tables = [
        (f"{len(valid.names):,} nouns of validation captions", table("head", list(heads.values()))),
        (f"{head_name(chosen)}, on {of}", table(f"{len(test.names):,} nouns", metrics)),
    ]
    return Measured(of, metrics, record, tables, footing=[metrics[0].signature])


def head_name(head: LayerHead) -> str:
    return f"{KINDS['cross'].title}, layer {head[0]}, head {head[1]}"


def table(what: str, metrics: list[Metric]) -> list[tuple[str, ...]]:
    return [(what, "% inside the box", "95 % interval"), *(metric_row(metric, "{:.1f}") for metric in metrics)]
