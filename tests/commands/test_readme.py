"""What the README tells a reader to write works as it stands."""

import re
from pathlib import Path

from calling import Call

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"^( *)```{language}\n(.*?)^ *```", README, re.DOTALL | re.MULTILINE)
    assert found
    return "".join(line.removeprefix(found[1]) for line in found[2].splitlines(keepends=True))


def test_the_python_runs(lab: Path) -> None:
    code = block("python").replace("runs/mine", str(lab / "one"))
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    weights = names["seen"].of("cross", layer=1).weights  # type: ignore[attr-defined]
    assert weights.shape[:2] == (1, 2) and weights.ndim == 4


def test_the_recipe_trains(lab: Path, regard: Call, tmp_path: Path) -> None:
    """On the lab's data, made small by --set; every name in it is a setting."""
    (tmp_path / "mine.toml").write_text(block("toml"), encoding="utf-8")
    assert regard("show", "mine.toml").code == 0
    small = {
        "data.root": lab / "data",
        "data.test": '["held-out.en", "held-out.fr"]',
        "tokenizer.vocab_size": 400,
        "model.d_model": 32,
        "training.steps": 2,
        "task.validation_lines": 2,
    }
    given = [part for name, value in small.items() for part in ("--set", f"{name}={value}")]
    trained = regard("train", "mine.toml", "--run", "runs/mine", *given, "--device", "cpu")
    assert trained.code == 0, trained.err
    assert regard("translate", "runs/mine", "--device", "cpu", stdin=b"The dog.\n").out.count("\n") == 1
