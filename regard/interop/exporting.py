"""A run becomes a folder that transformers loads: config.json, model.safetensors and the tokenizer."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from torch import Tensor

from regard.choose import choose
from regard.errors import ConfigError, RunError
from regard.interop.certifying.certificate import FILE as CERTIFICATE
from regard.interop.families import FAMILIES
from regard.interop.families.settings import NoPlaceError, exchange_of
from regard.interop.formats.safe import read_json
from regard.nn.positions import sinusoids
from regard.runs.durable import write_file
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.runs.weights import pack_tensors, weights_of
from regard.text.imported import IMPORTED
from regard.text.tokenizer import Tokenizer


def export_folder(run: Run, folder: Path, model_type: str | None = None) -> str:
    """Write the folder.  Returns its family: the requested one, the one that the run was imported from, or the
    first that fits."""
    refuse_full(folder)
    model_type = model_type or origin(run.folder)
    recipe, tensors = unfolded(run.recipe, weights_of(run.model))
    if model_type is None and run.tokenizer.kind != IMPORTED:
        recipe, tensors = with_all_biases(recipe, tensors)
    model_type, settings = find_family(recipe, model_type)
    tokenizer = run.tokenizer
    pad = settings.setdefault("pad_token_id", tokenizer.pad_id)
    if pad != tokenizer.pad_id:
        raise ConfigError(f"{model_type} needs a tokenizer whose padding has the id {pad}, not {tokenizer.pad_id}")
    settings |= {"bos_token_id": tokenizer.start_id, "eos_token_id": tokenizer.end_id, "dtype": "float32"}
    if exchange_of(recipe).translates:
        settings["decoder_start_token_id"] = recipe.task.frame(tokenizer).start
    weights = FAMILIES[model_type].give(tensors, recipe)
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(tokenizer, recipe, folder)
    write_file(folder / "config.json", json.dumps(settings, indent=2).encode())
    write_file(folder / "model.safetensors", pack_tensors(weights, {"format": "pt"}))
    return model_type


def refuse_full(folder: Path) -> None:
    """Nothing is written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists already and is not empty; name another folder")


def origin(run: Path) -> str | None:
    """The family that a run was imported from, if it was."""
    family = read_json(run / CERTIFICATE).get("family") if (run / CERTIFICATE).is_file() else None
    return family if family in FAMILIES else None


def find_family(recipe: Recipe, model_type: str | None) -> tuple[str, dict[str, Any]]:
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


def unfolded(recipe: Recipe, tensors: Mapping[str, Tensor]) -> tuple[Recipe, dict[str, Tensor]]:
    """The same model where embeddings are not scaled while they are read, and sines are a table as if learned: stacks
    of other tools have no other way."""
    tensors, model = dict(tensors), recipe.model
    if recipe.architecture == "stack" and model.scale_embedding:
        table = tensors["reader.embedding.weight"]
        predicts_words = exchange_of(recipe).predicts_words
        if model.tied and predicts_words:
            tensors["own_table"] = table
        tensors["reader.embedding.weight"] = table * math.sqrt(model.d_model)
        model = dataclasses.replace(model, scale_embedding=False, tied=model.tied and not predicts_words)
    if recipe.architecture == "stack" and model.position == "sinusoidal":
        tensors["reader.position.table"] = sinusoids(model.max_length, model.embedding_width)
        model = dataclasses.replace(model, position="learned")
    return dataclasses.replace(recipe, model=model), tensors


def with_all_biases(recipe: Recipe, tensors: dict[str, Tensor]) -> tuple[Recipe, dict[str, Tensor]]:
    """A run of our own with biases on the inputs of attention alone: the others are zeros.

    It would be a Qwen2, whose folders transformers reads with Qwen's own cut into tokens, whatever is in them.
    """
    if recipe.architecture != "stack" or recipe.model.bias != "inputs":
        return recipe, tensors
    products = (".to_output.weight", ".expand.weight", ".gate.weight", ".contract.weight")
    zeros = {
        f"{name.removesuffix('weight')}bias": tensor.new_zeros(len(tensor))
        for name, tensor in tensors.items()
        if name.endswith(products)
    }
    return dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, bias="all")), {**tensors, **zeros}


def write_tokenizer(tokenizer: Tokenizer, recipe: Recipe, folder: Path) -> None:
    tokenizer.save(folder / "tokenizer.json")
    if (folder / "tokenizer_config.json").is_file():  # an imported tokenizer brings its own
        return
    start, end = tokenizer.token(tokenizer.start_id), tokenizer.token(tokenizer.end_id)
    names = {"bos_token": start, "eos_token": end, "unk_token": tokenizer.token(tokenizer.unknown_id)}
    exchange = exchange_of(recipe)
    if exchange.is_framed:
        names |= {"cls_token": start, "sep_token": end}
        frame(folder / "tokenizer.json", tokenizer, (tokenizer.start_id,))
    if exchange.translates:
        frame(folder / "tokenizer.json", tokenizer, recipe.task.frame(tokenizer).before)
    if "<mask>" in tokenizer.special:
        names["mask_token"] = "<mask>"
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": tokenizer.token(tokenizer.pad_id),
        "model_max_length": recipe.model.max_length,
    }
    if not exchange.translates and recipe.model.n_segments:
        settings["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    write_file(folder / "tokenizer_config.json", json.dumps(names | settings, indent=2, ensure_ascii=False).encode())


def frame(file: Path, tokenizer: Tokenizer, before: tuple[int, ...]) -> None:
    """Transformers' tokenizer then writes a </s>, as translators read it; with <s> before, <s> a </s> and of two texts
    <s> a </s> b </s>, as BERT reads them."""
    around = {"before": list(before), "after": [tokenizer.end_id]}  # by names, for a token such as : has a meaning here
    first = "before $A after" if before else "$A after"
    inner = tokenizers.Tokenizer.from_file(str(file))
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single=first,
        pair=f"{first} $B:1 after:1",
        special_tokens=[
            {"id": name, "ids": ids, "tokens": tokenizer.tokens(ids)} for name, ids in around.items() if ids
        ],
    )
    write_file(file, inner.to_str(pretty=True).encode())
