"""A run becomes a folder that transformers or timm loads: config.json, model.safetensors, and what a text or an image
goes through before: the tokenizer, or preprocessor_config.json."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from regard.checks import expect
from regard.choose import choose
from regard.errors import ConfigError, RunError
from regard.interop.certifying.certificate import FILE as CERTIFICATE
from regard.interop.families import FAMILIES
from regard.interop.families.generation import FILE as GENERATION
from regard.interop.families.generation import Generation, write_generation
from regard.interop.families.settings import NoPlaceError, exchange_of
from regard.interop.families.timm import TIMM, with_their_eps
from regard.interop.formats.safe import read_json
from regard.interop.formats.tokenizer_files import start_token, write_for_transformers
from regard.models.heads import ReaderHead
from regard.models.stack import StackConfig
from regard.models.vit import ViT, ViTConfig
from regard.nn.positions import sinusoids
from regard.runs.durable import write_file
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.runs.weights import pack_tensors, weights_of
from regard.tasks.language.use import usual_length
from regard.text.imported import IMPORTED

NO_TURN = "timm does not turn images as their EXIF data say; open them with PIL.ImageOps.exif_transpose"


class Exported(NamedTuple):
    family: str  # the requested one, the one that the run was imported from, or the first that fits
    notes: tuple[str, ...]  # what the folder cannot say


def export_folder(run: Run, folder: Path, model_type: str | None = None) -> Exported:
    refuse_full(folder)
    model_type = model_type or origin(run.folder)
    recipe, tensors = run.recipe, weights_of(run.model)
    if exchange_of(recipe).reads_images:
        return export_image_model(run, folder, model_type)
    if isinstance(recipe.model, StackConfig):
        model, tensors = unfolded(recipe.model, tensors, exchange_of(recipe).predicts_words)
        if model_type is None and run.tokenizer.kind != IMPORTED:
            model, tensors = with_all_biases(model, tensors)
        recipe = dataclasses.replace(recipe, model=model)
    model_type, settings = find_family(recipe, model_type)
    tokenizer = run.tokenizer
    pad = settings.setdefault("pad_token_id", tokenizer.pad_id)
    if pad != tokenizer.pad_id:
        raise ConfigError(f"{model_type} needs a tokenizer whose padding has the id {pad}, not {tokenizer.pad_id}")
    special = {"bos_token_id": start_token(run), "eos_token_id": tokenizer.end_id}
    if exchange_of(recipe).translates:
        special["decoder_start_token_id"] = run.task.frame.start
    settings |= special | {"dtype": "float32"}
    weights = FAMILIES[model_type].give(tensors, recipe)
    folder.mkdir(parents=True, exist_ok=True)
    notes = write_for_transformers(run, folder)
    if exchange_of(recipe).writes or exchange_of(recipe).translates:
        generation = generation_there(run)
        notes += generation.notes
        settings_there = special | {"pad_token_id": pad} | generation.decoding
        write_file(folder / GENERATION, json.dumps(settings_there, indent=2).encode())
    write_model(folder, {"config.json": settings}, weights)
    return Exported(model_type, notes)


def export_image_model(run: Run, folder: Path, model_type: str | None) -> Exported:
    recipe, tensors = with_table(run)
    model_type, settings = find_family(recipe, model_type)
    beside = FAMILIES[model_type].beside
    files = {beside: settings.pop(beside), "config.json": settings | {"dtype": "float32"}}
    write_model(folder, files, FAMILIES[model_type].give(tensors, recipe))
    return Exported(model_type, ())


def export_to_timm(run: Run, folder: Path) -> Exported:
    refuse_full(folder)
    if not exchange_of(run.recipe).reads_images or run.recipe.architecture != TIMM.architecture:
        raise ConfigError(f"timm has models of images, and {run.folder} is a {run.recipe.architecture}, not a vit")
    recipe, tensors = with_table(run)
    model, tensors = with_their_eps(expect(recipe.model, ViTConfig), tensors)
    recipe = dataclasses.replace(recipe, model=model)
    write_model(folder, {"config.json": TIMM.write_config(recipe)}, TIMM.give(tensors, recipe))
    return Exported("timm", (NO_TURN,))


def with_table(run: Run) -> tuple[Recipe, dict[str, Tensor]]:
    """The recipe and the weights of a run on images whose sinusoids, if it has them, are a table as if learned."""
    recipe, tensors = run.recipe, weights_of(run.model)
    if recipe.model.position != "sinusoidal":
        return recipe, tensors
    table = expect(expect(run.model, ReaderHead).reader, ViT).position.table
    model = dataclasses.replace(expect(recipe.model, ViTConfig), position="learned")
    return dataclasses.replace(recipe, model=model), {**tensors, "reader.position.table": expect(table, Tensor)}


def write_model(folder: Path, files: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, settings in files.items():
        write_file(folder / name, json.dumps(settings, indent=2).encode())
    write_file(folder / "model.safetensors", pack_tensors(tensors, {"format": "pt"}))


def generation_there(run: Run) -> Generation:
    """As many tokens as the run writes where nobody asks for a number, or a translator has places for."""
    exchange, tokenizer, n_places = exchange_of(run.recipe), run.tokenizer, run.recipe.model.max_length
    config = run.recipe.decoding
    if run.recipe.task.is_endless:
        config = dataclasses.replace(config, never=(*config.never, tokenizer.end_id))
    generation = write_generation(config, tokenizer.end_id, exchange.translates)
    if not exchange.translates:
        return Generation({**generation.decoding, "max_new_tokens": usual_length(n_places)}, generation.notes)
    most = min(config.max_length or n_places - 1, n_places - 1)
    limit = f"after {config.length_ratio:g} × the tokens read + {config.extra_length}"
    note = f"regard stops {limit}; transformers has no such limit and stops after max_new_tokens = {most}"
    return Generation({**generation.decoding, "max_new_tokens": most}, (*generation.notes, note))


def refuse_full(folder: Path) -> None:
    """Nothing is written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists already and is not empty; name another folder")


def origin(run: Path) -> str | None:
    """The family that a run was imported from, if it was."""
    family = read_json(run / CERTIFICATE).get("family") if (run / CERTIFICATE).is_file() else None
    return family if family in FAMILIES else None


def find_family(recipe: Recipe, model_type: str | None) -> tuple[str, dict[str, object]]:
    """A family that can do all that the model does, and its settings."""
    exchange_of(recipe)
    ours = recipe.architecture
    if model_type is not None:
        if choose(FAMILIES, model_type, "family of models").architecture != ours:
            raise ConfigError(f"{model_type} has no place for a model of architecture {ours!r}")
        return model_type, FAMILIES[model_type].write_config(recipe)
    reasons = []
    for name, family in FAMILIES.items():
        if family.architecture == ours:
            try:
                return name, family.write_config(recipe)
            except ConfigError as error:
                reasons.append(error)
    if not reasons:
        raise ConfigError(f"transformers has no model like the architecture {ours!r}; nothing was written")
    near = [error for error in reasons if not isinstance(error, NoPlaceError)] or reasons
    raise ConfigError("no family of transformers is like this run: " + "; ".join(map(str, near)))


def unfolded(
    config: StackConfig, tensors: Mapping[str, Tensor], predicts_words: bool
) -> tuple[StackConfig, dict[str, Tensor]]:
    """The same model where embeddings are not scaled while they are read, and sines are a table as if learned: stacks
    of other tools have no other way."""
    tensors = dict(tensors)
    if config.scale_embedding:
        table = tensors["reader.embedding.weight"]
        if config.tied and predicts_words:
            tensors["own_table"] = table
        tensors["reader.embedding.weight"] = table * math.sqrt(config.d_model)
        config = dataclasses.replace(config, scale_embedding=False, tied=config.tied and not predicts_words)
    if config.position == "sinusoidal":
        tensors["reader.position.table"] = sinusoids(config.max_length, config.embedding_width)
        config = dataclasses.replace(config, position="learned")
    return config, tensors


def with_all_biases(config: StackConfig, tensors: dict[str, Tensor]) -> tuple[StackConfig, dict[str, Tensor]]:
    """A run of our own with biases on the inputs of attention alone: the others are zeros.

    It would be a Qwen2, whose folders transformers reads with Qwen's own cut into tokens, whatever is in them.
    """
    if config.bias != "inputs":
        return config, tensors
    products = (".to_output.weight", ".expand.weight", ".gate.weight", ".contract.weight")
    zeros = {
        f"{name.removesuffix('weight')}bias": tensor.new_zeros(len(tensor))
        for name, tensor in tensors.items()
        if name.endswith(products)
    }
    return dataclasses.replace(config, bias="all"), {**tensors, **zeros}
