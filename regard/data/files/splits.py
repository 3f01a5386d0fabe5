"""Parts of a data set chosen by what a text says, not by where it stands: repeated texts never fall on both sides."""

import hashlib
from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

import numpy as np

from regard.data.config import DataConfig
from regard.errors import ConfigError, DataError


class Divisible(Protocol):
    def hold_out(self, share: float, seed: int) -> tuple[Self, Self]:
        """What is left, and a share of it."""
        ...


Part = TypeVar("Part", bound=Divisible)


def with_shares(
    train: Part, valid: Part | None, test: Part | None, data: DataConfig
) -> tuple[Part, Part | None, Part | None]:
    """Training, validation and test data, where the recipe wants a share of the first for one of the others."""
    if data.test_share:
        train, test = train.hold_out(data.test_share, seed=0)
    if data.valid_share:
        train, valid = train.hold_out(data.valid_share / (1 - data.test_share), seed=1)
    return train, valid, test


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
    """A number from 0 up to, not including, 1 for each text: the same on every machine, the same for equal texts."""
    return np.array([place(normalised(text), seed) for text in texts], np.float64)


def place(text: str, seed: int) -> float:
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48  # 48 bits: exact in float64, so never rounded up to 1


def normalised(text: str) -> str:
    """Case and the amount of white space do not make a text another one."""
    return " ".join(text.casefold().split())
