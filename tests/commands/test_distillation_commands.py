"""A teacher and its students, trained as a user trains them."""

import re
from pathlib import Path

import pytest
import torch
from calling import call
from torch.nn import functional as F

from regard.nn.loss import cosine_loss, soft_loss
from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.runs.weights import weights_of
from regard.training.distill import distilled_loss
from regard.training.prepare import Prepared, prepare

MODEL = """
[tokenizer]
kind = "spaces"
vocab_size = 40
extra = ["<mask>"]

[model]
architecture = "stack"
causal = false
scale_embedding = false
d_model = 16
n_heads = 2
n_layers = 4
d_ff = 16
dropout = 0.0
max_length = 32

[training]
steps = 6
warmup = 1
validate_every = 3
save_every = 3
"""
MASKED = """
[task]
kind = "masked"
window = 24
nsp = {nsp}

[data]
train = ["train.txt"]
valid = ["train.txt"]
batch_tokens = 100
max_length = 24
"""
LABELS = """
[task]
kind = "classification"
framed = true
pooling = "first"

[data]
train = ["labels.tsv"]
valid = ["labels.tsv"]
columns = ["text", "label"]
batch_tokens = 100
max_length = 24
"""
STUDENT = ("--set", "model.n_layers=2", "--set")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distilled")
    (folder / "data").mkdir()
    lines = [f"the {animal} sees a {thing} ." for animal in ("cat", "dog", "owl") for thing in ("tree", "fish", "cup")]
    (folder / "data" / "train.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows = ["text\tlabel", *(f"{line}\t{'ab'['cat' in line]}" for line in lines)]
    (folder / "data" / "labels.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    (folder / "masked.toml").write_text(MASKED.format(nsp="false") + MODEL, encoding="utf-8")
    (folder / "nsp.toml").write_text(MASKED.format(nsp="true") + MODEL, encoding="utf-8")
    (folder / "labels.toml").write_text(LABELS + MODEL, encoding="utf-8")
    for name in ("masked", "labels"):
        made = call(folder, "train", f"{name}.toml", "--run", f"{name}-teacher")
        assert made.code == 0, made.err
    return folder


def prepared(place: Path, name: str, run: Path, *overrides: str) -> Prepared:
    settings = ["model.n_layers=2", f"distillation.teacher={name}-teacher", *overrides]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return prepare(Recipe.read(f"{name}.toml", settings), run)


@pytest.mark.parametrize("name", ["masked", "labels"])
def test_the_loss_is_the_papers(place: Path, name: str, tmp_path: Path) -> None:
    found = prepared(place, name, tmp_path / "run", "distillation.soft=3.0", "distillation.cosine=0.5")
    task, teacher, model = found.task, found.teacher, found.model.eval()
    batch = task.batch(0, 0)
    with torch.no_grad():
        loss = distilled_loss(task, teacher, found.recipe.distillation, model, batch)
        (logits, labels, rows), (theirs, _, their_rows) = (task.predictions(m, batch) for m in (model, teacher))
        expected = 2.0 * F.cross_entropy(logits, batch.labels, reduction="sum") + 3.0 * soft_loss(logits, theirs, 2.0)
        expected = expected + 0.5 * batch.n_targets * cosine_loss(rows, their_rows)
        hard = task.plain_loss(model, batch)
    assert torch.equal(labels, batch.labels)
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert float(hard) == pytest.approx(float(F.cross_entropy(logits, batch.labels, reduction="sum")), rel=1e-5)


def test_a_student_begins_with_every_second_layer(place: Path, tmp_path: Path) -> None:
    found = prepared(place, "masked", tmp_path / "run")
    own, theirs = weights_of(found.model), weights_of(found.teacher)
    for name, weight in own.items():
        source = re.sub(r"blocks\.1\.", "blocks.2.", name)
        assert torch.equal(weight, theirs[source]), name
    (row,) = [value for what, value in found.about.rows if what.startswith("teacher")]
    assert row.endswith("layers 0, 2 of 4")
    assert not any(parameter.requires_grad for parameter in found.teacher.parameters())


def test_a_student_is_a_run_of_its_own_that_can_be_resumed(place: Path) -> None:
    arguments = (*STUDENT, "distillation.teacher=masked-teacher")
    whole = call(place, "train", "masked.toml", "--run", "student", *arguments)
    assert whole.code == 0, whole.err
    assert "teacher masked-teacher" in whole.out + whole.err
    half = call(place, "train", "masked.toml", "--run", "parted", *arguments, "--set", "training.steps=3")
    assert half.code == 0, half.err
    rest = call(place, "train", "parted", "--run", "parted", "--resume", "--set", "training.steps=6")
    assert rest.code == 0, rest.err
    first, second = (weights_of(load(place / name, "cpu").model) for name in ("student", "parted"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    before = weights_of(load(place / "masked-teacher", "cpu").model)
    assert any(not torch.equal(first[name], before[name]) for name in first)
    assert call(place, "fill", "student", "the [MASK] sees").code == 0


@pytest.mark.parametrize(
    ("recipe", "settings", "said"),
    [
        ("masked", ("distillation.teacher=nowhere",), "no tokenizer at nowhere; name a run folder"),
        (
            "labels",
            ("distillation.teacher=masked-teacher",),
            "the teacher masked-teacher was trained for another task than the student",
        ),
        ("nsp", ("distillation.teacher=masked-teacher",), "set nsp = false"),
        ("labels", ("distillation.teacher=labels-teacher", "task.smoothing=0.1"), "smoothing = 0"),
        ("masked", ("distillation.teacher=masked-teacher", "model.d_model=8"), "distillation.cosine = 0"),
        ("masked", ("distillation.teacher=masked-teacher", "model.max_length=64"), "the teacher reads 32 tokens"),
    ],
)
def test_teachers_that_cannot_teach(place: Path, recipe: str, settings: tuple[str, ...], said: str) -> None:
    overrides = [part for setting in settings for part in ("--set", setting)]
    refused = call(place, "train", f"{recipe}.toml", "--run", "refused", *overrides)
    assert refused.code == 1 and said in refused.err
