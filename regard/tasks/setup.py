"""What every task is made of, besides its own settings."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Setup:
    data: DataConfig
    tokenizer: Tokenizer
    dropout: float  # the chance to leave out a merge (BPE-dropout)
    cache: Path  # folder of the token shards
    seed: int
    decoding: DecodingConfig

    def expect_one_cut(self, what: str) -> None:
        """Refuse BPE-dropout where a task would ignore it."""
        if self.dropout:
            raise ConfigError(f"{what} is cut into tokens in one way: set tokenizer.dropout = 0, not {self.dropout:g}")
