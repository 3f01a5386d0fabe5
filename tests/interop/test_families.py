"""Every family, in and out: our model gives what transformers' gives, and what we write transformers reads."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.interop.carry import give
from regard.interop.families import FAMILIES
from regard.interop.importing import import_weights, recipe_of
from regard.interop.samples import random_tokens
from regard.interop.sides import COMPARED
from regard.interop.sources import open_source
from regard.nn.layout import Ragged
from regard.text.tokenizer import TokenizerConfig
from regard.training.recipe import Recipe
from regard.training.weights import set_weights
from tests.interop.tiny import MODELS, make

SEPARATOR = 2
CLOSE = 1e-5


def imported(folder: Path) -> tuple[Recipe, Any, list[str]]:
    source = open_source(folder)
    recipe = recipe_of(source, TokenizerConfig(kind="words", vocab_size=53), SEPARATOR)
    tensors, left_out = import_weights(source, recipe)
    model = recipe.build_model().eval()
    set_weights(model, tensors, str(folder))
    return recipe, model, left_out


def inputs() -> list[list[int]]:
    """Sequences of different lengths, some with several separators, none with padding inside."""
    drawn = random_tokens(9, 19, 53, without={0, 1})
    return [[SEPARATOR if place % 5 == 3 else token for place, token in enumerate(ids)] for ids in drawn]


def our_rows(recipe: Recipe, model: Any) -> list[torch.Tensor]:
    lengths = [len(ids) for ids in inputs()]
    tokens = torch.tensor([token for ids in inputs() for token in ids])
    with torch.no_grad():
        return list(COMPARED[recipe.kind].ours(model, tokens, Ragged(lengths)).split(lengths))


def their_rows(recipe: Recipe, model: Any) -> list[torch.Tensor]:
    """As one padded batch."""
    longest = max(map(len, inputs()))
    pad = model.config.pad_token_id or 0
    padded = torch.tensor([[*ids, *[pad] * (longest - len(ids))] for ids in inputs()])
    seen = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in inputs()])
    named = {"input_ids": padded, "attention_mask": seen}
    if getattr(recipe.model, "n_segments", 0) > 1:
        ends = (padded == SEPARATOR).long()
        named["token_type_ids"] = (ends.cumsum(1) - ends).clamp(max=recipe.model.n_segments - 1)  # a separator ends one
    with torch.no_grad():
        answer = model(**named)
    rows = answer.prediction_logits if "prediction_logits" in answer else COMPARED[recipe.kind].theirs(answer)
    return [row[: len(ids)] for row, ids in zip(rows, inputs(), strict=True)]


def base(model: Any) -> Any:
    """The model without a head that we have no place for."""
    has_head = any(name in type(model).__name__ for name in ("Classification", "ElectraForPreTraining"))
    return model.base_model if has_head else model


def assert_close(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("name", MODELS)
def test_imported_models_answer_as_theirs(name: str, tmp_path: Path) -> None:
    theirs = make(name, tmp_path)
    recipe, ours, _ = imported(tmp_path)
    assert_close(our_rows(recipe, ours), their_rows(recipe, base(theirs)))


@pytest.mark.parametrize("name", MODELS)
def test_exported_models_answer_as_ours(name: str, tmp_path: Path) -> None:
    """Out again, under their names and settings, and read by transformers: all weights are found, none is left."""
    make(name, tmp_path)
    recipe, ours, _ = imported(tmp_path)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    family = FAMILIES[open_source(tmp_path).model_type]
    settings = family.write_config(recipe)
    made_by = getattr(transformers, settings["architectures"][0])
    theirs = made_by(made_by.config_class(**settings)).eval()
    found = theirs.load_state_dict(give(ours.state_dict(), family, recipe), strict=False)
    theirs.tie_weights()
    assert not found.unexpected_keys
    assert all("pooler" in key or key in (theirs.all_tied_weights_keys or {}) for key in found.missing_keys)
    assert_close(our_rows(recipe, ours), their_rows(recipe, theirs))


def test_segments_matter(tmp_path: Path) -> None:
    """The comparison above is one of segments too: with another separator the answers are others."""
    make("bert", tmp_path)
    recipe, ours, _ = imported(tmp_path)
    before = our_rows(recipe, ours)[1]
    ours.reader.config = dataclasses.replace(recipe.model, separator=52)
    assert (our_rows(recipe, ours)[1] - before).abs().max() > 100 * CLOSE


def test_next_sentences_are_told_alike(tmp_path: Path) -> None:
    theirs = make("bert with next sentences", tmp_path)
    recipe, ours, left_out = imported(tmp_path)
    assert recipe.task.nsp and not left_out
    ids = torch.tensor([5, 9, SEPARATOR, 8, 7, SEPARATOR])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1]])
    with torch.no_grad():
        expected = theirs(input_ids=ids[None], token_type_ids=segments).seq_relationship_logits
        layout = Ragged([6])
        torch.testing.assert_close(ours.next_logits(ours(ids, layout), layout), expected)


def test_what_only_other_tasks_read_is_left_out_and_said(tmp_path: Path) -> None:
    make("bert that classifies", tmp_path)
    recipe, _, left_out = imported(tmp_path)
    assert recipe.kind == "reading"
    assert left_out == ["bert.pooler.dense.bias", "bert.pooler.dense.weight", "classifier.bias", "classifier.weight"]
