"""From a recipe to what the loop needs: tokenizer, data, model, and a description of all three."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.data.reading import read_examples
from regard.data.report import DataReport, Part, report
from regard.data.shards import tokenise
from regard.errors import ConfigError, RunError
from regard.tasks import TASKS
from regard.tasks.pairs import PairData
from regard.text.tokenizer import Tokenizer
from regard.training.card import About
from regard.training.checkpoints import find_weights, refuse_existing
from regard.training.recipe import Recipe
from regard.training.weights import load_weights


@dataclass(frozen=True)
class Prepared:
    recipe: Recipe
    tokenizer: Tokenizer
    task: Any
    model: Any
    about: About


def prepare(recipe: Recipe, folder: Path, resume: bool = False, weights_from: Path | None = None) -> Prepared:
    """Write recipe.toml and tokenizer.json into the run folder, tokenise the data, make the model.

    A resumed run keeps its tokenizer; `weights_from` gives a new run another's tokenizer and weights.
    """
    if not recipe.data.train:
        raise ConfigError(f"recipe {recipe.name!r} names no training files: set data.train to one or two of them")
    if recipe.data.max_length >= recipe.model.max_length:
        raise ConfigError(
            f"data.max_length = {recipe.data.max_length} and an end token do not fit model.max_length = "
            f"{recipe.model.max_length}; lower the one or raise the other"
        )
    if not resume:
        refuse_existing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not recipe.data.valid:
        training = dataclasses.replace(recipe.training, validate_every=0, patience=0)
        recipe = dataclasses.replace(recipe, training=training)
    if resume and (folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.load(folder)
    elif weights_from is not None:
        tokenizer = Tokenizer.load(weights_from)
    else:
        tokenizer = learn_tokenizer(recipe)
    recipe = recipe.with_vocabulary(tokenizer.vocab_size)
    tokenizer.save(folder / "tokenizer.json")
    recipe.write(folder / "recipe.toml.part")
    os.replace(folder / "recipe.toml.part", folder / "recipe.toml")

    cache = Path(recipe.data.cache) if recipe.data.cache else folder / "cache"
    data = PairData(recipe.data, tokenizer, recipe.tokenizer.dropout, cache, recipe.training.seed)
    task = TASKS[recipe.kind][1](recipe.task, data, recipe.decoding)
    torch.manual_seed(recipe.training.seed)
    model = recipe.build_model()
    if weights_from is not None and not resume:
        take_weights(model, weights_from)
    return Prepared(recipe, tokenizer, task, model, describe(recipe, tokenizer, task, model, folder))


def learn_tokenizer(recipe: Recipe) -> Tokenizer:
    examples = read_examples(recipe.data.train, recipe.data.columns, recipe.data.root)
    return Tokenizer.train((line for column in examples.columns for line in column), recipe.tokenizer)


def take_weights(model: Any, run: Path) -> None:
    path, _ = find_weights(run)
    try:
        load_weights(model, path)
    except RunError as error:
        raise RunError(f"--from {run}: {error}; its model must have the shape of this recipe's [model]") from None


def describe(recipe: Recipe, tokenizer: Tokenizer, task: Any, model: Any, folder: Path) -> About:
    data = [("training data", f"{len(task.train):,} pairs, {int(task.train.sides[1].lengths.sum()):,} target tokens")]
    if task.valid is not None:
        data.append(("validation data", f"{len(task.valid):,} pairs"))
    notes = [("decided", row) for split in (task.train, task.valid) if split is not None for row in split.notes.rows()]
    rows = [
        *data,
        *notes,
        ("tokenizer", f"{tokenizer.kind}, {tokenizer.vocab_size:,} tokens"),
        *((f"parameters: {name}", f"{count:,}") for name, count in parameters_by_part(model).items()),
        ("memory", f"about {training_memory(recipe, model) / 2**20:,.0f} MiB for weights, gradients, Adam and a batch"),
        ("an epoch", f"{task.n_batches(0):,} batches of about {recipe.data.batch_tokens:,} tokens"),
    ]
    return About(
        title=folder.name,
        summary=f"A {recipe.architecture} that learnt to turn {recipe.task.source} into {recipe.task.target}, "
        f"made with `regard` from the recipe `{recipe.name}`.",
        rows=tuple(rows),
        usage=(
            f"regard translate {folder} < lines.txt",
            f"regard evaluate {folder}",
            f'regard look {folder} "a sentence"',
        ),
    )


def data_report(prepared: Prepared) -> DataReport:
    """What `regard doctor` says about every split that the recipe names."""
    recipe, task = prepared.recipe, prepared.task
    parts = {"train": Part(task.train.examples, task.train.sides)}
    if task.valid is not None:
        parts["valid"] = Part(task.valid.examples, task.valid.sides)
    if recipe.data.test:
        examples = read_examples(recipe.data.test, recipe.data.columns, recipe.data.root)
        parts["test"] = Part(examples, [tokenise(column, prepared.tokenizer) for column in examples.columns])
    return report(parts, prepared.tokenizer, recipe.data.max_length)


def parameters_by_part(model: torch.nn.Module) -> dict[str, int]:
    """Weights of each direct part of the model, each tensor counted once, and their sum."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = name.split(".")[0]
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "all": sum(counts.values())}


def training_memory(recipe: Recipe, model: torch.nn.Module) -> int:
    """Bytes: weights, gradients and two moments in float32, and what a batch leaves for the backward pass."""
    weights = sum(p.numel() for p in model.parameters())
    c = recipe.model
    rows = 2 * recipe.data.batch_tokens
    per_row = c.n_layers * (2 * c.d_ff + 14 * c.d_model)
    return 4 * (4 * weights + rows * per_row)
