"""The worked task of CONTRIBUTING.md: put in place as a reader would, trained, loaded, asked and evaluated."""

import importlib
import random
import re
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import regard.tasks
from regard.commands.verbs import command_of
from regard.errors import DataError
from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.tasks.table import TASKS
from regard.tasks.verbs import VERBS
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n# regard/tasks/(rating/\w+\.py)\n(.*?)```", re.DOTALL)
LONGEST = 60  # lines of the task besides imports and empty ones: "about 60" in the text

RECIPE = """
[task]
kind = "rating"

[data]
root = "{root}"
train = ["train.tsv"]
valid = ["valid.tsv"]
test = ["test.tsv"]
columns = ["text", "stars"]
max_length = 20
batch_tokens = 200

[tokenizer]
kind = "words"
vocab_size = 40

[model]
architecture = "stack"
causal = false
d_model = 16
n_heads = 2
n_layers = 1
d_ff = 32
max_length = 32
dropout = 0.0

[training]
steps = 150
schedule = "constant"
learning_rate = 0.01
warmup = 1
validate_every = 50
save_every = 150
"""
WORTH = {"bad": 1, "dull": 2, "fine": 3, "good": 4, "great": 5}


def write_reviews(path: Path, n: int, seed: int) -> None:
    """Each has one word that says how many stars, among others that do not."""
    draw = random.Random(seed)
    rows = ["text\tstars"]
    for _ in range(n):
        words = draw.choices(["the", "film", "was", "a", "story", "we", "saw"], k=draw.randint(2, 6))
        word = draw.choice(list(WORTH))
        words.insert(draw.randint(0, len(words)), word)
        rows.append(f"{' '.join(words)}\t{WORTH[word]}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture
def worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder and the two lines; gone after the test."""
    packages = tmp_path / "tasks"
    for name, code in BLOCK.findall(PAGE):
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")
    for module in ("", ".verbs", ".task"):
        monkeypatch.delitem(sys.modules, f"regard.tasks.rating{module}", raising=False)
    monkeypatch.setattr(regard.tasks, "__path__", [*regard.tasks.__path__, str(packages)])
    monkeypatch.setitem(TASKS, "rating", importlib.import_module("regard.tasks.rating.task").Rating)
    monkeypatch.setitem(VERBS, "rate", importlib.import_module("regard.tasks.rating.verbs").Rate)
    for seed, (part, n) in enumerate((("train", 300), ("valid", 40), ("test", 60))):
        write_reviews(tmp_path / f"{part}.tsv", n, seed)
    recipe = tmp_path / "ratings.toml"
    recipe.write_text(RECIPE.format(root=tmp_path), encoding="utf-8")
    return recipe


def test_the_worked_task_is_about_as_long_as_it_says():
    files = dict(BLOCK.findall(PAGE))
    assert set(files) == {"rating/verbs.py", "rating/task.py"}
    lines = [line for line in files["rating/task.py"].splitlines() if line and not re.match("from |import ", line)]
    assert len(lines) <= LONGEST


def test_the_worked_task_learns_and_answers(worked, capsys):
    run = worked.parent / "run"
    prepared = prepare(Recipe.read(str(worked)), run)
    start(prepared, run, torch.device("cpu"), False, Screen(Console(quiet=True)))
    loaded = load(run, "cpu")

    metrics = {metric.name: metric.value for metric in loaded.measure().metrics}
    assert set(metrics) == {"loss", "absolute_error"}
    assert metrics["loss"] < 0.5  # always to answer 3 gives 2

    texts = ["the film was great", "we saw a dull story", ""]
    great, dull, empty = (answer.rating for answer in loaded.rate(texts))
    assert great > 4 > 3 > dull
    assert isinstance(empty, float)
    assert loaded.rate([]) == []
    alone = [loaded.rate([text])[0].rating for text in texts]
    assert alone == pytest.approx([great, dull, empty], abs=1e-5)

    assert loaded.verbs == ["rate", "embed", "neighbors", "search"]
    assert loaded.embed(texts).shape == (3, 16)
    assert loaded.look("the film was great").maps
    assert loaded.task.usage(run) == (f"regard rate {run} < lines.txt", f"regard evaluate {run}")

    (worked.parent / "lines.txt").write_text("\n".join(texts[:2]) + "\n", encoding="utf-8")
    capsys.readouterr()
    command_of(VERBS["rate"])(run=run, file=worked.parent / "lines.txt", as_json=False, device="cpu")
    assert capsys.readouterr().out == f"{great:.2f}\n{dull:.2f}\n"


def test_the_doctor_inspects_the_worked_task(worked):
    task = prepare(Recipe.read(str(worked)), worked.parent / "run").task
    assert [(row.part, row.value) for row in task.inspect()] == [
        ("train", "300 texts, rated 1 to 5"),
        ("valid", "40 texts, rated 1 to 5"),
        ("test", "60 texts, rated 1 to 5"),
    ]


def test_a_rating_must_be_a_number(worked):
    (worked.parent / "train.tsv").write_text("text\tstars\na film\t5\na story\tfive\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"train.tsv:3 has the rating 'five', which is not a number"):
        prepare(Recipe.read(str(worked)), worked.parent / "run")
