"""What every task is made of, besides its own settings."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Setup:
    data: DataConfig
    tokenizer: Tokenizer
    dropout: float  # the chance to leave out a merge (BPE-dropout)
    cache: Path  # folder of the token shards
    seed: int
    decoding: DecodingConfig
