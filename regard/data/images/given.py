"""The files of a part of the data: which kind each is, by its ending or first bytes, and tables that name images."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from regard.data.files.reading import kind_of, read_bytes, read_examples
from regard.data.files.records import TABLES
from regard.data.images.archives import ARCHIVES, Archive
from regard.data.images.arrays import is_idx
from regard.data.images.sources import ENDINGS, Folder, ImageSource
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

KINDS = {
    ".json": "list",
    ".txt": "text",
    **dict.fromkeys(ARCHIVES, "archive"),
    **dict.fromkeys(TABLES, "table"),
    **dict.fromkeys(ENDINGS, "picture"),
}


class TableRow(NamedTuple):
    """An image that a table names, what the table says of it, and at which line."""

    source: ImageSource
    name: str
    value: str
    place: str


@dataclass(frozen=True)
class GivenFiles:
    """The files of a part by their kind, and what is needed to read them."""

    kinds: Mapping[str, list[Path]]
    columns: tuple[str, ...]
    open_archive: Callable[[Path], Archive]
    notes: Notes = field(default_factory=Notes)  # what reading them decided

    def paths(self, kind: str) -> list[Path]:
        return self.kinds.get(kind, [])

    @property
    def holders(self) -> list[ImageSource]:
        """Archives and folders."""
        return [
            *(self.open_archive(path) for path in self.paths("archive")),
            *(Folder(path) for path in self.paths("folder")),
        ]

    def rows(self, value: str) -> Iterator[TableRow]:
        """Tables with a column of paths and one of values.  A path is one of an archive or a folder named beside the
        table, or else begins at the table's own folder."""
        if len(self.columns) != 2:
            example = f'columns = ["path", "{value}"]'
            raise ConfigError(f"a table of images has two columns, paths and {value}s, as in {example}")
        beside = self.holders
        for table in self.paths("table"):
            holders = beside or [Folder(table.parent)]
            examples = read_examples((table.name,), self.columns, table.parent)
            self.notes.update(examples.notes)
            for i in range(len(examples)):
                path, text = examples[i]
                source, name = find(path.strip(), holders, examples.where(i))
                yield TableRow(source, name, text.strip(), examples.where(i))


def look(path: str, holders: Sequence[ImageSource]) -> tuple[ImageSource, str] | None:
    """The image that is called so, in the first of the folders and archives that has it."""
    names = ((source, source.find(path)) for source in holders)
    return next(((source, name) for source, name in names if name is not None), None)


def find(path: str, holders: Sequence[ImageSource], place: str) -> tuple[ImageSource, str]:
    """As `look`; an image that is not there is an error."""
    if not path:
        raise DataError(f"{place} names no image; give its path, or take the line out")
    image = look(path, holders)
    if image is None:
        places = ", ".join(str(source.path) for source in holders)
        raise DataError(f"{place} names the image {path!r}, which is not in {places}; fix the path or add the image")
    return image


def by_kind(paths: Sequence[Path]) -> dict[str, list[Path]]:
    kinds: dict[str, list[Path]] = {}
    for path in paths:
        kinds.setdefault(file_kind(path), []).append(path)
    return kinds


def file_kind(path: Path) -> str:
    """ "folder", "archive", "table", "picture", "list", "text", "idx", or "other"."""
    if path.is_dir():
        return "folder"
    if not path.is_file():
        read_bytes(path)  # says what is wrong
    return KINDS.get(kind_of(path)) or ("idx" if is_idx(path) else "other")
