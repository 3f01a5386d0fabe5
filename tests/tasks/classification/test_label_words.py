"""Classification by writing the label's word: learnt, evaluated and asked like any classifier."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_reviews import reviews, train_reviews, write_reviews

from regard.decoding.forced import score
from regard.errors import ConfigError, RegardError
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.tasks.classification.label_words import LabelWords, LabelWordsConfig, word_nats
from regard.tasks.framing import Frame
from regard.tasks.translation.batches import make_batch
from regard.training.prepare import prepare

SMALL = [
    "task.kind=label-words", "task.labels=['bad','good']", "task.names=['so bad','so very good']",
    "task.prefix='the film was'", "model.architecture=transformer", "model.d_model=16", "model.n_heads=2",
    "model.n_layers=1", "model.d_ff=32", "model.max_length=64", "model.dropout=0.0", "training.steps=120",
]  # fmt: skip


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_reviews(tmp_path_factory.mktemp("reviews"), "stack")
    text = path.read_text(encoding="utf-8")
    begin, end = text.index("[model]"), text.index("[training]")
    path.write_text(text[:begin] + text[end:], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(recipe: Path) -> Run:
    train_reviews(recipe, recipe.parent / "run", *SMALL)
    return load(recipe.parent / "run", "cpu")


@pytest.mark.slow  # a whole training
def test_it_learns_and_is_asked_like_a_classifier(run: Run) -> None:
    texts = reviews(30, seed=2)
    names = {"bad": "so bad", "good": "so very good"}
    answers = run.classify([text for text, _ in texts])
    right = np.mean([answer.label == names[label] for answer, (_, label) in zip(answers, texts, strict=True)])
    assert right > 0.9
    assert all(sum(answer.probabilities.values()) == pytest.approx(1) for answer in answers)
    what, (accuracy, _) = run.measure()[:2]
    assert what == "test.tsv" and accuracy.value == pytest.approx(100 * right)


def test_votes_are_the_probabilities_of_the_words(run: Run) -> None:
    """Beside forced decoding, which writes the words token by token."""
    texts = ["it was dull", "superb", ""]
    ids = [run.tokenizer.encode(text) for text in texts]
    tokens = torch.tensor([n for text in ids for n in text])
    with torch.no_grad():
        votes = run.task.votes(run.model, tokens, Ragged([len(text) for text in ids]))
    prefix = run.tokenizer.encode("the film was")
    for column, name in enumerate(run.recipe.task.names):
        prompts = [[*prefix, *text, run.tokenizer.end_id] for text in ids]
        written = [run.tokenizer.encode(name)] * 3
        expected = [
            sum(row) for row in score(run.model, prompts, written, run.tokenizer.start_id, run.tokenizer.end_id)
        ]
        assert torch.allclose(votes[:, column], torch.tensor(expected), atol=1e-4)


def test_a_batch_reads_the_prefix_and_writes_the_word(recipe: Path, tmp_path: Path) -> None:
    task = prepare(Recipe.read(str(recipe), SMALL), tmp_path / "run").task
    assert isinstance(task, LabelWords)
    batch = task.batch(0, 0)
    sources = batch.source.split(batch.source_layout.lengths.tolist())
    assert all(task.tokenizer.decode(source.tolist()).startswith("the film was") for source in sources)
    written = {
        task.tokenizer.decode(part.tolist()) for part in batch.labels.split(batch.target_layout.lengths.tolist())
    }
    assert written == {"so bad", "so very good"}


def test_texts_that_do_not_fit_are_an_error(run: Run) -> None:
    with pytest.raises(RegardError, match="reads 64"):
        run.task.votes(run.model, torch.zeros(62, dtype=torch.long), Ragged([62]))


def test_a_batch_that_was_filled_up_is_no_longer_than_its_texts(run: Run) -> None:
    """What is rounded up for the kernels is not what the model reads."""
    frame = Frame(run.tokenizer.start_id, run.tokenizer.end_id)
    batch = make_batch([np.array([5] * 50)], [np.array([6])], [""], frame)
    model = copy.deepcopy(run.model)
    model.config = replace(model.config, max_length=60)
    assert batch.filled().source_layout.longest == 64
    torch.testing.assert_close(word_nats(model, batch.filled(), 0.0), word_nats(model, batch, 0.0))


def test_words_must_differ() -> None:
    with pytest.raises(ConfigError, match="all different"):
        LabelWordsConfig(labels=("a", "b"), names=("x", "x"))
