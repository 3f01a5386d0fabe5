"""The notebook of docs/: its cells run in order, what they show can be shown, and it is kept without outputs."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "docs" / "first-steps.ipynb"


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, object]) -> object:
    """What a notebook does with a cell: the value of its last line, if that is an expression, is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names) if last is not None else None


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
    assert len(code_cells()) > 5 and all(ast.parse(source) for source in code_cells())


@pytest.mark.slow  # a training of a minute
def test_the_cells_of_the_notebook_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    shown = [run_cell(source, names) for source in code_cells()]
    run, history, capture = (names["run"], names["run"].history, names["capture"])  # type: ignore[attr-defined]
    assert repr(run) in map(repr, shown) and "translate" in repr(run)
    assert history._repr_html_().startswith("<img src=") and "<table>" in history._repr_html_()
    assert capture._repr_html_().startswith("<iframe srcdoc=")  # type: ignore[attr-defined]
    assert (tmp_path / "first-steps" / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert shown[-1] > 0.9  # type: ignore[operator]
