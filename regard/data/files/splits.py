"""Parts of a data set chosen by what a text says, not by where it stands: repeated texts never fall on both sides."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Generic, Self, TypeVar

import numpy as np

from regard.data.config import DataConfig
from regard.data.notes import Notes
from regard.errors import ConfigError, DataError

T = TypeVar("T")
U = TypeVar("U")
ReadFiles = Callable[[tuple[str, ...], str], T]  # the files to read, and the folder that they are in
Shares = tuple[T, T | None, T | None]  # the training files, divided into training, validation and test as recipes want


class Parts(Generic[T]):
    """The training, validation and test data of a recipe, each read when it is asked for: a training needs no test."""

    def __init__(
        self, data: DataConfig, noun: str, read: ReadFiles[T], divide: Callable[[], Shares[T]], files: str = "FILE"
    ):
        self.data, self.noun, self.read, self.divide = data, noun, read, divide
        self.files = files  # what `regard evaluate` takes

    @cached_property
    def shares(self) -> Shares[T]:
        return self.divide()

    @property
    def train(self) -> T:
        return self.shares[0]

    @cached_property
    def valid(self) -> T | None:
        return self.read(self.data.valid, self.data.root) if self.data.valid else self.shares[1]

    @cached_property
    def test(self) -> T | None:
        return self.read(self.data.test, self.data.root) if self.data.test else self.shares[2]

    def to_evaluate(self, files: tuple[str, ...], or_valid: bool = True) -> tuple[str, T]:
        """What figures are of, in words, and the data: the given files, the recipe's test part, or its validation."""
        if files:
            return ", ".join(files), self.read(files, ".")
        if self.test is not None:
            share = f"{100 * self.data.test_share:.4g}% of the {self.noun}, held out"
            return ", ".join(self.data.test) or share, self.test
        if or_valid and self.valid is not None:
            return f"the validation {self.noun}", self.valid
        raise ConfigError(f"the recipe names no test files; give them: regard evaluate RUN {self.files}")

    def mapped(self, change: Callable[[T], U]) -> "Parts[U]":
        def divide() -> Shares[U]:
            train, valid, test = self.shares
            return change(train), None if valid is None else change(valid), None if test is None else change(test)

        return Parts(self.data, self.noun, lambda files, root: change(self.read(files, root)), divide)


class Divisible(ABC):
    """Examples, some of which can be held out; those with equal keys stay together."""

    notes: Notes  # what reading them decided

    @abstractmethod
    def keys(self) -> Sequence[str]: ...

    @abstractmethod
    def take(self, places: np.ndarray) -> Self:
        """Those at these places (ascending), with no notes yet."""

    def hold_out(self, share: float, seed: int) -> tuple[Self, Self]:
        """What is left, which keeps the notes, and about `share` of the distinct keys."""
        left, held_out = by_hash(self.keys(), share, seed)
        rest = self.take(left)
        rest.notes.update(self.notes)
        return rest, self.take(held_out)


D = TypeVar("D", bound=Divisible)


def read_parts(data: DataConfig, noun: str, read: ReadFiles[D], read_train: Callable[[], D] | None = None) -> Parts[D]:
    """Parts whose shares are held out by a hash of the texts.  What is trained on may be read in a way of its own."""

    def divide() -> Shares[D]:
        train = read(data.train, data.root) if read_train is None else read_train()
        valid, test = None, None
        if data.test_share:
            train, test = train.hold_out(data.test_share, seed=0)
        if data.valid_share:
            train, valid = train.hold_out(data.valid_share / (1 - data.test_share), seed=1)
        return train, valid, test

    return Parts(data, noun, read, divide)


def by_hash(texts: Sequence[str], share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The indices to train on, and those of about `share` of the distinct texts, held out."""
    if not 0 < share < 1:
        raise ConfigError(f"the share held out must be above 0 and below 1, got {share}")
    held_out = places(texts, seed) < share
    if held_out.all() or not held_out.any():
        side = "held out" if held_out.all() else "to train on"
        raise DataError(f"{len(texts)} texts are too few to hold out {share:g} of them: all would be {side}")
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def folds(texts: Sequence[str], n_folds: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cross-validation: for each fold the indices to train on and those held out; every text is held out once."""
    if n_folds < 2:
        raise ConfigError(f"cross-validation needs 2 folds or more, got {n_folds}")
    fold = (places(texts, seed) * n_folds).astype(np.int64)
    missing = sorted(set(range(n_folds)) - set(fold.tolist()))
    if missing:
        raise DataError(f"{len(texts)} texts are too few for {n_folds} folds: fold {missing[0] + 1} would be empty")
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n_folds)]


def places(texts: Sequence[str], seed: int) -> np.ndarray:
    """A number, at least 0 and below 1, for each text: the same on every machine, the same for equal texts."""
    keys = (f"{seed}\n{normalized(text)}".encode("utf-8", "surrogatepass") for text in texts)
    digests = (hashlib.blake2b(key, digest_size=6).digest() for key in keys)
    # 48 bits: exact in float64, so never rounded up to 1
    return np.array([int.from_bytes(digest, "big") / 2**48 for digest in digests], np.float64)


def normalized(text: str) -> str:
    """Case and the amount of white space do not make a text another one."""
    return " ".join(text.casefold().split())
