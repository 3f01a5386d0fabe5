"""An import that ends in an error leaves no run: neither one that differs, nor one that could not be compared."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from regard.__main__ import app
from regard.errors import RegardError
from regard.interop.certifying import certificate, in_ctranslate2, in_transformers
from tests.interop.small_runs import save_translator
from tests.interop.test_importing import make_folder

BAD: dict[str, Any] = {  # settings that only transformers checks, each refused by it in another way
    "attn_pdrop": 7.0,
    "embd_pdrop": "x",
    "initializer_range": "x",
    "summary_type": [],
    "use_cache": "x",
    "pad_token_id": 10**7,
    "bos_token_id": "x",
    "reorder_and_upcast_attn": "x",
    "id2label": [],
    "dtype": "float33",
    "return_dict": "x",
    "output_attentions": "x",
    "problem_type": "x",
}


def imports(folder: Path, run: Path) -> Any:
    return CliRunner().invoke(app, ["import", str(folder), "--run", str(run), "--strings", "10"])


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder("gpt2", tmp_path_factory.mktemp("hf"))


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
@pytest.mark.parametrize("name", BAD)  # half a second each
def test_settings_that_only_transformers_checks(name: str, gpt2: Path, tmp_path: Path) -> None:
    """Either they change nothing and the certificate holds, or transformers' complaint is the error."""
    settings = json.loads((gpt2 / "config.json").read_text())
    (gpt2 / "config.json").write_text(json.dumps(settings | {name: BAD[name]}))
    result = imports(gpt2, tmp_path / "run")
    (gpt2 / "config.json").write_text(json.dumps(settings))
    if result.exit_code == 0:
        assert json.loads((tmp_path / "run" / "certificate.json").read_text())["holds"]
        return
    assert isinstance(result.exception, RegardError), result.exception
    assert not (tmp_path / "run").exists()


@pytest.mark.slow  # an export of its own
def test_a_run_that_differs_is_not_left(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (certificate, in_transformers):
        monkeypatch.setattr(module, "LIMIT", -1.0)
    result = imports(gpt2, tmp_path / "run")
    assert isinstance(result.exception, RegardError) and "no run was written" in str(result.exception)
    assert "FAILS  largest difference" in result.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.slow  # an export of its own
def test_what_was_in_the_folder_stays(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "LIMIT", -1.0)
    monkeypatch.setattr(in_transformers, "LIMIT", -1.0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    assert imports(gpt2, tmp_path / "run").exit_code == 1
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_ctrl_c_while_comparing_leaves_nothing(gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(in_transformers, "certify", interrupted)
    assert imports(gpt2, tmp_path / "run").exit_code != 0
    assert not (tmp_path / "run").exists()


def test_what_ctranslate2_cannot_load_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    save_translator(tmp_path / "ours")
    CliRunner().invoke(app, ["export", str(tmp_path / "ours"), str(tmp_path / "out"), "--to", "ctranslate2"])

    class Broken:
        def __init__(self, *args: Any, **more: Any):
            raise RuntimeError("unsupported model")

    monkeypatch.setattr(in_ctranslate2.need("ctranslate2"), "Translator", Broken)
    result = imports(tmp_path / "out", tmp_path / "run")
    assert isinstance(result.exception, RegardError) and "unsupported model" in str(result.exception)
    assert not (tmp_path / "run").exists()
