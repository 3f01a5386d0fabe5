"""Images with captions: tables of paths and captions, and the files of Flickr8k."""

import re
from pathlib import Path

from regard.data.files.reading import read_lines
from regard.data.files.records import EMPTY_LINE
from regard.data.images.examples import CaptionedImages, Images
from regard.data.images.given import GivenFiles, find, look
from regard.data.images.sources import ImageSource
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

NUMBERED = re.compile(r"(?P<name>[^\t]+)#\d+\t(?P<caption>.*)")  # "1000268201_693b08cb0e.jpg#0<tab>A child in ..."
EMPTY, ABSENT = "empty caption skipped", "caption of an image that is not there skipped"


def from_caption_table(given: GivenFiles) -> CaptionedImages:
    """Tables with a column of paths and one of captions; an image that is named again has one caption more."""
    captions: dict[tuple[ImageSource, str], list[str]] = {}
    for row in given.rows("caption"):
        if row.value:
            captions.setdefault((row.source, row.name), []).append(row.value)
        else:
            given.notes.add(EMPTY, row.place)
    return CaptionedImages(Images(list(captions), given.notes), list(captions.values()))


def from_flickr(given: GivenFiles) -> CaptionedImages:
    """A text with a numbered caption on each line, archives or folders with the images, and lists of the images that
    this part has; without a list, all of them (Hodosh, Young and Hockenmaier 2013)."""
    texts = {path: read_lines(path, given.notes) for path in given.paths("text")}
    with_captions = [path for path, lines in texts.items() if any("\t" in line for line in lines)]
    if len(with_captions) != 1:
        expected = "a name, #, a number, a tab and a caption"
        files, n = ", ".join(path.name for path in texts), len(with_captions)
        raise ConfigError(f"one of {files} must have captions, on lines of {expected}; {n} of them have tabs")
    file = with_captions[0]
    captions = numbered_captions(file, texts.pop(file), given.notes)
    chosen = listed_images(texts, captions, file, given) if texts else present_images(captions, given)
    return CaptionedImages(Images(list(chosen), given.notes), list(chosen.values()))


CaptionsByImage = dict[str, list[str]]  # of each image, by its name
Chosen = dict[tuple[ImageSource, str], list[str]]  # the same, of the images that were found


def numbered_captions(path: Path, lines: list[str], notes: Notes) -> CaptionsByImage:
    captions: CaptionsByImage = {}
    for number, line in enumerate(lines, 1):
        match = NUMBERED.fullmatch(line)
        if match is None and line.strip():
            raise DataError(f"{path}:{number} must be a name, #, a number, a tab and a caption, got {line[:40]!r}")
        if match is None or not match["caption"].strip():
            notes.add(EMPTY, f"{path.name}:{number}")
        else:
            captions.setdefault(match["name"].strip(), []).append(match["caption"].strip())
    return captions


def present_images(captions: CaptionsByImage, given: GivenFiles) -> Chosen:
    """All that are there; captions of others are noted."""
    chosen: Chosen = {}
    holders = given.holders
    for name, texts in captions.items():
        image = look(name, holders)
        if image is None:
            given.notes.add(ABSENT, name, len(texts))
        else:
            chosen[image] = texts
    return chosen


def listed_images(lists: dict[Path, list[str]], captions: CaptionsByImage, file: Path, given: GivenFiles) -> Chosen:
    """Each must be there and have a caption."""
    chosen: Chosen = {}
    holders = given.holders
    for path, lines in lists.items():
        for number, line in enumerate(lines, 1):
            name, place = line.strip(), f"{path.name}:{number}"
            if not name:
                given.notes.add(EMPTY_LINE, place)
                continue
            image = find(name, holders, place)
            if name not in captions:
                raise DataError(f"{place} lists {name!r}, which has no caption in {file.name}; add one or take it out")
            if image in chosen:
                given.notes.add("image listed twice: used once", place)
            chosen[image] = captions[name]
    return chosen
