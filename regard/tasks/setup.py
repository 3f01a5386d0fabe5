"""What every task is made of, besides its own settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.batching.shards import TokenShard, shard
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.text.dropout import SampledTexts
from regard.text.tokenizer import Tokenizer

PLAIN = DecodingConfig()


@dataclass(frozen=True, kw_only=True)
class Setup:
    data: DataConfig
    tokenizer: Tokenizer
    dropout: float = 0.0  # the chance to leave out a merge (BPE-dropout)
    cache: Path | None = None  # folder of the token shards; None: they are not kept
    seed: int = 0
    decoding: DecodingConfig = PLAIN

    def samplers(self, columns: Sequence[Sequence[str]]) -> list[SampledTexts]:
        """What draws the tokens of columns of texts, in training with BPE-dropout."""
        return [SampledTexts(column, self.tokenizer.pairs, self.dropout) for column in columns]

    def tokens(self, texts: Sequence[str]) -> TokenShard:
        """The tokens of texts, cut once and kept in the cache."""
        return shard(texts, self.tokenizer, self.cache)
