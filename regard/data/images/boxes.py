"""Boxes: where the objects are that the captions of images name, from a file with a JSON object for each image."""

from pathlib import Path
from typing import NamedTuple

from regard.data.files.reading import read_lines
from regard.data.files.records import as_text, json_objects
from regard.data.notes import Notes
from regard.errors import DataError

EXAMPLE = '{"path": "1.png", "objects": [{"name": "red circle", "box": [0, 4, 9, 13], "nouns": [2, 6]}]}'


class Box(NamedTuple):
    """In pixels; `bottom` and `right` are the first outside."""

    top: int
    left: int
    bottom: int
    right: int


class NamedObject(NamedTuple):
    name: str  # "red circle"
    box: Box
    nouns: tuple[int, ...]  # for each caption of the image, which of its words is the object's noun, counted from 0


BoxesByImage = dict[str, list[NamedObject]]  # the objects of each image, by the image's path


def read_boxes(path: Path) -> BoxesByImage:
    boxes: BoxesByImage = {}
    notes = Notes()  # only of empty lines
    for number, record in json_objects(read_lines(path, notes), path, EXAMPLE, notes):
        where = f"{path}:{number}"
        image, objects = record.get("path"), record.get("objects")
        if not isinstance(image, str) or not isinstance(objects, list):
            raise wrong(where, record)
        if image in boxes:
            raise DataError(f"{where} has the image {image!r} again; join the two lines")
        boxes[image] = [read_object(known, where) for known in objects]
    return boxes


def read_object(known: object, where: str) -> NamedObject:
    if not isinstance(known, dict) or known.keys() < {"name", "box", "nouns"}:
        raise wrong(where, known)
    box, nouns = numbers(known["box"], where), numbers(known["nouns"], where)
    if len(box) != 4 or box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(f"{where}: a box is [top, left, bottom, right] with an area, in pixels; got {list(box)}")
    return NamedObject(as_text(known["name"], where, "name"), Box(*box), nouns)


def numbers(value: object, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(number) is int and number >= 0 for number in value):
        raise wrong(where, value)
    return tuple(value)


def wrong(where: str, value: object) -> DataError:
    return DataError(f"{where} must be like {EXAMPLE}, got {str(value)[:60]!r}")
