"""From a recipe to what the loop needs: tokenizer, data, model, and a description of all three."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from regard.data.config import AUTO
from regard.errors import ConfigError, RunError
from regard.learning.depth import freeze
from regard.memory import check_memory
from regard.models.interface import Model
from regard.nn.lora import adapt
from regard.runs.card import About
from regard.runs.checkpoints import named_steps, refuse_existing
from regard.runs.recipe import Recipe
from regard.runs.transfer import Origin, take_weights
from regard.tasks.task import AnyTask
from regard.text.imported import IMPORTED
from regard.text.tokenizer import Tokenizer
from regard.training.budget import find_budget
from regard.training.changes import record_data, refuse_other_data, refuse_other_settings
from regard.training.distill import load_judge, load_teacher, take_layers
from regard.training.footprint import memory_of, training_memory

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Prepared:
    recipe: Recipe
    tokenizer: Tokenizer
    task: AnyTask
    model: Model
    about: About
    teacher: Model | None = None  # the model that this one is distilled from


def prepare(
    recipe: Recipe,
    folder: Path,
    resume: bool = False,
    weights_from: Path | None = None,
    learned: Tokenizer | None = None,
    is_leader: bool = True,
    device: torch.device = CPU,
) -> Prepared:
    """Write recipe.toml and tokenizer.json into the run folder, tokenize the data, make the model.

    A resumed run keeps its tokenizer, and its recipe.toml until it is known to go on; `weights_from` gives a new run
    another's tokenizer (unless that one reads no text) and weights, and a teacher its tokenizer and some of its layers.
    A process that does not lead reads what the leader has written, and writes nothing.
    On the `device` batches are tried, where their size is to be found.
    `learned` is what this recipe's tokenizer would be, where another run with the same texts has learned it.
    """
    check(recipe, weights_from)
    if not resume and is_leader:
        refuse_existing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    has_steps = bool(named_steps(folder / "checkpoints"))
    changes = refuse_other_settings(folder, Recipe.of_run(folder), recipe) if resume and has_steps else []
    recipe, tokenizer = with_tokenizer(recipe, folder, resume, weights_from, learned, is_leader)
    check_memory(memory_of(recipe.sketch()), "this model", "make [model] smaller")
    cache = Path(recipe.data.cache) if recipe.data.cache else folder / "cache"
    task = recipe.task_class.make(recipe.task, recipe.setup(tokenizer, cache))
    if has_steps:
        refuse_other_data(folder, recipe.data)
    recipe = recipe.with_task(task.config)  # with what the data settled, such as the labels
    torch.manual_seed(recipe.training.seed)
    model = recipe.build_model()
    if model.is_fitted:
        model.fit(tokenizer.tokens(range(tokenizer.vocab_size)), task.documents())
    if recipe.task.judging_run:
        task.consult(*load_judge(recipe, tokenizer))
    budget_rows = []
    if recipe.data.batch_tokens == AUTO:
        task.batch_tokens, how = find_budget(task, model, recipe, device)
        recipe, budget_rows = recipe.with_budget(task.batch_tokens), [("batches, auto", how)]
    rows = [*describe(recipe, tokenizer, task, model), *budget_rows, *changes]
    origin = begin_with_weights(model, folder, resume, has_steps, weights_from, rows, is_leader)
    teacher = None
    if recipe.distillation.teacher:
        teacher = load_teacher(recipe, tokenizer)
        is_new = origin is None and not (resume and has_steps)
        taken = take_layers(model, teacher) if is_new else "its probabilities alone"
        rows.append((f"teacher {recipe.distillation.teacher}", taken))
    if recipe.lora.rank and origin is not None:
        adapt(model, recipe.lora, also=origin.new)
        targets = ", ".join(recipe.lora.targets)
        rows.append(("learning", f"LoRA of rank {recipe.lora.rank} on {targets}: {learned_share(model)}"))
    if origin is not None and (recipe.training.frozen or recipe.training.last_layers):
        freeze(model, recipe.training.frozen, recipe.training.last_layers, new=origin.new)
        rows.append(("learning", f"{learned_share(model)}; the rest is frozen"))
    if not has_steps and is_leader:
        record_data(folder, recipe.data)
        write_recipe(recipe, folder)
    summary = f"A {recipe.architecture} model that {task.purpose}, made with `regard` from the recipe `{recipe.name}`."
    about = About(title=folder.name, summary=summary, rows=tuple(rows), usage=task.usage(folder))
    return Prepared(recipe, tokenizer, task, model, about, teacher)


def check(recipe: Recipe, weights_from: Path | None) -> None:
    """Raise where nothing could be trained, before anything is written."""
    if not recipe.data.train:
        raise ConfigError(f"recipe {recipe.name!r} names no training files: set data.train to one or two of them")
    if recipe.data.max_length >= recipe.model.max_length:
        raise ConfigError(
            f"data.max_length = {recipe.data.max_length} and an end token do not fit model.max_length = "
            f"{recipe.model.max_length}; lower the one or raise the other"
        )
    if recipe.model_class.is_counted and recipe.task.smoothing:
        raise ConfigError("task.smoothing smooths labels that are learned by gradients; for counts set model.smoothing")
    if recipe.model_class.is_counted and recipe.task.blank:
        raise ConfigError("task.blank masks tokens for a model that learns by gradients; for counts set it to 0")
    if recipe.task.own_words and not recipe.model_class.is_sequential:
        raise ConfigError("task.own_words is for models that read one token after the other: set it to 0")
    if recipe.training.r_drop:
        recipe.task.refuse_r_drop()
    if recipe.training.r_drop and recipe.distillation.teacher:
        raise ConfigError("training.r_drop and distillation.teacher each make a loss of their own: set one of them")
    if recipe.lora.rank and (recipe.training.frozen or recipe.training.last_layers):
        raise ConfigError(
            "LoRA freezes all that it adapts: set lora.rank = 0, or no training.frozen and last_layers = 0"
        )
    if weights_from is not None and not (weights_from / "recipe.toml").is_file():
        raise RunError(f"--from {weights_from} is not a run folder: it has no recipe.toml")
    needs = recipe.task_class.needs_weights
    if needs and weights_from and not isinstance(Recipe.of_run(weights_from).sketch(), type(recipe.sketch())):
        raise ConfigError(f"the task of {recipe.name} {needs}; {weights_from} was trained for something else")


def with_tokenizer(
    recipe: Recipe,
    folder: Path,
    resume: bool,
    weights_from: Path | None,
    learned: Tokenizer | None,
    is_leader: bool,
) -> tuple[Recipe, Tokenizer]:
    """The tokenizer of the run, of another that gives it weights or teaches it, or a new one; and the recipe with its
    vocabulary, and without validation where there is nothing to validate on."""
    source = weights_from or recipe.distillation.teacher
    if (resume or not is_leader) and (folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.load(folder)
    elif source and (weights_from is None or Recipe.of_run(weights_from).task_class.reads_text):
        tokenizer = Tokenizer.load(source)
    else:
        tokenizer = learned or Tokenizer.train(recipe.task_class.texts(recipe.data), recipe.tokenizer)
    if not (recipe.data.valid or recipe.data.valid_share):
        recipe = replace(recipe, training=replace(recipe.training, validate_every=0, patience=0, average_after=0))
    recipe = recipe.with_vocabulary(tokenizer.vocab_size)
    if tokenizer.kind == IMPORTED and not resume:
        theirs = Recipe.of_run(Path(source))
        recipe = replace(recipe, model=recipe.model.as_imported(theirs.model), tokenizer=theirs.tokenizer)
    if is_leader:
        tokenizer.save(folder / "tokenizer.json")
    return recipe, tokenizer


def begin_with_weights(
    model: Model,
    folder: Path,
    resume: bool,
    has_steps: bool,
    weights_from: Path | None,
    rows: list[tuple[str, str]],
    is_leader: bool,
) -> Origin | None:
    """Give a new run the weights that it begins with, and say so in the rows; a resumed run knows where it began."""
    origin = Origin.read(folder) if resume else None
    if resume:  # one that was stopped before its first step begins once more
        weights_from = None if origin is None or has_steps else origin.find(folder)
    if weights_from is None:
        return origin
    taken = take_weights(model, weights_from)
    rows.append((f"weights from {weights_from}", str(taken)))
    origin = Origin.of(weights_from, taken.new, folder)
    if is_leader:
        origin.write(folder)
    return origin


def write_recipe(recipe: Recipe, folder: Path) -> None:
    recipe.write(folder / "recipe.toml.part")
    os.replace(folder / "recipe.toml.part", folder / "recipe.toml")


def describe(recipe: Recipe, tokenizer: Tokenizer, task: AnyTask, model: torch.nn.Module) -> list[tuple[str, str]]:
    is_left_out = recipe.model_class.learns_by_carrying and not recipe.task.carry
    return [
        *task.rows(),
        *([("tokenizer", f"{tokenizer.kind}, {tokenizer.vocab_size:,} tokens")] if task.reads_text else []),
        *((f"parameters: {name}", f"{count:,}") for name, count in parameters_by_part(model).items()),
        ("memory", f"about {training_memory(recipe, model) / 2**20:,.0f} MiB for weights, gradients, Adam and a batch"),
        *([("not learned", "the compression: only texts that are carried on compress (task.carry)")] * is_left_out),
        ("an epoch", f"{task.n_batches(0):,} batches of about {task.batch_tokens:,} tokens"),
    ]


def parameters_by_part(model: torch.nn.Module) -> dict[str, int]:
    """Weights of each direct part of the model, each tensor counted once, and their sum."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = name.split(".")[0]
        counts[part] = counts.get(part, 0) + parameter.numel()
    return {**counts, "all": sum(counts.values())}


def learned_share(model: torch.nn.Module) -> str:
    n_learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return f"{n_learned:,} of {parameters_by_part(model)['all']:,} weights learn"
