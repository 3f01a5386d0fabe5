"""What the README and the first pages tell a reader to write works as it stands."""

import re
import shutil
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


@pytest.mark.parametrize(
    "page",  # four seconds each, and nearly the same commands
    ["README.md", pytest.param("docs/own-data.md", marks=pytest.mark.slow)],
)
def test_the_three_commands_work(
    page: str, lab: Path, regard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the lab's data, in little time."""
    monkeypatch.setattr("regard.training.proposal.SECONDS", 0.01)
    shutil.copytree(lab / "data", tmp_path / "data/mine")
    text = (ROOT / page).read_text(encoding="utf-8")
    new, train, use = re.findall(
        r"^regard (new [^\n]*)\nregard (train [^\n]*)\nregard (translate [^\n]*)\n```", text, re.M
    )[0]
    made = regard(*new.replace("--minutes 30", "--minutes 0.05").split(), "--device", "cpu")
    assert made.code == 0, made.err
    trained = regard(*train.split(), "--set", "training.steps=2", "--set", "task.validation_lines=2", "--device", "cpu")
    assert trained.code == 0, trained.err
    command, source, _ = use.partition(" <")
    assert source
    assert regard(*command.split(), "--device", "cpu", stdin=b"The dog.\n").out.count("\n") == 1
