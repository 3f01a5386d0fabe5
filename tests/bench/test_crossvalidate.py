from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench import crossvalidate

RECIPE = """
[task]
kind = "classification"

[data]
root = "{root}"
train = ["train.tsv"]
columns = ["1", "2"]
batch_tokens = 100

[tokenizer]
kind = "words"
vocab_size = 90

[model]
architecture = "bag"
n_features = 200

[training]
steps = 12
schedule = "constant"
learning_rate = 0.1
warmup = 0
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    rows = [(f"number {i} is {('odd', 'even')[i % 2]} \\ \" 'it'", "ab"[i % 2]) for i in range(60)]
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    path = tmp_path / "parity.toml"
    path.write_text(RECIPE.format(root=tmp_path), encoding="utf-8")
    return path


def called(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(crossvalidate.main)
    result = CliRunner().invoke(app, [*arguments, "--device", "cpu"])
    return result.exit_code, result.output


def test_every_text_is_validated_once(recipe: Path) -> None:
    code, output = called(str(recipe), "--folds", "3")
    assert code == 0, output
    *folds, last = output.splitlines()
    trained, validated = ([int(line.split()[place]) for line in folds] for place in (2, 6))
    assert sum(validated) == 60 and all(a + b == 60 for a, b in zip(trained, validated, strict=True))
    assert all(line.endswith(" 100.00 %") for line in folds)
    assert last == "mean 100.00 %, standard deviation 0.00"


def test_settings_reach_the_folds(recipe: Path) -> None:
    """With a rate of almost nothing the labels are not learned."""
    code, output = called(str(recipe), "--folds", "3", "--first", "1", "--set", "training.learning_rate=1e-12")
    assert code == 0 and len(output.splitlines()) == 2
    assert "100.00 %" not in output


@pytest.mark.parametrize(
    ("recipe_name", "said"), [("demo", "cross-validation is of classification"), ("nothing", "no recipe 'nothing'")]
)
def test_mistakes(recipe_name: str, said: str) -> None:
    code, output = called(recipe_name)
    assert code == 2 and said in " ".join(output.replace("│", " ").split())
