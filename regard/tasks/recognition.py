"""Which tasks take given files for their own."""

from collections.abc import Sequence
from pathlib import Path

from regard.data.files.recognizing import Recognized
from regard.tasks.table import TASKS


def recognize_all(files: Sequence[Path]) -> list[tuple[str, Recognized]]:
    """The tasks, by their names in recipes, that the files look like data of; the most certain first."""
    answers = {name: task.recognize(files) for name, task in TASKS.items()}
    recognized = [(name, answer) for name, answer in answers.items() if answer is not None]
    return sorted(recognized, key=lambda named: -named[1].certainty)
