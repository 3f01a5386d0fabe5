"""Whether files are images with labels or with captions, by their names and beginnings; nothing is decoded.

As in `files/recognizing.py`, each function gives the settings that read the files, or None, and never raises."""

import math
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath

from regard.data.files import clues
from regard.data.files.clues import Files, begin, by_part, data_settings, is_label, is_text
from regard.data.files.reading import kind_of, read_bytes
from regard.data.files.recognizing import LABELS, Recognized, listed, same_tables
from regard.data.images.archives import ARCHIVES, BROKEN, Zip
from regard.data.images.captions import NUMBERED
from regard.data.images.given import by_kind
from regard.data.images.opening import image_size
from regard.data.images.sources import ENDINGS

N_NAMES = 200  # of a folder or an archive, looked at
FilesByKind = dict[str, list[Path]]  # the files, by kind
Recognize = Callable[[FilesByKind], Recognized | None]


def images_with_labels(paths: Sequence[Path]) -> Recognized | None:
    """Images with a label each."""
    return by_form(paths, LABELED)


def images_with_captions(paths: Sequence[Path]) -> Recognized | None:
    return by_form(paths, CAPTIONED)


def by_form(paths: Sequence[Path], forms: Mapping[tuple[str, ...], Recognize]) -> Recognized | None:
    try:
        kinds = by_kind(paths)
        form = forms.get(tuple(sorted(kinds)))
        return form(kinds) if form else None
    except BROKEN:  # a DataError is a ValueError
        return None


# Labels.


def idx_files(kinds: FilesByKind) -> Recognized | None:
    """As many files of images as of labels, which have one size: their number."""
    parts = by_part(kinds["idx"])
    for part, paths in parts.items():
        labels = [path for path in paths if read_bytes(path, 4)[3] == 1]
        images = [path for path in paths if path not in labels]
        if len(images) != len(labels):
            return None
        parts[part] = [path for pair in zip(images, labels, strict=True) for path in pair]
    why = f"{listed([path.name for path in kinds['idx']])} are idx files of images and labels"
    return Recognized(data_settings(parts), {}, why, 0.95) if parts else None


def class_folders(kinds: FilesByKind) -> Recognized | None:
    """Folders with a folder for each class; one alone may hold those of training, validation and test."""
    folders = kinds["folder"]
    inner = subfolders(folders[0])
    if len(folders) == 1 and any(clues.parts_named(path) for path in inner):
        folders = inner
    parts = by_part(folders)
    if not parts or not all(has_classes(path) for path in folders):
        return None
    why = f"{listed([path.name for path in kinds['folder']])} has images in a folder for each class"
    return Recognized(data_settings(parts), {}, why, 0.9)


def subfolders(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]


def has_classes(folder: Path) -> bool:
    """Two folders or more, and images in them."""
    classes = subfolders(folder)
    return len(classes) > 1 and all(any(map(is_image, islice(path.iterdir(), N_NAMES))) for path in classes[:N_NAMES])


def is_image(path: PurePath) -> bool:
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".")


def class_archives(kinds: FilesByKind) -> Recognized | None:
    parts = by_part(kinds["archive"])
    if not parts or not all(has_images_in_folders(path) for path in kinds["archive"]):
        return None
    why = f"{listed([path.name for path in kinds['archive']])} has images in folders, which are taken for classes"
    return Recognized(data_settings(parts), {}, why, 0.6)


def has_images_in_folders(path: Path) -> bool:
    images = [name for name in map(PurePosixPath, member_names(path)) if is_image(name)]
    return bool(images) and all(len(name.parts) > 1 for name in images)


def member_names(path: Path) -> list[str]:
    """The first ones; of a packed archive no more is unpacked."""
    if ARCHIVES[kind_of(path)] is Zip:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()[:N_NAMES]
    with tarfile.open(path, "r|*") as members:
        return [member.name for member in islice(members, N_NAMES)]


def labeled_table(kinds: FilesByKind) -> Recognized | None:
    """A column of paths of images, and one of labels."""
    parts, columns = same_tables(kinds["table"])
    path = path_column(columns)
    labels = [name for name, values in columns.items() if is_label(values) and len(set(values)) > 1 and name != path]
    if path is None or not labels:
        return None
    known = [name for name in labels if name.lower() in LABELS]
    label = (known or labels)[-1]
    why = f"{parts['train'][0].name} is a table: its column {path} names images, and its column {label} has labels"
    return Recognized(table_settings(parts, kinds, path, label), {}, why, 0.95 if known else 0.85)


def path_column(columns: Mapping[str, Sequence[str]]) -> str | None:
    return next((name for name, values in columns.items() if values and all(is_image(Path(v)) for v in values)), None)


def table_settings(parts: Files, kinds: FilesByKind, path: str, value: str) -> dict[str, object]:
    holders = [*kinds.get("archive", []), *kinds.get("folder", [])]  # all parts have their images there
    return data_settings({part: [*tables, *holders] for part, tables in parts.items()}, (path, value))


def sprites(kinds: FilesByKind) -> Recognized | None:
    """Pictures as wide as a square, and lists of labels."""
    parts = by_part([*kinds["picture"], *kinds["list"]])
    for paths in parts.values():
        pictures, lists = ([path for path in paths if path in kinds[kind]] for kind in ("picture", "list"))
        beginnings = [begin(path) for path in lists]
        if not pictures or not lists or any(b is None or not b.text.lstrip().startswith("[") for b in beginnings):
            return None
        widths = [image_size(path)[0] for path in pictures]
        if any(math.isqrt(width) ** 2 != width for width in widths):
            return None
    why = f"{kinds['picture'][0].name} has an image in each row of pixels, and {kinds['list'][0].name} lists labels"
    return Recognized(data_settings(parts), {}, why, 0.8) if parts else None


# Captions.


def caption_table(kinds: FilesByKind) -> Recognized | None:
    """A column of paths of images, and one of text."""
    parts, columns = same_tables(kinds["table"])
    path = path_column(columns)
    texts = [name for name, values in columns.items() if is_text(values) and name != path]
    if path is None or not texts:
        return None
    why = f"{parts['train'][0].name} is a table: its column {path} names images, and its column {texts[0]} is text"
    return Recognized(table_settings(parts, kinds, path, texts[0]), {}, why, 0.95)


def numbered_captions(kinds: FilesByKind) -> Recognized | None:
    """The files of Flickr8k: numbered captions, the images, and lists of those of each part."""
    beginnings = [beginning for path in kinds["text"] if (beginning := begin(path))]
    captions = [beginning.path for beginning in beginnings if all(map(NUMBERED.fullmatch, beginning.lines))]
    lists = [path for path in kinds["text"] if path not in captions]
    parts = by_part(lists) if lists else {"train": []}
    if len(captions) != 1 or len(beginnings) != len(kinds["text"]) or not parts:
        return None
    holders = [*kinds.get("archive", []), *kinds.get("folder", [])]
    settings = data_settings({part: [*captions, *holders, *names] for part, names in parts.items()})
    return Recognized(settings, {}, f"{captions[0].name} has numbered captions of images", 0.95)


LABELED: dict[tuple[str, ...], Recognize] = {
    ("idx",): idx_files,
    ("folder",): class_folders,
    ("archive",): class_archives,
    ("table",): labeled_table,
    ("archive", "table"): labeled_table,
    ("folder", "table"): labeled_table,
    ("list", "picture"): sprites,
}
CAPTIONED: dict[tuple[str, ...], Recognize] = {
    ("table",): caption_table,
    ("archive", "table"): caption_table,
    ("folder", "table"): caption_table,
    ("archive", "text"): numbered_captions,
    ("folder", "text"): numbered_captions,
}
