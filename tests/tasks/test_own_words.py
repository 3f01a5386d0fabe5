"""Scheduled sampling: whose words are read, by which chance, and that nothing else is drawn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regard import config
from regard.errors import ConfigError
from regard.models.conditioned import LabelBeside, LabelFirst
from regard.models.heads import LanguageModel
from regard.models.recurrent import Recurrent, RecurrentConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.nn.layout import Ragged
from regard.nn.linear import logits
from regard.runs.recipe import Recipe
from regard.tasks.language.label_to_text import LabelToTextConfig, conditioned_batch
from regard.tasks.own_words import with_own_words
from regard.training.prepare import prepare

V, END = 12, 2
DRAWS = [0, 4, 7]


def reader(**settings: object) -> Recurrent:
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "d_model": 8, "d_hidden": 8, "n_layers": 1, "dropout": 0.5, "embedding_range": 3.0}
    return Recurrent(RecurrentConfig(**sizes | settings))


def texts(n: int = 60) -> tuple[torch.Tensor, Ragged]:
    layout = Ragged([9, 4, 1] * n)
    return torch.randint(3, V, (layout.n_rows,), generator=torch.Generator().manual_seed(1)), layout


def begun(read: torch.Tensor, layout: Ragged) -> list[list[int]]:
    return read[layout.offsets[:-1].long()][:, None].tolist()


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
def test_so_many_tokens_are_the_models_own(chance: float) -> None:
    model, (read, layout) = LanguageModel(reader()).train(), texts()
    nn.init.zeros_(model.own_table if model.own_table is not None else model.reader.embedding.weight)  # all as likely
    mixed = with_own_words(model, begun(read, layout), read, layout, chance, DRAWS)
    is_first = layout.positions == 0
    assert mixed[is_first].equal(read[is_first]) and model.training
    expected = chance * (1 - 1 / V)  # some are what they were
    assert float((mixed != read)[~is_first].float().mean()) == pytest.approx(expected, abs=0.05)
    assert mixed.equal(with_own_words(model, begun(read, layout), read, layout, chance, DRAWS))
    if chance:
        assert not mixed.equal(with_own_words(model, begun(read, layout), read, layout, chance, [0, 4, 8]))


def test_own_words_follow_what_was_read_in_their_place() -> None:
    """Of a model that is always sure, all words of its own are what it writes by itself."""
    model, (read, layout) = LanguageModel(reader()).eval(), texts(3)
    with torch.no_grad():
        model.output_table.mul_(60)
    mixed = with_own_words(model, begun(read, layout), read, layout, 1.0, DRAWS)
    with torch.no_grad():
        likeliest = logits(model(mixed, layout), model.output_table).argmax(-1)
    is_first = layout.positions == 0
    assert float((mixed[1:] == likeliest[:-1])[~is_first[1:]].float().mean()) > 0.95


@pytest.mark.parametrize("is_beside", [False, True])
def test_a_label_stays_beside_words_of_the_models_own(is_beside: bool) -> None:
    model = LabelBeside(reader(), 2, 4) if is_beside else LabelFirst(reader(), 2)
    lines = [np.arange(3, 9)] * 20
    batch = conditioned_batch(lines, np.arange(20) % 2, [""] * 20, V, END, 30, is_beside)
    mixed = with_own_words(model, begun(batch.tokens, batch.layout), batch.tokens, batch.layout, 0.5, DRAWS)
    changed = mixed != batch.tokens
    assert changed.any() and not changed[batch.layout.positions == 0].any()
    assert (mixed // (V + 1)).equal(batch.tokens // (V + 1))
    assert model(mixed, batch.layout).isfinite().all()


def test_a_translator_reads_its_own_words_after_its_source() -> None:
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(vocab_size=V, d_model=8, d_hidden=8, look="feed")).train()
    read, layout = texts(4)
    sources = [[5, 6, 7 + i % 3, END] for i in range(layout.n_sequences)]
    mixed = with_own_words(model, sources, read, layout, 0.5, DRAWS)
    assert 0.2 < float((mixed != read)[layout.positions > 0].float().mean()) < 0.7


def test_the_chance_grows_evenly_and_stays() -> None:
    settings = LabelToTextConfig(own_words=0.4, own_words_steps=100)
    assert [settings.chance(step) for step in (0, 25, 100, 5000)] == pytest.approx([0, 0.1, 0.4, 0.4])
    with pytest.raises(ConfigError, match=r"own_words must be at least 0 and below 1, got 1\.5"):
        replace(settings, own_words=1.5)
    with pytest.raises(ConfigError, match="own_words_steps must be at least 1, got 0"):
        replace(settings, own_words_steps=0)


RECIPE = {
    "data": {"train": ["a.txt", "b.txt"], "max_length": 24, "batch_tokens": 48},
    "tokenizer": {"kind": "words", "vocab_size": 60},
}


def test_only_the_loss_of_training_reads_own_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two three four\n" * 8, encoding="utf-8")
    (tmp_path / "b.txt").write_text("four three two one\n" * 8, encoding="utf-8")
    tables = {**RECIPE, "data": {**RECIPE["data"], "root": str(tmp_path)}}
    tables["task"] = {"kind": "translation", "own_words": 0.9, "own_words_steps": 10, "smoothing": 0.0}
    tables["model"] = {"architecture": "seq2seq", "d_model": 8, "d_hidden": 8, "dropout": 0.0, "max_length": 32}
    config.write(tables, tmp_path / "recipe.toml")
    made = prepare(Recipe.read(str(tmp_path / "recipe.toml")), tmp_path / "run", False)
    batch = made.task.small_batch(48)
    losses = []
    for made.task.step in (0, 10, 11, 10):
        losses.append(float(made.task.loss(made.model, batch).detach()))
        assert float(made.task.plain_loss(made.model, batch).detach()) == pytest.approx(losses[0])
    assert losses[1] == losses[3] and len({round(loss, 4) for loss in losses}) == 3
    tables["model"] = {"architecture": "transformer", "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8}
    config.write(tables, tmp_path / "recipe.toml")
    with pytest.raises(ConfigError, match="own_words is for models that read one token after the other: set it to 0"):
        prepare(Recipe.read(str(tmp_path / "recipe.toml")), tmp_path / "other", False)
    assert not (tmp_path / "other").exists()
