"""A small text, and the task of language modelling on it."""

from pathlib import Path
from typing import Any

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.tasks.language.task import Language, LanguageConfig
from regard.tasks.setup import Setup
from regard.text import Tokenizer, TokenizerConfig

TRAIN = "".join(f"the {a} saw a {b}\n" for a in ("cat", "dog", "cow") for b in ("bird", "fish", "tree", "cat"))
VALID = "the cow saw a cow\n\na bird saw the fish and flew away over the tree to the dog\nthe end\n"


def setup(folder: Path, kind: str = "characters", **data: Any) -> Setup:
    """Train and validation text in `folder`, and a tokenizer that has learnt from the first."""
    (folder / "train.txt").write_text(TRAIN, encoding="utf-8")
    (folder / "valid.txt").write_text(VALID, encoding="utf-8")
    given = {"train": ("train.txt",), "valid": ("valid.txt",), "batch_tokens": 40} | data
    config = DataConfig(root=str(folder), **given)
    tokenizer = Tokenizer.train(Language.texts(config), TokenizerConfig(kind=kind, vocab_size=400))
    return Setup(data=config, tokenizer=tokenizer, dropout=0.0, cache=folder, seed=3, decoding=DecodingConfig())


def make(folder: Path, kind: str = "characters", data: dict[str, Any] | None = None, **settings: Any) -> Language:
    return Language.make(LanguageConfig(**{"window": 7} | settings), setup(folder, kind, **data or {}))
