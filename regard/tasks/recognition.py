"""Which task files are data of: the one that is named, or the one that is most certain."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.choose import choose
from regard.data.files.arrow import spread_out
from regard.data.files.recognizing import Recognized
from regard.errors import DataError
from regard.tasks.table import TASKS, recognize_all
from regard.tasks.task import AnyTask


class RecognizedTask(NamedTuple):
    kind: str  # its name in recipes
    task: type[AnyTask]
    files: Recognized
    others: list[str]  # tasks that could read the same files


def recognize(files: Sequence[Path], kind: str | None) -> RecognizedTask:
    """Raises where no task knows the files, or not the one that is named."""
    for path in files:
        if not path.exists():
            raise DataError(f"no file {path}; check its name")
    files = list(spread_out(files))
    recognized = dict(recognize_all(files))
    named = ", ".join(path.name for path in files)
    if kind is not None:
        choose(TASKS, kind, "task")
        if kind not in recognized:
            known = f"they look like data for: {', '.join(recognized)}" if recognized else "no task recognizes them"
            raise DataError(f"{named}: not recognized as data for the task {kind!r}; {known}")
    elif not recognized:
        raise DataError(
            f"{named}: no task recognizes these files. Known are: two texts, line by line; tables (.tsv, .csv, .jsonl, "
            ".parquet) with texts and labels, two texts, or times and numbers; plain text; words and tags; questions "
            "about texts; conversations; folders of images; captions; episodes. docs/own-data.md shows each"
        )
    chosen = kind or next(iter(recognized))
    return RecognizedTask(chosen, TASKS[chosen], recognized[chosen], [other for other in recognized if other != chosen])
