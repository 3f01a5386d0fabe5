"""A few conversations and pairs of answers, and a language model small enough for them."""

import json
from pathlib import Path
from typing import Any

import torch

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.models.heads import LanguageModel
from regard.models.stack import Stack, StackConfig
from regard.tasks.setup import Setup
from regard.text import Tokenizer, TokenizerConfig

WORDS = ("cat", "dog", "cow", "owl", "hen", "fox")
EXTRA = ("<system>", "<user>", "<assistant>")


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def talks() -> list[dict[str, Any]]:
    one = [{"messages": [user(f"say {a}"), assistant(a)]} for a in WORDS]
    two = [
        {"messages": [{"role": "system", "content": "be kind"}, user(f"say {a}"), assistant(a), user(b), assistant(b)]}
        for a, b in zip(WORDS, WORDS[::-1], strict=True)
    ]
    return one + two


def pairs() -> list[dict[str, str]]:
    return [{"prompt": f"say {a}", "chosen": a, "rejected": f"I say {a}"} for a in WORDS]


def write_talk(folder: Path) -> None:
    for name, records in (("talk", talks()), ("pairs", pairs())):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def setup(folder: Path, file: str, **data: Any) -> Setup:
    write_talk(folder)
    settings = {"train": (file,), "valid": (file,), "max_length": 40, "batch_tokens": 60} | data
    config = DataConfig(root=str(folder), **settings)
    texts = ["be kind", *WORDS, *(f"I say {word}" for word in WORDS), *(f"say {word}" for word in WORDS)]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(kind="words", vocab_size=60, extra=EXTRA))
    return Setup(data=config, tokenizer=tokenizer, dropout=0.0, cache=folder, seed=3, decoding=DecodingConfig())


def model_for(tokenizer: Tokenizer, max_length: int = 48) -> LanguageModel:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 32, "dropout": 0.1}
    return LanguageModel(Stack(StackConfig(vocab_size=tokenizer.vocab_size, max_length=max_length, **sizes))).eval()
