"""Runs as ONNX graphs: onnxruntime gives the same rows at every shape, and translators write the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.commands.exchange import export
from regard.errors import RegardError
from regard.interop.formats.to_onnx import write_graphs
from regard.models.stack import StackConfig
from regard.tasks.classification.task import ClassificationConfig
from regard.tasks.pretraining.task import MaskedConfig
from tests.interop.small_runs import save, save_translator, save_writer

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

BERT = {"causal": False, "pre_norm": False, "n_segments": 2, "embedding_norm": True, "scale_embedding": False}
LLAMA = {"position": "rotary", "norm": "rms", "bias": "none", "feed_forward": "swiglu", "n_key_heads": 1}
PRODUCTS = ("cosine", "location", "general", "dot")
T5 = {"position": "buckets", "norm": "rms", "bias": "none", "pre_norm": True, "score": "dot", "d_head": 6}


def certified(folder: Path, tmp_path: Path) -> list[dict[str, Any]]:
    export(folder, tmp_path / "out", to="onnx")
    certificate = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert certificate["holds"]
    findings: list[dict[str, Any]] = certificate["findings"]
    assert [finding["of"] for finding in findings[:5]] == ["1 × 1", "1 × 7", "5 × 1", "3 × 12", "2 × 33"]
    return findings


@pytest.mark.slow  # seven seconds, most of them in PyTorch's exporter
def test_gpt_at_five_shapes(tmp_path: Path) -> None:
    *_, greedy, strings, read, answers = certified(save_writer(tmp_path / "run", n_layers=1).folder, tmp_path)
    assert greedy["what"] == "share of identical greedy outputs" and strings["of"] == "10,000 strings"
    assert read["what"] == "share of identical texts as they are read"
    assert answers["what"] == "share of identical answers, from text to text"


@pytest.mark.slow
@pytest.mark.parametrize("settings", [LLAMA, {"position": "alibi"}], ids=["llama", "alibi"])
def test_other_writers(settings: dict[str, Any], tmp_path: Path) -> None:
    certified(save_writer(tmp_path / "run", **settings).folder, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, T5, *({"score": name} for name in PRODUCTS)], ids=["the paper's", "T5", *PRODUCTS]
)
def test_translators_write_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    findings = certified(save_translator(tmp_path / "run", **settings).folder, tmp_path)
    assert findings[5]["what"] == "share of identical greedy outputs" and findings[5]["value"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("masked", MaskedConfig(window=16)),
        ("classification", ClassificationConfig(labels=("no", "yes"), pooling="mean")),
    ],
)
def test_readers_of_both_sides(kind: str, task: Any, tmp_path: Path) -> None:
    certified(save(tmp_path / "run", kind, "stack", task, StackConfig, BERT).folder, tmp_path)


def test_what_cannot_be_a_graph_is_refused(tmp_path: Path) -> None:
    run = save_writer(tmp_path / "run")
    object.__setattr__(run.recipe, "architecture", "recurrent")
    with pytest.raises(RegardError, match="is a recurrent; ONNX graphs are made of stack"):
        write_graphs(run, tmp_path / "out")
    with pytest.raises(RegardError, match="scores that are products; this run has 'additive'"):
        write_graphs(save_translator(tmp_path / "other", score="additive"), tmp_path / "out")
