"""Pre-trained by noise or in any order, then fine-tuned: the weights and the tokenizer go along."""

from pathlib import Path

import pytest
import torch
from rich.console import Console
from tiny_reviews import CPU, reviews, write_table

from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.run import load
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start
from tests.drawn import some_fast

TRANSFORMER = """
architecture = "transformer"
position = "buckets"
score = "dot"
norm = "rms"
pre_norm = true
bias = "none"
scale_embedding = false
"""
XLNET = """
architecture = "xlnet"
"""
RECIPE = """
[task]
{task}

[data]
root = "{root}"
{data}
max_length = 40
batch_tokens = 200

[tokenizer]
kind = "characters"
vocab_size = 80
extra = ["<mask>", "<extra_0>", "<extra_1>", "<extra_2>", "<extra_3>"]

[model]{model}d_model = 16
n_heads = 2
n_layers = 1
d_ff = 32
max_length = 64

[training]
steps = 3
schedule = "constant"
learning_rate = 0.001
warmup = 1
validate_every = 3
save_every = 3
"""
TEXT = 'train = ["train.txt"]\nvalid_share = 0.1'
LABELLED = 'train = ["train.tsv"]\nvalid = ["test.tsv"]\ntest = ["test.tsv"]\ncolumns = ["text", "label"]'
SPANS = 'kind = "denoising"\nwindow = 30\nobjective = "spans"\nnoises = []\nshare = 0.15'
CASES = {
    "bart": ('kind = "denoising"\nwindow = 30', 'kind = "label-words"', TRANSFORMER),
    "t5": (SPANS, 'kind = "label-words"\nprefix = "is it "', TRANSFORMER),
    "xlnet": ('kind = "permutation"\nwindow = 30', 'kind = "classification"', XLNET),
}


def train(name: str, folder: Path, task: str, data: str, model: str, weights_from: Path | None = None) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(RECIPE.format(task=task, root=folder, data=data, model=model), encoding="utf-8")
    prepared = prepare(Recipe.read(str(path)), folder / name, weights_from=weights_from)
    start(prepared, folder / name, CPU, False, Screen(Console(quiet=True)))
    return folder / name


@pytest.mark.parametrize("case", some_fast(CASES, every=len(CASES)))  # two trainings each
def test_fine_tuning_begins_where_pretraining_ended(case: str, tmp_path: Path) -> None:
    before, after, model = CASES[case]
    texts = reviews(60, seed=0)
    (tmp_path / "train.txt").write_text("".join(f"{text}.\n" for text, _ in texts), encoding="utf-8")
    write_table(tmp_path / "train.tsv", texts)
    write_table(tmp_path / "test.tsv", reviews(10, seed=1))
    first = train("first", tmp_path, before, TEXT, model)
    second = train("second", tmp_path, after, LABELLED, model, weights_from=first)
    old, new = load(first, "cpu"), load(second, "cpu")
    assert old.tokenizer.to_json() == new.tokenizer.to_json()
    difference = (old.model.embedding.weight - new.model.embedding.weight).abs().max()
    assert 0 < difference < 0.02  # three steps of 0.001 from there, not a new beginning
    answers = new.classify([text for text, _ in texts[:5]])
    assert {answer.label for answer in answers} <= {"bad", "good"}
    assert old.embed(["the film"]).shape == (1, 16)
    if case != "xlnet":
        assert {seen.kind for seen in new.look("the film").maps} == {"encoder", "decoder", "cross"}
        assert {seen.kind for seen in old.look("the film", "film").maps} == {"encoder", "decoder", "cross"}
        with pytest.raises(RegardError, match="say what it is to write"):
            old.look("the film")
    assert torch.isfinite(torch.tensor([metric.value for run in (old, new) for metric in run.measure().metrics])).all()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bart-small", "sst2-bart"),
        ("bart-small", "aeslc-bart"),
        ("t5-small-own", "sst2-t5"),
        ("xlnet-small", "sst2-xlnet"),
    ],
)
def test_shipped_recipes_fit_the_runs_that_they_begin_with(first: str, second: str) -> None:
    def shapes(name: str) -> dict[str, torch.Size]:
        with torch.device("meta"):
            model = Recipe.read(name).build_model()
        reader = getattr(model, "reader", model)
        return {name: tensor.shape for name, tensor in reader.state_dict().items()}

    assert shapes(first) == shapes(second)
