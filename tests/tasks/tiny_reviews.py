"""Texts whose label one of their words tells, and classifiers that learn it in a second."""

import random
from pathlib import Path

import torch
from rich.console import Console

from regard.runs.card import Result
from regard.runs.recipe import Recipe
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

CPU = torch.device("cpu")
TELLING = {"bad": ("awful", "dull", "weak"), "good": ("great", "fine", "superb")}
FILLING = ("the", "film", "plot", "was", "and", "so", "it", "a", "very", "story")

MODELS = {
    "bag": ["n_features = 300"],
    "recurrent": ["bidirectional = true", "d_model = 16", "d_hidden = 16", "n_layers = 1"],
    "convolutional": ["causal = false", "d_model = 16", "n_layers = 2", "max_length = 64"],
    "stack": ["causal = false", "d_model = 16", "n_heads = 2", "n_layers = 1", "d_ff = 32", "max_length = 64"],
}
RECIPE = """
[task]
kind = "classification"
metric = "loss"

[data]
root = "{root}"
train = ["train.tsv"]
valid = ["valid.tsv"]
test = ["test.tsv"]
columns = ["text", "label"]
max_length = 40
batch_tokens = 200

[tokenizer]
kind = "spaces"
vocab_size = 60

[model]
architecture = "{architecture}"
{settings}

[training]
steps = 100
schedule = "constant"
learning_rate = 0.02
warmup = 5
validate_every = 50
save_every = 50
"""


def reviews(n: int, seed: int) -> list[tuple[str, str]]:
    """(text, label), of 1 to 12 words."""
    draw = random.Random(seed)
    found = []
    for i in range(n):
        label = ("bad", "good")[i % 2]
        words = [*draw.choices(FILLING, k=draw.randrange(12)), draw.choice(TELLING[label])]
        draw.shuffle(words)
        found.append((" ".join(words), label))
    return found


def write_table(path: Path, rows: list[tuple[str, str]]) -> None:
    lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_reviews(root: Path, architecture: str = "bag") -> Path:
    """The three tables and a recipe, whose path is given."""
    for seed, (name, n) in enumerate((("train", 160), ("valid", 30), ("test", 30))):
        write_table(root / f"{name}.tsv", reviews(n, seed))
    path = root / f"{architecture}.toml"
    path.write_text(
        RECIPE.format(root=root, architecture=architecture, settings="\n".join(MODELS[architecture])), encoding="utf-8"
    )
    return path


def train_reviews(recipe: Path, run: Path, *overrides: str, resume: bool = False) -> Result:
    prepared = prepare(Recipe.read(str(run if resume else recipe), overrides), run, resume)
    return start(prepared, run, CPU, resume, Screen(Console(quiet=True)))
