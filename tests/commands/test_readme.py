"""What the README and the first pages tell a reader to write works as it stands."""

import re
from pathlib import Path

import pytest
from calling import Call

ROOT = Path(__file__).parents[2]


def block(page: str, language: str) -> str:
    fenced = re.search(
        rf"^( *)```{language}\n(.*?)^ *```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert fenced
    return "".join(line.removeprefix(fenced[1]) for line in fenced[2].splitlines(keepends=True))


def execute(page: str, run: Path) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(block(page, "python").replace("runs/mine", str(run)), page, "exec"), names)
    return names


def test_the_python_runs(lab: Path) -> None:
    assert execute("README.md", lab / "one")["run"]
    weights = execute("docs/run.md", lab / "one")["seen"].of("cross", layer=1).weights  # type: ignore[attr-defined]
    assert weights.shape[:2] == (1, 2) and weights.ndim == 4


@pytest.mark.parametrize("page", ["README.md", "docs/own-data.md"])
def test_the_recipe_trains(page: str, lab: Path, regard: Call, tmp_path: Path) -> None:
    """On the lab's data, made small by --set; every name in it is a setting."""
    (tmp_path / "mine.toml").write_text(block(page, "toml"), encoding="utf-8")
    assert regard("show", "mine.toml").code == 0
    small = {
        "data.root": lab / "data",
        "data.test": '["held-out.en", "held-out.fr"]',
        "tokenizer.vocab_size": 400,
        "data.batch_tokens": 600,
        "model.d_model": 32,
        "model.n_layers": 1,
        "training.steps": 2,
        "task.validation_lines": 2,
    }
    changed = [part for name, value in small.items() for part in ("--set", f"{name}={value}")]
    trained = regard("train", "mine.toml", "--run", "runs/mine", *changed, "--device", "cpu")
    assert trained.code == 0, trained.err
    assert regard("translate", "runs/mine", "--device", "cpu", stdin=b"The dog.\n").out.count("\n") == 1
