"""A batch that does not fit into memory is divided, with the gradients of the whole, and it is said."""

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np
import pytest
import torch
from tiny_training import CONFIG, CPU, TinyBatch, TinyModel, TinyTask, run_tiny
from torch import Tensor, nn

from regard.data.batching.batch import Batch, middle
from regard.memory import TooLarge
from regard.models.heads import Classifier, LanguageModel
from regard.models.masked import MaskedWords
from regard.models.stack import Stack, StackConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.layout import Ragged
from regard.runs.history import read_metrics
from regard.tasks.chat.batches import make_batch as make_answers
from regard.tasks.classification.batches import DocumentBatch
from regard.tasks.classification.task import label_nats
from regard.tasks.framing import Frame
from regard.tasks.language.batches import TextBatch
from regard.tasks.pretraining.batches import MaskedBatch
from regard.tasks.pretraining.task import MaskedLanguage
from regard.tasks.translation.batches import make_batch as make_pairs
from regard.tasks.translation.framed import pair_loss
from regard.training.learner import Learner

V = 40
LENGTHS = [9, 2, 14, 5, 1, 7]
SIZES = {"vocab_size": V, "d_model": 16, "n_heads": 2, "n_layers": 1, "d_ff": 32, "max_length": 32, "dropout": 0.0}


class Halved(TinyBatch):
    """Words that are learned one by one, so that any cut will do."""

    def halves(self) -> list[Self]:
        n = len(self.words) // 2
        parts = (slice(0, n), slice(n, None))
        return [dataclasses.replace(self, words=self.words[p], targets=self.targets[p]) for p in parts] if n else []


class SmallMemory(TinyTask):
    """Runs out of memory, after some of the work, where a batch has more than `room` words."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.n_failed = room, 0

    def gather(self, chosen: list[int]) -> TinyBatch:
        batch = super().gather(chosen)
        return Halved(batch.lines, batch.words, batch.targets)

    def loss(self, model: nn.Module, batch: TinyBatch) -> Tensor:
        loss = super().loss(model, batch)
        if len(batch.words) > self.room and model.training:
            self.n_failed += 1
            loss.backward()  # gradients that must not stay
            torch.rand(5)  # and chance that must be drawn again
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return loss


def make_learner(task: TinyTask, **settings: object) -> Learner:
    return Learner(TinyModel(dropout=0.0), task, dataclasses.replace(CONFIG, **settings), CPU, d_model=8)  # type: ignore[arg-type]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_divided_step_is_the_step(accumulate: int) -> None:
    whole, divided = make_learner(SmallMemory(10_000)), make_learner(SmallMemory(9))
    for step in range(1, 5):
        places = [(0, (step + i) % 6) for i in range(accumulate)]
        for learner in (whole, divided):
            learner.update(step, [learner.task.batch(*place) for place in places], places)
    for ours, theirs in zip(divided.read(), whole.read(), strict=True):
        assert (ours.step, ours.n_tokens) == (theirs.step, theirs.n_tokens)
        assert (ours.loss, ours.grad_norm) == pytest.approx((theirs.loss, theirs.grad_norm), rel=1e-5)
    for one, other in zip(divided.parameters, whole.parameters, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert divided.task.n_failed > 0 and whole.task.n_failed == 0


def test_what_did_not_fit_once_is_divided_at_once_from_then_on() -> None:
    learner = make_learner(SmallMemory(9))
    for step in range(1, 13):
        learner.update(step, [learner.task.batch(0, step % 6)], [(0, step % 6)])
        if step == 6:
            seen = learner.task.n_failed  # of all batches that there are
    assert learner.task.n_failed == seen > 0


def test_a_training_says_it_and_resumes_the_same(tmp_path: Path) -> None:
    config, screen = dataclasses.replace(CONFIG, steps=8), io.StringIO()
    run_tiny(tmp_path / "plain", config)
    run_tiny(tmp_path / "whole", config, task=SmallMemory(9), say=screen)
    assert "did not fit into memory: from now on such batches are divided" in screen.getvalue()
    run_tiny(tmp_path / "run", dataclasses.replace(config, steps=4), task=SmallMemory(9))
    run_tiny(tmp_path / "run", config, task=SmallMemory(9), resume=True)
    rows = {name: read_metrics(tmp_path / name / "metrics.jsonl") for name in ("plain", "whole", "run")}
    counts = {name: [row["n_tokens"] for row in rows[name] if row["kind"] == "train"] for name in rows}
    assert counts["plain"] == counts["whole"] == counts["run"]


def test_what_cannot_be_divided_ends_with_advice() -> None:
    learner = make_learner(SmallMemory(0))
    with pytest.raises(TooLarge, match=r"cannot be divided; lower data.batch_tokens .* training.checkpointing = true"):
        learner.update(1, [learner.task.batch(0, 0)], [(0, 0)])


def test_other_errors_stay_what_they_are() -> None:
    class Broken(TinyTask):
        def loss(self, model: nn.Module, batch: TinyBatch) -> Tensor:
            raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        make_learner(Broken()).update(1, [TinyTask().batch(0, 0)], [(0, 0)])


def some_tokens(n: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(n).integers(5, V, n))


def text() -> tuple[nn.Module, Batch, Callable[..., Tensor]]:
    model = LanguageModel(Stack(StackConfig(**SIZES)))
    tokens = some_tokens(sum(LENGTHS))
    batch = TextBatch([f"{n}" for n in LENGTHS], tokens, tokens.flip(0), Ragged(LENGTHS))
    return model, batch, lambda model, b: model.nats(b.tokens, b.labels, b.layout)


def documents() -> tuple[nn.Module, Batch, Callable[..., Tensor]]:
    model = Classifier(Stack(StackConfig(**SIZES, causal=False)), 3, "mean", 0.0)
    labels = torch.arange(len(LENGTHS)) % 3
    batch = DocumentBatch([f"{n}" for n in LENGTHS], some_tokens(sum(LENGTHS)), Ragged(LENGTHS), labels)
    return model, batch, lambda model, b: label_nats(model, b, 0.1)


def masked() -> tuple[nn.Module, Batch, Callable[..., Tensor]]:
    model = MaskedWords(Stack(StackConfig(**SIZES, causal=False)), nsp=True)
    tokens, places = some_tokens(sum(LENGTHS)), torch.arange(0, sum(LENGTHS), 3)
    follows, each = torch.tensor([0, 1, 1, 0, 1, 0]), torch.tensor(len(places) / len(LENGTHS))
    lines = [f"{n}" for n in LENGTHS]
    batch = MaskedBatch(lines, tokens, Ragged(LENGTHS), places, tokens[places], follows, each)
    return model, batch, lambda model, b: MaskedLanguage.nats(None, model, b, 0.0)  # type: ignore[arg-type]


def pairs() -> tuple[nn.Module, Batch, Callable[..., Tensor]]:
    sides = [[some_tokens(n).numpy() for n in lengths] for lengths in (LENGTHS, LENGTHS[::-1])]
    batch = make_pairs(*sides, [f"{n}" for n in LENGTHS], Frame(1, 2))
    return Transformer(TransformerConfig(**SIZES)), batch, lambda model, b: pair_loss(model, b, 0.1)


def answers() -> tuple[nn.Module, Batch, Callable[..., Tensor]]:
    scripts = [(some_tokens(n + 2).numpy(), np.arange(n + 2) % 3 > 0) for n in LENGTHS]
    batch = make_answers(scripts, [f"{n}" for n in LENGTHS])

    def loss(model: LanguageModel, b: Batch) -> Tensor:
        rows = model(b.tokens, b.layout)[b.places]
        return nn.functional.cross_entropy(rows @ model.output_table.T, b.labels, reduction="sum")

    return LanguageModel(Stack(StackConfig(**SIZES))), batch, loss


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("make", [text, documents, masked, pairs, answers])
def test_the_losses_and_gradients_of_halves_are_those_of_the_whole(make: Callable, is_filled: bool) -> None:
    torch.manual_seed(0)
    model, batch, loss = make()
    whole = batch.filled() if is_filled else batch
    parts = whole.halves()
    assert len(parts) == 2
    parts = [*parts[0].halves(), parts[1]]
    assert sum(part.n_targets for part in parts) == batch.n_targets
    assert sum(part.n_tokens for part in parts) == batch.n_tokens
    assert [line for part in parts for line in part.lines] == batch.lines
    found = []
    for some in ([batch], parts):
        total = sum(loss(model, part) for part in some)
        found.append((total, *torch.autograd.grad(total, list(model.parameters()), allow_unused=True)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


def test_halves_have_about_as_many_rows() -> None:
    assert middle(Ragged([1, 1, 1, 9])) == [(0, 3), (3, 4)]
    assert middle(Ragged([9, 1, 1, 1])) == [(0, 1), (1, 4)]
    assert middle(Ragged([5])) == []
    assert middle(Ragged([0, 0])) == []


def test_windows_that_carry_a_state_stay_together() -> None:
    _, batch, _ = text()
    assert isinstance(batch, TextBatch)
    assert dataclasses.replace(batch, is_carried=True).halves() == []
