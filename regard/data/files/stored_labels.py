"""The labels of examples that stay on disk."""

import tempfile
from array import array
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from regard.data.files.reading import Examples
from regard.errors import DataError

CHUNK = 2**16  # labels at a time


class StoredLabels(Sequence[str]):
    """One for each example, as numbers in a file without a name; negative where the example has no text."""

    def __init__(self, examples: Examples):
        """The last column of some examples is their labels."""
        known: dict[str, int] = {}
        numbers = array("i")
        with tempfile.TemporaryFile() as file:
            for i, (*texts, label) in enumerate(zip(*examples.columns, strict=True)):
                name = label.strip()
                if not name:
                    raise DataError(f"{examples.where(i, -1)} has no label; give it one or take it out")
                number = known.setdefault(name, len(known))
                numbers.append(number if any(text.strip() for text in texts) else ~number)
                if len(numbers) == CHUNK:
                    file.write(numbers)
                    numbers = array("i")
            file.write(numbers)
            file.flush()
            self.numbers = np.memmap(file, np.int32, "r")
        self.names = list(known)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[str]:
        for chunk in self.chunks():
            yield from (self.names[number] for number in known(chunk).tolist())

    def chunks(self) -> Iterator[np.ndarray]:
        return (self.numbers[start : start + CHUNK] for start in range(0, len(self), CHUNK))

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        numbers = known(self.numbers[i])
        return [self.names[n] for n in numbers] if isinstance(i, slice) else self.names[int(numbers)]

    def say_something(self) -> Iterator[bool]:
        """Of each example, whether it has a text."""
        for chunk in self.chunks():
            yield from (chunk >= 0).tolist()


def known(numbers: np.ndarray) -> np.ndarray:
    """The numbers of labels, whether or not there is a text."""
    return np.where(numbers < 0, ~numbers, numbers)


class LabelIds:
    """The place of each of them in a list of labels, as an array has it."""

    def __init__(self, labels: StoredLabels, places: Sequence[int]):
        self.labels, self.places = labels, np.array(places, np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, examples: np.ndarray) -> np.ndarray:
        return self.places[known(self.labels.numbers[examples])]
