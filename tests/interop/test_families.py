"""Every family, in and out: our model gives what transformers' gives, and what we write transformers reads."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from regard.errors import ConfigError
from regard.interop.certifying.samples import random_tokens
from regard.interop.families import FAMILIES
from regard.interop.families.settings import exchange_of
from regard.interop.importing import import_weights, open_source, recipe_of
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.runs.weights import set_weights
from regard.text.tokenizer import TokenizerConfig
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
    lengths, exchange = [len(ids) for ids in inputs()], exchange_of(recipe)
    tokens = torch.tensor([token for ids in inputs() for token in ids])
    with torch.no_grad():
        return list(exchange.rows(model, tokens, Ragged(lengths)).split(1 if exchange.is_of_sequences else lengths))


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
    exchange = exchange_of(recipe)
    rows = answer["prediction_logits" if "prediction_logits" in answer else exchange.answer]
    if exchange.is_of_sequences:
        return list(rows[:, None])
    return [row[: len(ids)] for row, ids in zip(rows, inputs(), strict=True)]


def base(recipe: Recipe, model: Any) -> Any:
    """The model without a head that we have no place for."""
    return model.base_model if recipe.kind == "reading" else model


def assert_close(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=CLOSE, rtol=CLOSE)


@pytest.mark.sampled("every family takes its own build and export; some show that the way holds", cases=8)
@pytest.mark.parametrize("name", MODELS)
def test_imported_models_answer_as_theirs(name: str, tmp_path: Path) -> None:
    theirs = make(name, tmp_path)
    recipe, ours, _ = imported(tmp_path)
    assert_close(our_rows(recipe, ours), their_rows(recipe, base(recipe, theirs)))


@pytest.mark.sampled("every family takes its own build and export; some show that the way holds", cases=8)
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
    found = theirs.load_state_dict(family.give(ours.state_dict(), recipe), strict=False)
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
    make("bert of one number", tmp_path)
    recipe, _, left_out = imported(tmp_path)
    assert recipe.kind == "reading"
    assert left_out == ["bert.pooler.dense.bias", "bert.pooler.dense.weight", "classifier.bias", "classifier.weight"]


def test_labels_keep_their_names_and_order(tmp_path: Path) -> None:
    make("distilbert that classifies", tmp_path / "two")
    recipe, _, left_out = imported(tmp_path / "two")
    assert recipe.task.shown_labels == ("NEGATIVE", "POSITIVE") and not left_out
    make("roberta that classifies", tmp_path / "many")
    recipe, _, _ = imported(tmp_path / "many")
    assert recipe.task.shown_labels == tuple(f"LABEL_{i}" for i in range(12))  # 10 after 9, not after 1
    written = FAMILIES["roberta"].write_config(recipe)
    assert written["id2label"]["11"] == "LABEL_11" and written["label2id"]["LABEL_2"] == 2


@pytest.mark.parametrize("named", [{"0": "a", "2": "b"}, ["a", "b"], "ab"])
def test_labels_that_are_not_numbered_are_refused(named: Any, tmp_path: Path) -> None:
    make("bert that classifies", tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"id2label": named}))
    with pytest.raises(ConfigError, match="id2label must name the labels 0, 1"):
        imported(tmp_path)


def test_any_of_several_labels_is_not_one_of_them(tmp_path: Path) -> None:
    make("bert that classifies", tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"problem_type": "multi_label_classification"}))
    assert imported(tmp_path)[0].kind == "reading"
