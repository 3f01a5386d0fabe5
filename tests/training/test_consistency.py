"""R-Drop against its equation, and what cannot learn with it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.errors import ConfigError
from regard.learning.config import TrainingConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.nn.loss import IGNORED
from regard.runs.recipe import Recipe
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import PairBatch, make_batch
from regard.tasks.translation.task import Translation, TranslationConfig
from regard.training.consistency import consistent_loss, divergence
from regard.training.learner import Learner
from regard.training.prepare import prepare

CPU = torch.device("cpu")
WORDS = 13


def make_model(dropout: float = 0.4) -> Transformer:
    torch.manual_seed(0)
    sizes = {"vocab_size": WORDS, "d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 16, "max_length": 16}
    return Transformer(TransformerConfig(**sizes, dropout=dropout)).train()


def make_pairs() -> PairBatch:
    chance = np.random.default_rng(0)
    sides = [[chance.integers(4, WORDS, n) for n in lengths] for lengths in ((3, 5, 2), (4, 2, 6))]
    return make_batch(*sides, lines=["a:1", "a:2", "a:3"], frame=Frame(1, 2))


class Task(Translation):
    """Its loss alone: no tokenizer, no files."""

    def __init__(self, **settings: object) -> None:
        self.config = TranslationConfig(smoothing=0.1, **settings)


def test_it_is_the_equation_of_two_readings() -> None:
    task, model, batch = Task(), make_model(), make_pairs()
    torch.manual_seed(3)
    loss = consistent_loss(task, 5.0, model, batch)
    torch.manual_seed(3)
    p, q = (task.predictions(model, batch)[0] for _ in range(2))
    assert not p.equal(q)
    labels = batch.labels
    entropies = sum(F.cross_entropy(x, labels, label_smoothing=0.1, reduction="sum") for x in (p, q))
    one, other = p.softmax(-1), q.softmax(-1)
    both = (one * (one / other).log()).sum() + (other * (other / one).log()).sum()
    torch.testing.assert_close(loss, (entropies + 5.0 * both / 2) / 2)


def test_without_dropout_it_is_the_loss_of_one_reading() -> None:
    task, model, batch = Task(), make_model(dropout=0.0), make_pairs()
    torch.testing.assert_close(consistent_loss(task, 5.0, model, batch), task.loss(model, batch))


def test_rows_that_only_fill_a_batch_do_not_count() -> None:
    torch.manual_seed(0)
    readings = torch.randn(2, 5, WORDS)
    labels = torch.tensor([3, 1, 4, IGNORED, IGNORED])

    class Reading(Task):
        def predictions(self, model: object, batch: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            rows = next(given)
            return rows, labels[: len(rows)], rows

    given = iter([*readings, *readings[:, :3]])
    whole, part = (consistent_loss(Reading(), 5.0, None, None) for _ in range(2))  # type: ignore[arg-type]
    torch.testing.assert_close(whole, part)
    assert (divergence(*readings) > 0).all() and divergence(readings[0], readings[0]).abs().max() == 0


def test_the_setting_makes_it_the_loss_that_is_learned() -> None:
    model, batch = make_model(), make_pairs()
    settings = TrainingConfig(r_drop=5.0, compile="off")
    learner: Learner = Learner(model, Task(), settings, CPU, d_model=8)
    torch.manual_seed(1)
    expected = consistent_loss(learner.task, 5.0, model, batch)
    torch.manual_seed(1)
    torch.testing.assert_close(learner.sum_loss(batch), expected)


@pytest.mark.parametrize(
    ("recipe", "settings", "why"),
    [
        ("multi30k-deen-lstm", ["task.own_words=0.5"], "set own_words = 0, or r_drop = 0"),
        ("bert-small", [], r"set task\.nsp = false, or r_drop = 0"),
        ("ptb-lstm", [], r"training\.r_drop is for classification, masked words and translation"),
    ],
)
def test_what_cannot_learn_with_it_is_refused_before_anything_is_written(
    recipe: str, settings: list[str], why: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=why):
        prepare(Recipe.read(recipe, ["training.r_drop=1", *settings]), tmp_path, resume=False)
    assert not list(tmp_path.iterdir())
