"""The [data] table of a recipe."""

from dataclasses import dataclass

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
        if self.order not in ORDERS:
            raise ConfigError(f"order must be one of {', '.join(sorted(ORDERS))}, got {self.order!r}")
        for name in ("max_length", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name, files in (("valid_share", self.valid), ("test_share", self.test)):
            share = getattr(self, name)
            if not 0 <= share < 1 or self.valid_share + self.test_share >= 1:
                raise ConfigError(
                    f"{name} is a share of the training data, from 0 up to, not including, 1; got {share}"
                )
            if share and files:
                raise ConfigError(f"{name} = {share} and files {list(files)}: give one of the two")
        if len(set(self.columns)) < len(self.columns):
            raise ConfigError(f"columns must differ, got {list(self.columns)}")
