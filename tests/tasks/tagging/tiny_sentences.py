"""Sentences whose tags only the next word tells, and readers that learn them in a second."""

import random
from pathlib import Path

from tiny_reviews import train_reviews as train

__all__ = ["MODELS", "TAGGING", "sentences", "tags_of", "train", "write_sentences"]

WORDS = ("an", "bee", "can", "dig", "every", "fig")

MODELS = {
    "recurrent": ["bidirectional = true", "d_model = 16", "d_hidden = 16", "n_layers = 1", "dropout = 0.0"],
    "convolutional": ["causal = false", "d_model = 16", "n_layers = 2", "max_length = 64", "dropout = 0.0"],
    "stack": [
        *("causal = false", "d_model = 32", "n_heads = 2", "n_layers = 1", "d_ff = 64", "max_length = 64"),
        'position = "rotary"',
    ],
}
TAGGING = """
[task]
kind = "{kind}"
dropout = 0.0
{task}

[data]
root = "{root}"
train = ["train.txt"]
valid = ["valid.txt"]
test = ["test.txt"]
max_length = 20
batch_tokens = 250

[tokenizer]
kind = "{tokenizer}"
vocab_size = 290

[model]
architecture = "{architecture}"
{model}

[training]
steps = 150
schedule = "linear"
learning_rate = 0.01
warmup = 5
validate_every = 75
save_every = 75
"""


def tags_of(words: list[str]) -> list[str]:
    """Whether the next word is a bee; nothing in the word itself tells."""
    return ["BEFORE" if after == "bee" else "O" for after in [*words[1:], ""]]


def sentences(n: int, seed: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [draw.choices(WORDS, k=draw.randrange(1, 12)) for _ in range(n)]


def write_sentences(root: Path, architecture: str = "recurrent", tokenizer: str = "spaces") -> Path:
    """Three files in columns and a recipe, whose path is given."""
    for seed, (name, n) in enumerate((("train", 200), ("valid", 30), ("test", 40))):
        blocks = [zip(words, tags_of(words), strict=True) for words in sentences(n, seed)]
        rows = ["".join(f"{word}\t{tag}\n" for word, tag in block) for block in blocks]
        (root / f"{name}.txt").write_text("\n".join(rows), encoding="utf-8")
    path = root / f"{architecture}.toml"
    settings = {"architecture": architecture, "model": "\n".join(MODELS[architecture]), "tokenizer": tokenizer}
    path.write_text(TAGGING.format(root=root, kind="tagging", task='neutral = "O"', **settings), encoding="utf-8")
    return path
