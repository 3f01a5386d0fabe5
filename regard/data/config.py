"""The [data] table of a recipe."""

from dataclasses import dataclass

from regard.checks import at_least, distinct, one_of, share
from regard.data.batching.packing import ORDERS
from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which files, which columns of them, and how they become batches.

    `train`, `valid` and `test` each name files below `root`: plain text, one file per column (a.en, a.fr),
    or tables (.tsv, .csv, .jsonl) that have all `columns`; each may also end in .gz or .xz.
    Of a table without a header line the columns are numbers: ["1", "2"].
    """

    root: str = "data"
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    valid_share: float = 0.0  # without `valid`: this share of `train` is kept for validation, ...
    test_share: float = 0.0  # ... and this one for the test
    max_length: int = 256  # tokens; a training example with a longer side is dropped, counted and reported
    batch_tokens: int = 4096
    order: str = "random"
    cache: str = ""  # folder of the token shards; empty: inside the run

    def __post_init__(self) -> None:
        one_of(self, sorted(ORDERS), "order")
        at_least(self, 1, "max_length", "batch_tokens")
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
