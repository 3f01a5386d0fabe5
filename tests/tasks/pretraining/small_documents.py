"""Documents in which every word tells the next, and the task of finding hidden ones."""

from pathlib import Path
from typing import Any

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.tasks.pretraining.task import MaskedConfig, MaskedLanguage
from regard.tasks.setup import Setup
from regard.text import Tokenizer, TokenizerConfig

NAMES = ("cat", "dog", "cow", "hen", "fox", "owl")
SOUNDS = ("meow", "woof", "moo", "cluck", "yip", "hoot")


def document(i: int) -> str:
    """Some sentences about one animal."""
    name, sound = NAMES[i % 6], SOUNDS[i % 6]
    return " ".join(f"the {name} says {sound} {sound} ." for _ in range(1 + i % 4))


TRAIN = "".join(f"{document(i)}\n" for i in range(48))
VALID = "".join(f"{document(i)}\n" for i in range(12))


def setup(folder: Path, **data: Any) -> Setup:
    (folder / "train.txt").write_text(TRAIN, encoding="utf-8")
    (folder / "valid.txt").write_text(VALID, encoding="utf-8")
    given = {"train": ("train.txt",), "valid": ("valid.txt",), "batch_tokens": 100} | data
    config = DataConfig(root=str(folder), **given)
    settings = TokenizerConfig(kind="spaces", vocab_size=60, extra=("<mask>",))
    tokenizer = Tokenizer.train(MaskedLanguage.texts(config), settings)
    return Setup(data=config, tokenizer=tokenizer, dropout=0.0, cache=folder, seed=3, decoding=DecodingConfig())


def make(folder: Path, data: dict[str, Any] | None = None, **settings: Any) -> MaskedLanguage:
    return MaskedLanguage.make(MaskedConfig(**{"window": 16} | settings), setup(folder, **data or {}))
