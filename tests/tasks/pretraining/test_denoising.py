"""Denoising and permutation: chance is a function of (seed, epoch, index), targets are the text, both are learnt."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_language import TRAIN, VALID

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.errors import ConfigError
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.xlnet import PermutationModel, XLNet, XLNetConfig
from regard.tasks.pretraining.denoising import Denoising, DenoisingConfig
from regard.tasks.pretraining.orders import Permutation, PermutationConfig
from regard.tasks.setup import Setup, Use
from regard.text import Tokenizer, TokenizerConfig

EXTRA = ("<mask>", *(f"<extra_{i}>" for i in range(6)))
SPANS: dict[str, Any] = {"objective": "spans", "noises": (), "share": 0.15}


def setup(folder: Path, extra: tuple[str, ...] = EXTRA, **data: Any) -> Setup:
    (folder / "train.txt").write_text(TRAIN, encoding="utf-8")
    (folder / "valid.txt").write_text(VALID, encoding="utf-8")
    given = {"train": ("train.txt",), "valid": ("valid.txt",), "batch_tokens": 90} | data
    config = DataConfig(root=str(folder), **given)
    tokenizer = Tokenizer.train(
        Denoising.texts(config), TokenizerConfig(kind="characters", vocab_size=400, extra=extra)
    )
    return Setup(data=config, tokenizer=tokenizer, dropout=0.0, cache=folder, seed=3, decoding=DecodingConfig())


def denoising(folder: Path, **settings: Any) -> Denoising:
    return Denoising.make(DenoisingConfig(**{"window": 30} | settings), setup(folder))


def permutation(folder: Path, **settings: Any) -> Permutation:
    return Permutation.make(PermutationConfig(**{"window": 30} | settings), setup(folder))


def transformer(vocab_size: int) -> Transformer:
    torch.manual_seed(0)
    return Transformer(
        TransformerConfig(vocab_size=vocab_size, d_model=32, n_heads=2, n_layers=1, d_ff=64, dropout=0.0, max_length=64)
    )


def xlnet(vocab_size: int) -> PermutationModel:
    torch.manual_seed(0)
    config = XLNetConfig(vocab_size=vocab_size, d_model=32, n_heads=2, n_layers=2, d_ff=64, dropout=0.0, max_length=64)
    return PermutationConfig(window=30).build(XLNet(config))


def test_an_epoch_asks_for_the_whole_text_once(tmp_path: Path) -> None:
    task = denoising(tmp_path)
    epoch = [task.batch(0, i) for i in range(task.n_batches(0))]
    written = sorted(
        task.tokenizer.decode(part.tolist())
        for batch in epoch
        for part in batch.labels.split(batch.target_layout.lengths.tolist())
    )
    assert sorted("".join(written)) == sorted(TRAIN)
    assert all(text in TRAIN for text in written)


@pytest.mark.parametrize("make", [denoising, permutation, lambda folder: denoising(folder, **SPANS)])
def test_chance_is_a_function_of_the_place(make: Any, tmp_path: Path) -> None:
    def spoilt(task: Any, epoch: int, index: int) -> list[int]:
        batch = task.batch(epoch, index)
        return list(batch.source if hasattr(batch, "source") else batch.ranks.flatten())

    one, other = make(tmp_path), make(tmp_path)
    other.batch(2, 1)  # what was asked before does not matter
    assert spoilt(one, 1, 1) == spoilt(other, 1, 1)
    assert spoilt(one, 0, 1) != spoilt(one, 1, 1)


def test_sources_of_spans_name_their_gaps(tmp_path: Path) -> None:
    task = denoising(tmp_path, **SPANS)
    batch = task.batch(0, 0)
    for source, labels in zip(
        batch.source.split(batch.source_layout.lengths.tolist()),
        batch.labels.split(batch.target_layout.lengths.tolist()),
        strict=True,
    ):
        gaps = [n for n in source.tolist() if n in task.noise.sentinels]
        assert gaps == [n for n in labels.tolist() if n in task.noise.sentinels][:-1]
        assert labels[-1] == task.tokenizer.end_id


def test_sentences_end_with_their_marks(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    given = setup(data)
    (data / "train.txt").write_text("is it? it is. so. it is! ok.\n" * 9, encoding="utf-8")
    tokenizer = Tokenizer.train(Denoising.texts(given.data), TokenizerConfig(vocab_size=290, extra=("<mask>",)))
    task = Denoising.make(
        DenoisingConfig(window=30, noises=("permute",)),
        Setup(data=given.data, tokenizer=tokenizer, dropout=0.0, cache=tmp_path, seed=0, decoding=DecodingConfig()),
    )
    ends = {
        token.strip() for n, token in enumerate(tokenizer.tokens(range(tokenizer.vocab_size))) if task.noise.ends[n]
    }
    assert {".", "!", "?"} <= ends and all(token[-1] in ".!?" for token in ends)


@pytest.mark.parametrize("settings", [{}, SPANS])
def test_a_line_ends_once(settings: dict[str, Any], tmp_path: Path) -> None:
    """Its </s> is the frame's: no noise hides it, and nothing stands behind it."""
    task = denoising(tmp_path, unit="lines", **settings)
    end = task.tokenizer.end_id
    for index in range(task.n_batches(0)):
        batch = task.batch(0, index)
        for side, layout in ((batch.source, batch.source_layout), (batch.labels, batch.target_layout)):
            assert all(part.tolist().index(end) == len(part) - 1 for part in side.split(layout.lengths.tolist()))


def test_the_samples_of_lines_are_lines(tmp_path: Path) -> None:
    task = denoising(tmp_path, unit="lines", noises=("permute",))
    shown = task.samples(transformer(task.tokenizer.vocab_size))
    assert [truth for _, truth, _ in shown] == VALID.split("\n")[:2]


def test_missing_special_tokens_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="<mask>"):
        Denoising.make(DenoisingConfig(window=30), setup(tmp_path, extra=()))
    with pytest.raises(ConfigError, match=r"<extra_2> to <extra_16>: name these 15"):
        Denoising.make(
            DenoisingConfig(**SPANS | {"window": 256, "share": 0.1875}),
            setup(tmp_path, extra=("<extra_0>", "<extra_1>")),
        )
    with pytest.raises(ConfigError, match=r"data\.max_length"):
        denoising(tmp_path, window=300)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"noises": ("blur",)}, "infill, mask"),
        ({"objective": "spans"}, "noises"),
        ({"noises": ()}, "needs noises"),
        ({"share": 1.0}, "share"),
        ({"mean_span": 0.5}, "mean_span"),
        ({"window": 4}, "at least 8"),
    ],
)
def test_mistakes_are_explained(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        DenoisingConfig(**settings)


def test_only_two_streams_predict_in_any_order(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="xlnet"):
        PermutationConfig().build(Stack(StackConfig(vocab_size=9, d_model=8, n_heads=2, n_layers=1, d_ff=8)))
    with pytest.raises(ConfigError, match=r"max_length = 64"):
        PermutationConfig(window=65).build(XLNet(xlnet(50).config))


def fit(task: Any, model: Any, steps: int) -> list[float]:
    batch, losses = task.small_batch(60), []
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(steps):
        loss = task.loss(model, batch) / batch.n_targets
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize(
    ("make", "model"),
    [  # a training each; test_repair.py learns the spans too
        (denoising, transformer),
        pytest.param(lambda folder: denoising(folder, **SPANS), transformer, marks=pytest.mark.slow),
        pytest.param(permutation, xlnet, marks=pytest.mark.slow),
    ],
)
def test_a_few_windows_are_learnt_by_heart(make: Any, model: Any, tmp_path: Path) -> None:
    task = make(tmp_path)
    losses = fit(task, net := model(task.tokenizer.vocab_size), 60)
    assert losses[-1] < 0.2 < losses[0] / 4
    values = task.validate(net.eval())
    assert values["loss"] > losses[-1] and values["perplexity"] == pytest.approx(np.exp(values["loss"]))
    assert task.validate(net) == values  # the same is masked each time


def test_samples_show_what_was_masked(tmp_path: Path) -> None:
    task = denoising(tmp_path, noises=("infill",))
    (corrupted, text, _), _ = task.samples(transformer(task.tokenizer.vocab_size).eval())
    assert "<mask>" in corrupted and VALID.startswith(text)


def test_targets_are_the_text_and_turns_differ(tmp_path: Path) -> None:
    task = permutation(tmp_path)
    batch = task.batch(0, 0)
    ranks = batch.layout.flatten(batch.ranks)
    assert torch.equal(ranks.nonzero()[:, 0], batch.targets) and 0 < batch.n_targets < batch.n_tokens / 2
    for row, length in zip(batch.ranks, batch.layout.lengths, strict=True):
        turns = row[:length][row[:length] > 0].tolist()
        assert sorted(turns) == list(range(1, len(turns) + 1))


@pytest.mark.parametrize(("make", "model"), [(denoising, transformer), (permutation, xlnet)])
def test_evaluation_measures_the_validation_text(make: Any, model: Any, tmp_path: Path) -> None:
    task = make(tmp_path)
    net = model(task.tokenizer.vocab_size).eval()
    what, metrics = task.measure(Use(net, Engine(net), DecodingConfig()))[:2]
    assert what == "the validation text"
    assert {m.name: pytest.approx(m.value) for m in metrics} == task.validate(net)
    assert "window:30" in metrics[0].signature


def test_samples_are_greedy_whatever_the_recipe_says(tmp_path: Path) -> None:
    drawn = replace(setup(tmp_path), decoding=DecodingConfig(sample=True, temperature=50.0))
    plain, hot = denoising(tmp_path), Denoising.make(DenoisingConfig(window=30), drawn)
    model = transformer(plain.tokenizer.vocab_size).eval()
    assert hot.samples(model) == plain.samples(model) != []
