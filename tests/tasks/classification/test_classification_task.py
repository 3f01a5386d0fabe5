from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_reviews import MODELS, reviews, train_reviews, write_reviews, write_table

from regard.data.config import DataConfig
from regard.data.files.labelled import labelled_parts, read_labelled
from regard.data.files.splits import normalized
from regard.decoding.config import DecodingConfig
from regard.errors import ConfigError, DataError
from regard.nn.layout import Ragged
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.runs.weights import weights_of
from regard.tasks.classification.batches import Documents
from regard.tasks.classification.task import Classification, ClassificationConfig
from regard.tasks.setup import Setup
from regard.text.tokenizer import Tokenizer, TokenizerConfig
from regard.training.prepare import prepare
from tests.drawn import some_fast


@pytest.fixture(scope="module", params=some_fast(MODELS, every=2))  # a training each
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp(request.param)
    train_reviews(write_reviews(place, request.param), place / "run")
    return load(place / "run", "cpu")


def test_every_kind_of_model_learns_what_can_be_told_apart(run: Run) -> None:
    what, (accuracy, macro_f1) = run.measure()[:2]
    assert what == "test.tsv"
    assert accuracy.value == macro_f1.value == 100
    assert [answer.label for answer in run.classify(["superb", "the plot was dull"])] == ["good", "bad"]


def test_measuring_says_what_became_of_lines(run: Run, tmp_path: Path) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("text\tlabel\nsuperb\tgood\n\ndull\tbad\n")
    (remark,) = run.measure([test]).remarks
    assert remark.endswith(": 1 (first at test.tsv:3)")


def test_a_run_knows_the_labels_that_its_data_had(run: Run) -> None:
    assert run.recipe.task.labels == ("bad", "good")
    assert set(run.classify(["so"])[0].probabilities) == {"bad", "good"}


def test_alone_as_in_a_batch(run: Run) -> None:
    """Whatever stands beside a text, an empty one too, its probabilities are the same."""
    texts = [*(text for text, _ in reviews(20, seed=9)), "", "fine", " ", "a " * 50]
    together = run.classify(texts)
    for text, answer in zip(texts, together, strict=True):
        (alone,) = run.classify([text])
        assert alone.label == answer.label and alone.notes == answer.notes
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)
        assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert run.classify([]) == []


def test_what_happened_to_a_text_is_noted(run: Run) -> None:
    answers = run.classify(["", "fine", "a" + " a" * 49])
    assert [answer.notes for answer in answers] == [["empty"], [], ["cut to the first 40 of 50 tokens"]]
    assert answers[1].probability == max(answers[1].probabilities.values())


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize("architecture", ["bag", "recurrent"])
def test_a_resumed_run_is_the_same_to_the_bit(architecture: str, tmp_path: Path) -> None:
    recipe = write_reviews(tmp_path, architecture)
    settings = ["training.save_every=10", "training.validate_every=10"]
    train_reviews(recipe, tmp_path / "whole", *settings, "training.steps=20")
    train_reviews(recipe, tmp_path / "parted", *settings, "training.steps=10")
    train_reviews(recipe, tmp_path / "parted", "training.steps=20", resume=True)
    first, second = (weights_of(load(tmp_path / name, "cpu").model) for name in ("whole", "parted"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_counts_of_a_bag_go_through_the_files(tmp_path: Path) -> None:
    recipe = write_reviews(tmp_path, "bag")
    train_reviews(recipe, tmp_path / "run", "model.features=nb")
    prepared = prepare(Recipe.read(str(recipe), ["model.features=nb"]), tmp_path / "fresh")
    loaded = load(tmp_path / "run", "cpu").model
    for name in ("word", "keys", "scale"):
        assert torch.equal(getattr(loaded, name), getattr(prepared.model, name))
    assert not torch.equal(loaded.weight, prepared.model.weight)


# Parts of the data.


def test_shares_are_held_out_by_what_a_text_says(tmp_path: Path) -> None:
    rows = [(f"text {i % 70}", "ab"[i % 70 % 2]) for i in range(140)]  # every text twice
    write_table(
        tmp_path / "all.tsv", [(text.upper() if i > 69 else text, label) for i, (text, label) in enumerate(rows)]
    )
    data = DataConfig(
        root=str(tmp_path), train=("all.tsv",), columns=("text", "label"), valid_share=0.2, test_share=0.3
    )
    parts = labelled_parts(data)
    assert parts.valid is not None and parts.test is not None
    sides = [{normalized(text) for text in part.texts} for part in (parts.train, parts.valid, parts.test)]
    assert sum(map(len, sides)) == len(set().union(*sides)) == 70
    assert len(parts.train) + len(parts.valid) + len(parts.test) == 140
    test = labelled_parts(data).test
    assert test is not None and test.texts == parts.test.texts  # the same each time
    for i in (0, len(test) - 1):  # the header is line 1
        assert test.examples.where(i) == f"all.tsv:{2 + [text for text, _ in read_rows(tmp_path)].index(test.texts[i])}"


def read_rows(place: Path) -> list[list[str]]:
    return [line.split("\t") for line in (place / "all.tsv").read_text(encoding="utf-8").splitlines()[1:]]


def test_examples_taken_from_several_files_keep_their_places(tmp_path: Path) -> None:
    for name, rows in (("a", 3), ("b", 4)):
        write_table(tmp_path / f"{name}.tsv", [(f"{name}{i}", "x") for i in range(rows)])
    whole = read_labelled(("a.tsv", "b.tsv"), ("text", "label"), tmp_path)
    taken = whole.take(np.array([1, 4, 6]))
    assert taken.texts == ["a1", "b1", "b3"]
    assert [taken.examples.where(i) for i in range(3)] == ["a.tsv:3", "b.tsv:3", "b.tsv:5"]
    assert whole.take(np.array([5])).examples.where(0) == "b.tsv:4"


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    write_table(tmp_path / "train.tsv", [("a b c d", "x"), ("", "x"), ("a", "y"), ("b c", "y")])
    data = DataConfig(root=str(tmp_path), train=("train.tsv",), columns=("text", "label"), max_length=2)
    tokenizer = Tokenizer.train(Classification.texts(data), TokenizerConfig(kind="spaces", vocab_size=20))
    return Setup(
        data=data, tokenizer=tokenizer, dropout=0.0, cache=tmp_path / "cache", seed=0, decoding=DecodingConfig()
    )


@pytest.mark.parametrize(("keep", "kept"), [("first", "a b"), ("last", "c d")])
def test_long_texts_are_cut_and_empty_ones_only_answered(setup: Setup, keep: str, kept: str) -> None:
    labeled = labelled_parts(setup.data).train
    framing = ClassificationConfig(keep=keep).framing(setup.tokenizer, setup.data)
    learnt = Documents(labeled, ("x", "y"), framing, setup, to_learn=True)
    answered = Documents(labeled, ("x", "y"), framing, setup, to_learn=False)
    assert (len(learnt), len(answered)) == (3, 4)
    assert learnt.notes.counts == {"dropped: empty line": 1, f"cut to the {keep} 2 tokens": 1}
    assert learnt.notes.first == {"dropped: empty line": "train.tsv:3", f"cut to the {keep} 2 tokens": "train.tsv:2"}
    assert answered.notes.counts == {f"cut to the {keep} 2 tokens": 1}
    batch = learnt.batch(np.array([2, 0]))
    assert setup.tokenizer.decode(batch.tokens.tolist()) == f"b c {kept}"
    assert batch.lines == ["train.tsv:5", "train.tsv:2"]
    assert batch.labels.tolist() == [1, 0] and batch.layout.lengths.tolist() == [2, 2]
    assert (batch.n_targets, batch.n_tokens) == (2, 4)


def test_every_text_is_learnt_once_an_epoch(setup: Setup) -> None:
    task = Classification.make(ClassificationConfig(), setup)
    for epoch in (0, 1):
        batches = [task.batch(epoch, i) for i in range(task.n_batches(epoch))]
        assert sorted(line for batch in batches for line in batch.lines) == [
            "train.tsv:2",
            "train.tsv:4",
            "train.tsv:5",
        ]


def test_probabilities_come_back_in_the_order_of_the_texts(setup: Setup) -> None:
    class Lengths:
        """log P is told by the length alone."""

        device = torch.device("cpu")

        def __call__(self, tokens: torch.Tensor, layout: Ragged) -> torch.Tensor:
            return torch.stack([layout.lengths.float(), torch.zeros(layout.n_sequences)], 1)

    lengths = np.array([5, 0, 3, 9, 1, 3])
    task = Classification(ClassificationConfig(), replace(setup, data=replace(setup.data, batch_tokens=4)))
    rows = task.read_documents(Lengths(), [np.zeros(n, np.int64) for n in lengths])
    assert rows[:, 0] - rows[:, 1] == pytest.approx(lengths)
    assert np.exp(rows).sum(1) == pytest.approx(1)


def test_the_loss_is_the_sum_over_the_texts(setup: Setup) -> None:
    task = Classification.make(ClassificationConfig(smoothing=0.2), setup)

    class Even(torch.nn.Module):
        def forward(self, tokens: torch.Tensor, layout: Ragged) -> torch.Tensor:
            return torch.tensor([[1.0, 0.0]]).expand(layout.n_sequences, 2)

    batch = task.train.batch(np.arange(3))  # x, y, y
    log_p = torch.tensor([1.0, 0.0]).log_softmax(0)
    plain = -(log_p[0] + 2 * log_p[1])
    assert task.plain_loss(Even(), batch) == pytest.approx(float(plain))
    smoothed = 0.8 * plain + 0.2 * -3 * log_p.mean()
    assert task.loss(Even(), batch) == pytest.approx(float(smoothed))


# Mistakes.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"labels": ("b", "a")}, "labels must be at least two, sorted, each once"),
        ({"labels": ("a",)}, "labels must be at least two"),
        ({"labels": ("a", "b"), "names": ("x",)}, "names must have one for each label"),
        ({"names": ("x", "y")}, "names must have one for each label"),
        ({"pooling": "median"}, "summary (pooling)"),
        ({"keep": "middle"}, "end to keep"),
        ({"metric": "bleu"}, "metric must be one of accuracy, loss"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"smoothing": -0.1}, "smoothing must be at least 0 and below 1"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        ClassificationConfig(**settings)  # type: ignore[arg-type]
    assert said in str(error.value)


def test_a_label_that_only_a_held_out_part_has(setup: Setup, tmp_path: Path) -> None:
    write_table(tmp_path / "train.tsv", [(f"text {i}", "xyz"[i % 3 if i == 2 else i % 2]) for i in range(30)])
    labeled = labelled_parts(setup.data).train
    with pytest.raises(DataError, match=r"train.tsv:4 has the label 'z', which training does not have; it has: x, y"):
        Documents(labeled, ("x", "y"), "first", setup, to_learn=False)
