"""Training files with more lines than `data.in_memory`: each task sees the same examples, each once an epoch."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from regard.data.batching import computed_order, parts, shards
from regard.data.batching.batch import Batch
from regard.data.batching.large_passages import LargePassages
from regard.data.batching.streams import LargeStream
from regard.errors import ConfigError
from regard.runs.inheriting import read_recipe
from regard.runs.recipe import Recipe
from regard.tasks.classification.batches import LargeDocuments
from regard.tasks.task import AnyTask
from regard.text import Tokenizer

N = 300
WORDS = ["we", "cross", "the", "street", ".", "don't", "they", "sleep", "?", "a", "turtle", "reads"]


def sentence(i: int, n: int) -> str:
    return " ".join(WORDS[(i * 7 + j * j) % len(WORDS)] for j in range(n))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    lengths = [1 + i * i % 23 for i in range(N)]
    source = [sentence(i, n) for i, n in enumerate(lengths)]
    target = [sentence(i + 5, 1 + n // 2) for i, n in enumerate(lengths)]
    source[3], target[8], source[11], target[11], source[20] = "  ", "", "", " ", "street " * 60
    labels = ["yes" if i % 3 else "no" for i in range(N)]
    (folder / "a.en").write_text("".join(f"{line}\n" for line in source))
    (folder / "a.fr").write_text("".join(f"{line}\n" for line in target))
    rows = [f"{label}\t{line}\n" for label, line in zip(labels, source, strict=True)]
    (folder / "a.tsv").write_text("label\ttext\n" + "".join(rows))
    return folder


PAIRS = ['data.train=["a.en", "a.fr"]', "data.max_length=50", "model.max_length=60"]
LABELED = ['data.train=["a.tsv"]', 'data.columns=["text", "label"]', "task.labels=[]", "task.names=[]"]
TEXT = ['data.train=["a.en"]', "data.columns=[]", "task.window=20"]
CASES = {
    "pairs": ("demo", PAIRS),
    "pairs, grouped": ("demo", [*PAIRS, 'data.order="grouped"']),
    "pairs, cut": ("demo", [*PAIRS, 'task.long="cut"', "data.max_length=15"]),
    "labels": ("sst2-lstm", [*LABELED, "data.max_length=20"]),
    "bag of words": ("sst2-bag", LABELED),
    "stream": ("timemachine", [*TEXT, 'task.unit="stream"', "task.carry=false"]),
    "text": ("timemachine", [*TEXT, 'task.unit="text"', "task.carry=false"]),
    "carried": ("timemachine", [*TEXT, 'task.unit="stream"', "task.carry=true"]),
    "lines": ("timemachine", [*TEXT, 'task.unit="lines"', "task.carry=false"]),
    "masked": ("bert-small", [*TEXT, "task.nsp=false"]),
    "masked, with what follows": ("bert-small", [*TEXT, "task.nsp=true"]),
    "masked, blocks": ("bert-small", [*TEXT, 'task.documents="blocks"', "task.nsp=true"]),
}
ALWAYS = ["data.valid=[]", "data.test=[]", "data.valid_share=0", "data.test_share=0", "data.batch_tokens=200"]


def recipe_of(case: str, files: Path, in_memory: int, *more: str) -> Recipe:
    name, changes = CASES[case]
    sizes = ["tokenizer.vocab_size=400", "data.processes=1", f"data.in_memory={in_memory}", f'data.root="{files}"']
    return read_recipe(name, [*ALWAYS, *changes, *sizes, *more], None)


def task_of(recipe: Recipe, cache: Path) -> AnyTask:
    tokenizer = Tokenizer.train(recipe.task_class.texts(recipe.data), recipe.tokenizer)
    return recipe.task_class.make(recipe.task, recipe.setup(tokenizer, cache))


def seen(batches: list[Batch]) -> Counter[str]:
    return Counter(line for batch in batches for line in batch.lines)


@pytest.fixture(autouse=True)
def small_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_order, "POOL", 32)
    monkeypatch.setattr(computed_order, "SAMPLE", 40)
    monkeypatch.setattr(shards, "PART", 70)
    monkeypatch.setattr(parts, "PART", 70)


@pytest.mark.parametrize("case", CASES)
def test_an_epoch_from_disk_has_what_one_in_memory_has(case: str, files: Path, tmp_path: Path) -> None:
    large, small = (task_of(recipe_of(case, files, n), tmp_path / "cache") for n in (50, 10**6))
    by_size = [[task.batch(1, i) for i in range(task.n_batches(1))] for task in (large, small)]
    ours, theirs = by_size
    assert seen(ours) == seen(theirs) and len(seen(ours)) > 2
    assert sum(batch.n_tokens for batch in ours) == pytest.approx(sum(batch.n_tokens for batch in theirs), rel=0.05)
    assert dict(large.train.notes.counts) == dict(small.train.notes.counts)
    assert dict(large.train.notes.first) == dict(small.train.notes.first)
    assert large.small_batch(100).n_targets > 0
    assert large.config == small.config and large.settled_rows() == small.settled_rows()
    assert sorted(large.train.lengths) == sorted(small.train.lengths)


@pytest.mark.parametrize("case", ["pairs", "labels", "stream", "masked"])
def test_batches_depend_on_their_place_alone(case: str, files: Path, tmp_path: Path) -> None:
    """So a run that is resumed there goes on with the same ones."""
    recipe = recipe_of(case, files, 50)
    first, again = (task_of(recipe, tmp_path / "cache") for _ in range(2))
    n = first.n_batches(2)
    rows = [first.batch(2, i) for i in range(n)]
    for i in (n - 1, 0, n // 2):
        batch = again.batch(2, i)
        assert batch.lines == rows[i].lines and batch.n_tokens == rows[i].n_tokens
    assert [first.batch(3, 0).lines] != [rows[0].lines]


@pytest.mark.parametrize("case", ["pairs", "labels", "text", "masked"])
def test_the_doctor_looks_at_some_of_them_and_says_so(case: str, files: Path, tmp_path: Path) -> None:
    rows = task_of(recipe_of(case, files, 50), tmp_path / "cache").inspect()
    assert any(f"{N:,}; the rows below are of 40 of them" in row.value for row in rows)


def test_bpe_dropout_is_refused(files: Path, tmp_path: Path) -> None:
    settings = ['tokenizer.kind="bpe"', "tokenizer.dropout=0.1"]
    with pytest.raises(ConfigError, match=r"cut into tokens once: set tokenizer.dropout = 0, or raise data.in_memory"):
        task_of(recipe_of("pairs", files, 50, *settings), tmp_path)


def test_a_share_can_still_be_held_out(files: Path, tmp_path: Path) -> None:
    task = task_of(recipe_of("pairs", files, 50, "data.valid_share=0.2"), tmp_path)
    lines = seen([task.batch(0, i) for i in range(task.n_batches(0))])
    assert task.valid is not None and not lines.keys() & set(task.valid.lines(np.arange(len(task.valid))))


def test_tokens_are_found_again_by_the_files(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of("pairs", files, 50)
    first = task_of(recipe, tmp_path / "cache")
    monkeypatch.setattr(shards, "write_parts", lambda *_: pytest.fail("tokenized again"))
    assert task_of(recipe, tmp_path / "cache").batch(0, 0).lines == first.batch(0, 0).lines


@pytest.mark.parametrize("case", ["labels", "masked", "stream"])
def test_a_table_that_stays_on_disk_is_learned_from_there(case: str, files: Path, tmp_path: Path) -> None:
    """With its header it has one line more than texts."""
    table = ['data.train=["a.tsv"]', 'data.columns=["text"]'] if case != "labels" else []
    task = task_of(recipe_of(case, files, N, *table), tmp_path)
    source = task.train.corpus if case == "masked" else task.train
    assert isinstance(source, LargeDocuments | LargePassages | LargeStream)
    assert len(seen([task.batch(0, i) for i in range(task.n_batches(0))])) > 200
