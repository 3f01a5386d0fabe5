"""What the names of files say: which part of the data each is, and in which language."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from regard.data.files.reading import UNPACKERS

WORDS_OF_PARTS = {
    "train": "train",
    "training": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
    "testing": "test",
    "held": "test",  # held-out
}
HELD_OUT = 0.1  # of the training data, for validation, where no file is named for it
LANGUAGES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
Files = dict[str, list[Path]]  # by the part of the data that they are


def name_words(path: Path) -> list[str]:
    """ "test_2016_flickr.en.xz" → test, 2016, flickr, en."""
    name = path.stem if path.suffix.lower() in UNPACKERS else path.name
    return [word for word in re.split(r"[\W_]+", name.lower()) if word]


def by_part(paths: Sequence[Path]) -> Files | None:
    """Which files are for training, validation and test, by their names; those of one part alone are for training."""
    parts: Files = {}
    for path in paths:
        named = [WORDS_OF_PARTS[word] for word in name_words(path) if word in WORDS_OF_PARTS]
        parts.setdefault(named[0] if named else "train", []).append(path)
    if len(parts) == 1:
        parts = {"train": list(paths)}
    return parts if "train" in parts else None


def data_settings(parts: Files, columns: Sequence[str] = (), can_hold_out: bool = True) -> dict[str, object]:
    root = os.path.commonpath([path.absolute().parent for paths in parts.values() for path in paths])
    settings: dict[str, object] = {"root": root}
    for part, paths in parts.items():
        settings[part] = tuple(path.absolute().relative_to(root).as_posix() for path in paths)
    if columns:
        settings["columns"] = tuple(columns)
    if "valid" not in parts and can_hold_out:
        settings["valid_share"] = HELD_OUT
    return settings


def listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)


def column_names(pair: Sequence[Path]) -> list[str]:
    """What tells two names apart: their endings, or words that only one of them has."""
    words = [name_words(path) for path in pair]
    if words[0][-1:] != words[1][-1:]:
        return [own[-1] if own else "" for own in words]
    return ["-".join(word for word in own if word not in other) for own, other in (words, words[::-1])]
