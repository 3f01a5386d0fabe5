"""A folder of transformers, timm or CTranslate2, or a GGUF file, becomes a run: a folder like any other, that can be
used, looked into and trained further."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard import config
from regard.choose import choose
from regard.config import Settings
from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RunError
from regard.interop.families import FAMILIES
from regard.interop.families.ctranslate2 import CTRANSLATE2
from regard.interop.families.family import Family, Stored
from regard.interop.families.generation import Generation, generation_settings, read_generation
from regard.interop.families.settings import Theirs, exchange_of
from regard.interop.families.timm import TIMM, is_timm
from regard.interop.formats.from_ctranslate2 import CTranslate2Folder, is_ctranslate2
from regard.interop.formats.gguf_file import GgufFile
from regard.interop.formats.safe import FLOATS, SafeFolder, read_json, refuse_links_out
from regard.runs.card import table
from regard.runs.checkpoints import refuse_existing
from regard.runs.durable import write_file
from regard.runs.recipe import Recipe
from regard.runs.weights import save_weights, weights_of
from regard.text.tokenizer import Tokenizer, TokenizerConfig

SPARE_BYTES = 64 << 20  # that computed tables, which are in no file, may always take


class OpenedModel(NamedTuple):
    """A model in files: their path, its family, its settings and its tensors, and its settings of generation."""

    path: Path
    model_type: str
    family: Family
    settings: Settings
    stored: Stored
    generation: Settings

    @property
    def n_weights(self) -> int:
        return sum(map(math.prod, self.stored.shapes.values()))

    @property
    def theirs(self) -> Theirs:
        """A target begins as it does in generation."""
        start = self.generation.get("decoder_start_token_id")
        own = self.settings if start is None else {**self.settings, "decoder_start_token_id": start}
        return Theirs(own, self.n_weights, len(self.stored.shapes))


def open_source(path: Path) -> OpenedModel:
    """A folder as transformers, timm or CTranslate2 writes it, or a GGUF file."""
    refuse_links_out(path)
    if is_ctranslate2(path):
        model = CTranslate2Folder(path)
        return OpenedModel(path, "ctranslate2", CTRANSLATE2, model.config, model, {})
    files: SafeFolder | GgufFile = GgufFile(path) if path.suffix == ".gguf" and path.is_file() else SafeFolder(path)
    model_type, family = family_of(files.config, path)
    for name, kind in files.others.items():
        if not family.is_spare(name) and not family.is_head(name):
            raise RunError(
                f"{path}: {name} is of the type {kind}; weights are read in {', '.join(FLOATS)}, and without this one "
                "it would not be the same model"
            )
    settings = files.config | ({family.beside: read_json(path / family.beside)} if family.beside else {})
    return OpenedModel(path, model_type, family, settings, files, generation_settings(path, files.config))


def family_of(settings: Settings, path: Path) -> tuple[str, Family]:
    """Of a config.json, with its name."""
    if is_timm(settings):
        return "timm", TIMM
    model_type = settings.get("model_type")
    if not isinstance(model_type, str):
        raise RunError(f"{path / 'config.json'} names no model_type; the families are: {', '.join(FAMILIES)}")
    return model_type, choose(FAMILIES, model_type, "family of models (model_type)")


def tokenizer_of(source: OpenedModel) -> Tokenizer:
    """The folder's own; where images are read, one of the labels, as a training on images has it."""
    if not source.family.reads_images:
        return Tokenizer.load(source.path)
    labels = source.family.read_config(source.theirs).task
    return Tokenizer.train(labels["names"] or labels["labels"], TokenizerConfig())


def recipe_of(source: OpenedModel, tokenizer: TokenizerConfig, separator: int) -> Recipe:
    """Their settings as a recipe.  It is checked against the files before it takes memory."""
    model, kind, task = source.family.read_config(source.theirs)
    if model.get("n_segments", 0) > 1:
        model = {**model, "separator": separator}
    tables = {"task": {"kind": kind, **task}, "model": {"architecture": source.family.architecture, **model}}
    recipe = Recipe.of(source.path.name, tables | {"tokenizer": config.as_settings(tokenizer)})
    decoding = generation_of(source, recipe, separator).decoding
    max_length = recipe.model.max_length  # longer texts are cut or left out: of those to classify as little as possible
    if source.family.reads_images or not exchange_of(recipe).is_of_sequences:
        max_length = max(1, min(DataConfig.max_length, max_length - 1))
    return replace(
        recipe,
        name=source.path.name,
        data=DataConfig(max_length=max_length),
        decoding=config.build(DecodingConfig, decoding, "decoding"),
    )


def generation_of(source: OpenedModel, recipe: Recipe, end_id: int) -> Generation:
    """Nothing where nothing is written."""
    exchange = exchange_of(recipe)
    if not (exchange.writes or exchange.translates):
        return Generation({}, ())
    n_words, n_tensors = source.theirs.width("vocab_size"), len(source.stored.shapes)
    return read_generation(Theirs(source.generation, source.n_weights, n_tensors), exchange.translates, end_id, n_words)


def outline(recipe: Recipe, n_bytes: int) -> dict[str, Tensor]:
    """The weights of the model on the meta device: names and shapes, no memory."""
    try:
        with torch.device("meta"):
            model: nn.Module = recipe.build_model()
    except (RuntimeError, OverflowError) as error:
        raise ConfigError(f"these settings do not make a model: {error}") from None
    computed = sum(buffer.numel() * buffer.element_size() for buffer in model.buffers())
    if computed > n_bytes + SPARE_BYTES:
        raise ConfigError(
            f"the settings ask for tables of {computed / 2**20:,.0f} MiB with weights of {n_bytes / 2**20:,.0f} MiB; "
            "max_length is too large to be true"
        )
    return weights_of(model)


def import_weights(source: OpenedModel, recipe: Recipe) -> tuple[dict[str, Tensor], list[str]]:
    """All weights of our model, and the names of theirs that were left out."""
    own = outline(recipe, 4 * source.n_weights)
    taken = source.family.take(source.stored, recipe, own, str(source.path))
    lacking = own.keys() - taken.tensors.keys()
    assert not lacking, f"the table of {source.model_type} forgets {sorted(lacking)}"
    return taken


def import_source(source: OpenedModel, tokenizer: Tokenizer, run: Path) -> tuple[Recipe, list[str]]:
    """Write the run.  Returns its recipe, and what of theirs was left out."""
    refuse_existing(run)
    # What begins a source is what the tokenizer puts there; config.json may say otherwise, and nobody reads it.
    source = source._replace(settings={**source.settings, "bos_token_id": tokenizer.start_id})
    # There may be more rows than tokens.
    rows = tokenizer.vocab_size if source.family.reads_images else source.theirs.width("vocab_size")
    recipe = recipe_of(source, TokenizerConfig(kind=tokenizer.kind, vocab_size=rows), tokenizer.end_id)
    if tokenizer.vocab_size > recipe.model.vocab_size:
        raise RunError(
            f"{source.path} has {tokenizer.vocab_size:,} tokens and a table of {recipe.model.vocab_size:,} rows: "
            "some tokens have none, so tokenizer and model do not belong together"
        )
    tensors, left_out = import_weights(source, recipe)
    run.mkdir(parents=True, exist_ok=True)
    recipe.write(run / "recipe.toml")
    tokenizer.save(run / "tokenizer.json")
    write_card(run, source, recipe, tokenizer, tensors, left_out)
    save_weights(tensors, run / "model.safetensors")
    return recipe, left_out


def write_card(
    run: Path,
    source: OpenedModel,
    recipe: Recipe,
    tokenizer: Tokenizer,
    tensors: Mapping[str, Tensor],
    left_out: list[str],
) -> None:
    rows = [
        ("family", source.model_type),
        ("parameters", f"{sum(tensor.numel() for tensor in tensors.values()):,}"),
        ("head", exchange_of(recipe).head or "none"),
        ("left out", ", ".join(left_out) or "nothing"),
    ]
    uses = recipe.task_class(recipe.task, recipe.setup(tokenizer)).usage(run)
    parts = [
        f"# {run.name}",
        f"A {source.model_type} model, imported with `regard import` from `{source.path.name}`. Its license and its "
        "authors are those of the original; certificate.txt says how close this is to it.",
        "## Use\n\n```\n" + "\n".join([*uses, f"regard train RECIPE --from {run}"]) + "\n```",
        "## Model\n\n" + table(("what", "how much"), rows),
    ]
    write_file(run / "README.md", ("\n\n".join(parts) + "\n").encode())
