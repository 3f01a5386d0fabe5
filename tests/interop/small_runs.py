"""Small runs with random weights, saved as training saves them."""

from pathlib import Path
from typing import Any

import torch

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.learning.config import TrainingConfig
from regard.models.stack import StackConfig
from regard.models.transformer import TransformerConfig
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.runs.weights import save_weights, weights_of
from regard.tasks.language.task import LanguageConfig
from regard.tasks.translation.task import TranslationConfig
from regard.text.tokenizer import Tokenizer, TokenizerConfig

TEXT = ["the animal did not cross the street because it was too tired", "the street was too wide", "l'animal"] * 3
SIZES = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 24, "max_length": 128, "dropout": 0.0}


def save_translator(folder: Path, **model: Any) -> Run:
    return save(folder, "translation", "transformer", TranslationConfig(), TransformerConfig, model)


def save_writer(folder: Path, **model: Any) -> Run:
    return save(folder, "language", "stack", LanguageConfig(window=16), StackConfig, model)


def save(
    folder: Path,
    kind: str,
    architecture: str,
    task: Any,
    config: Any,
    model: dict[str, Any],
    extra: tuple[str, ...] = (),
) -> Run:
    tokenizer = Tokenizer.train(TEXT, TokenizerConfig(vocab_size=300, extra=extra))
    recipe = Recipe(
        name="small",
        kind=kind,
        architecture=architecture,
        task=task,
        data=DataConfig(),
        tokenizer=TokenizerConfig(vocab_size=tokenizer.vocab_size, extra=extra),
        model=config(vocab_size=tokenizer.vocab_size, **{**SIZES, **model}),
        training=TrainingConfig(),
        decoding=DecodingConfig(),
    )
    folder.mkdir(parents=True)
    recipe.write(folder / "recipe.toml")
    tokenizer.save(folder / "tokenizer.json")
    torch.manual_seed(1)
    net = recipe.build_model()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    save_weights(weights_of(net), folder / "model.safetensors")
    return load(folder, "cpu")
