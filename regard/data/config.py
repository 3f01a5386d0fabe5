"""The [data] table of a recipe."""

import os
import sys
from dataclasses import dataclass
from typing import Literal

from regard.checks import at_least, distinct, one_of, share
from regard.data.batching.packing import ORDERS
from regard.errors import ConfigError

AUTO: Literal["auto"] = "auto"
USUAL = 4096  # tokens of a batch


def n_cores() -> int:
    """That this process may use: a batch system may give it few of many."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which files, which columns of them, and how they become batches."""

    root: str = "data"  # folder that the file names below are relative to
    # training files: two plain files, source then target (with `columns` named, further pairs of files may follow), or
    # tables; each may also end in `.gz` or `.xz`
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()  # validation files, likewise; empty: no validation
    test: tuple[str, ...] = ()  # test files, for `regard evaluate` and `regard doctor`
    # of tables (`.tsv`, `.csv`, `.jsonl`), source then target, by name or, without a header, by number: `["1", "2"]`;
    # for running text, those whose texts are lines: `["2"]`; for plain files, optional names
    columns: tuple[str, ...] = ()
    # without `valid`: this share of `train` is kept for validation (the end of running text and of series; all else by
    # a hash, so that equal texts stay together, and pairs that have a source or a target in common)
    valid_share: float = 0.0
    test_share: float = 0.0  # without `test`: likewise, for the test; in running text, the part after the validation
    # tokens; a longer side drops a pair from training and validation, counted and reported; a test keeps it, and
    # `evaluate` and `translate` split longer lines at sentences; a text to classify is cut
    max_length: int = 256
    # budget of a batch: the sum, over its pairs, of the tokens of the longer side; "auto": the largest that fits, found
    # and printed before training, and kept in the run
    batch_tokens: int | Literal["auto"] = 4096
    order: str = "random"  # `random`, or `grouped`: pairs of similar length share a batch, so attention pads less
    cache: str = ""  # folder of the tokenized data; empty: `cache/` inside the run
    # lines; training files with more stay on disk: their tokens are read when a batch needs them, and the order of an
    # epoch is computed, not kept (translation, classification, running text, masked words; plain text and tables);
    # texts of which a share is held out are read into memory all the same
    in_memory: int = 1_000_000
    processes: int = 0  # how many processes tokenize such files; 0: one for each core

    def __post_init__(self) -> None:
        one_of(self, sorted(ORDERS), "order")
        at_least(self, 1, "max_length", "in_memory", *(("batch_tokens",) if self.batch_tokens != AUTO else ()))
        at_least(self, 0, "processes")
        share(self, "valid_share", "test_share")
        distinct(self, "columns")
        for name in (self.root, self.cache, *self.train, *self.valid, *self.test):
            if "\0" in name:
                raise ConfigError(f"no file name holds the character NUL, got {name!r}")
        if self.valid_share + self.test_share >= 1:
            raise ConfigError(f"valid_share + test_share must be below 1, got {self.valid_share} + {self.test_share}")
        for part, files in (("valid", self.valid), ("test", self.test)):
            if files and getattr(self, f"{part}_share"):
                raise ConfigError(f"set either {part} (files) or {part}_share, not both; got {list(files)}")

    @property
    def budget(self) -> int:
        """`batch_tokens` as a number; the usual one while it is still to be found."""
        return USUAL if self.batch_tokens == "auto" else self.batch_tokens

    @property
    def n_processes(self) -> int:
        return self.processes or n_cores()

    @property
    def most_lines(self) -> int | None:
        """Training files with more stay on disk; None: a share is held out, which takes a look at all texts at once."""
        return None if self.valid_share or self.test_share else self.in_memory

    def are_many(self, n: int, digest: str) -> bool:
        """Whether so many texts are learned from as if they were on disk; those that are have a digest.  A table has
        fewer texts than lines, so that a count alone does not say it."""
        return bool(digest) or n > self.in_memory
