"""BART, Marian, Pegasus and T5, in and out: the same logits and greedy tokens; and our own runs as one of them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, RunError
from regard.interop.certifying.certificate import LIMIT
from regard.interop.certifying.in_ctranslate2 import ROUNDINGS, in_double
from regard.interop.certifying.in_transformers import TranslatorInTransformers
from regard.interop.certifying.samples import random_tokens
from regard.interop.certifying.sides import OurTranslator
from regard.interop.families import FAMILIES
from regard.interop.importing import import_weights, open_source, recipe_of
from regard.learning.config import TrainingConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.recipe import Recipe
from regard.runs.run import Run
from regard.runs.weights import set_weights, weights_of
from regard.tasks.translation.task import TranslationConfig
from regard.text.tokenizer import TokenizerConfig

N_WORDS = 53
TOKENIZER: Any = SimpleNamespace(start_id=1, end_id=2, pad_id=0)
SIZES = {"d_model": 12, "max_position_embeddings": 40} | {
    f"{side}_{name}": n
    for side in ("encoder", "decoder")
    for name, n in (("layers", 2), ("attention_heads", 3), ("ffn_dim", 7))
}
T5_SIZES = {"d_model": 12, "d_kv": 5, "num_heads": 3, "num_layers": 2, "d_ff": 7, "relative_attention_num_buckets": 8}
SHORT = {"relative_attention_max_distance": 20}


def bart(**more: Any) -> Any:
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = transformers.BartConfig(vocab_size=N_WORDS, **SIZES, **special, forced_eos_token_id=None, **more)
    return transformers.BartForConditionalGeneration(config)


def marian(**more: Any) -> Any:
    special = {"pad_token_id": 52, "eos_token_id": 2, "decoder_start_token_id": 52, "forced_eos_token_id": None}
    return transformers.MarianMTModel(transformers.MarianConfig(vocab_size=N_WORDS, **{**SIZES, **special, **more}))


def pegasus(**more: Any) -> Any:
    config = transformers.PegasusConfig(vocab_size=N_WORDS, **SIZES, eos_token_id=2, forced_eos_token_id=None, **more)
    return transformers.PegasusForConditionalGeneration(config)


def t5(**more: Any) -> Any:
    config = transformers.T5Config(vocab_size=N_WORDS, **{**T5_SIZES, **SHORT, **more}, eos_token_id=2)
    return transformers.T5ForConditionalGeneration(config)


def t5_with_own_table() -> Any:
    """As v1.1 was published."""
    model = t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    model.lm_head.weight = torch.nn.Parameter(torch.zeros(N_WORDS, 12))
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "bart": bart,
    "bart, scaled, relu": lambda: bart(scale_embedding=True, activation_function="relu"),
    "marian": lambda: marian(scale_embedding=True, activation_function="swish"),
    "marian, odd width": lambda: marian(d_model=15),
    "pegasus": pegasus,
    "t5 v1.0": t5,
    "t5 v1.0, default buckets": lambda: t5(relative_attention_num_buckets=32, relative_attention_max_distance=128),
    "t5 v1.1": t5_with_own_table,
    "t5 v1.1, tied": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
}


@torch.no_grad()
def shake(model: Any) -> None:
    """No weight is as it was, except for tables that are computed; and what is said depends on what is read."""
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            spread = 0.1 if parameter.ndim == 1 else 0.5 if "embed" in name or "shared" in name else 0.4
            parameter.copy_(torch.randn_like(parameter) * spread + name.endswith("norm.weight"))
    for name, parameter in model.named_parameters():
        if "cross_attention.to_" in name or "encoder_attn." in name or "EncDecAttention." in name:
            parameter.mul_(2)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_(std=0.1)


def make(name: str, folder: Path) -> None:
    model = MODELS[name]().eval()
    shake(model)
    model.save_pretrained(folder)


def imported(folder: Path) -> tuple[Recipe, Any]:
    source = open_source(folder)
    recipe = recipe_of(source, TokenizerConfig(kind="words", vocab_size=N_WORDS), separator=2)
    tensors, left_out = import_weights(source, recipe)
    assert not left_out
    model = recipe.build_model().eval()
    set_weights(model, tensors, str(folder))
    return recipe, model


def assert_same(recipe: Recipe, model: Any, folder: Path) -> None:
    run = Run(folder, recipe, TOKENIZER, model, "as they are")
    ours, theirs = OurTranslator(run), TranslatorInTransformers(folder, run)
    inputs = random_tokens(9, 30, N_WORDS, without={0, 1, 2, 52})
    exact, found, given = in_double(run, ours, inputs), ours.rows(inputs), theirs.rows(inputs)
    rounding = max(float((row - best).abs().max()) for row, best in zip(found, exact, strict=True))  # on this CPU
    for row, best in zip(given, exact, strict=True):
        torch.testing.assert_close(row.double(), best.double(), atol=max(LIMIT, ROUNDINGS * rounding), rtol=0.0)
    assert rounding < 5 * LIMIT
    written = ours.greedy(inputs, 20)
    assert written == theirs.greedy(inputs, 20)
    assert len(set(map(tuple, written))) > 1  # not one answer to everything


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", MODELS)
def test_imported_translators_answer_as_theirs(name: str, tmp_path: Path) -> None:
    make(name, tmp_path)
    assert_same(*imported(tmp_path), tmp_path)


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", MODELS)
def test_exported_translators_answer_as_ours(name: str, tmp_path: Path) -> None:
    make(name, tmp_path)
    recipe, model = imported(tmp_path)
    shake(model)
    model_type = open_source(tmp_path).model_type
    out = tmp_path / "out"
    export(recipe, model, model_type, out)
    assert_same(recipe, model, out)
    again, same = imported(out)
    assert again.model == recipe.model
    for key, tensor in weights_of(model).items():
        torch.testing.assert_close(weights_of(same)[key], tensor)


def export(recipe: Recipe, model: Any, model_type: str, folder: Path) -> None:
    folder.mkdir()
    settings = FAMILIES[model_type].write_config(recipe)
    start = recipe.task.frame(TOKENIZER).start
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": start}
    (folder / "config.json").write_text(json.dumps(special | settings))
    tensors = FAMILIES[model_type].give(weights_of(model), recipe)
    save_file({name: t.detach().clone() for name, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})


def own_recipe(**model: Any) -> Recipe:
    sizes = {"vocab_size": N_WORDS, "d_model": 15, "n_heads": 3, "n_layers": 2, "d_ff": 7, "max_length": 40}
    return Recipe(
        name="own",
        kind="translation",
        architecture="transformer",
        task=TranslationConfig(),
        data=DataConfig(),
        tokenizer=TokenizerConfig(kind="words", vocab_size=N_WORDS),
        model=TransformerConfig(**{**sizes, **model}),
        training=TrainingConfig(),
        decoding=DecodingConfig(),
    )


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("marian", {}),  # the paper's model: sines and cosines alternate, so all channels go to other places
        ("marian", {"output_bias": True, "feed_forward": "swish"}),
        ("pegasus", {"pre_norm": True}),
        ("pegasus", {"pre_norm": True, "position": "sinusoidal_halves", "feed_forward": "gelu"}),
        ("bart", {"position": "learned", "embedding_norm": True, "feed_forward": "gelu"}),
    ],
)
def test_what_regard_trains_is_read_by_transformers(model_type: str, settings: dict[str, Any], tmp_path: Path) -> None:
    recipe = own_recipe(**settings)
    model = Transformer(recipe.model).eval()
    shake(model)
    export(recipe, model, model_type, tmp_path / "out")
    assert_same(recipe, model, tmp_path / "out")


def test_what_a_family_cannot_do_is_said() -> None:
    with pytest.raises(ConfigError, match=r"marian needs model\.pre_norm = False, and this run has True"):
        FAMILIES["marian"].write_config(own_recipe(pre_norm=True))
    with pytest.raises(
        ConfigError, match=r"marian needs model\.position = 'sinusoidal_halves', and this run has 'alibi'"
    ):
        FAMILIES["marian"].write_config(own_recipe(position="alibi"))
    with pytest.raises(ConfigError, match=r"t5 needs model\.score = 'dot'"):
        FAMILIES["t5"].write_config(own_recipe())


def test_a_second_table_that_differs_is_not_left_out_in_silence(tmp_path: Path) -> None:
    model = t5()
    model.lm_head.weight = torch.nn.Parameter(torch.ones(N_WORDS, 12))  # scaled, and yet with a table of its own
    model.save_pretrained(tmp_path)
    with pytest.raises(RunError, match=r"lm_head\.weight is not shared\.weight"):
        imported(tmp_path)


def test_sides_of_different_depth_are_refused(tmp_path: Path) -> None:
    marian(decoder_layers=1).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="decoder_layers = 1 is not something that regard's models do: it must be 2"):
        imported(tmp_path)
