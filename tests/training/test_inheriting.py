"""A recipe takes the model and the tokenizer from the run that it begins with; what differs is named."""

from pathlib import Path

import pytest
import torch

from regard import config
from regard.errors import ConfigError, RunError
from regard.runs.inheriting import read_recipe
from regard.runs.recipe import Recipe
from regard.tasks.table import TASKS
from tests.shipped import tuning_recipes

STACK = {"architecture": "stack", "d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 64, "max_length": 600}
READS = {**STACK, "causal": False, "position": "learned"}
WRITES = {**STACK, "position": "rotary", "norm": "rms"}
TRANSLATES = {**STACK, "architecture": "transformer"}
CAPTIONS = {"architecture": "image-transformer", "d_model": 32, "n_heads": 2, "n_layers": 2, "d_ff": 64}
PREDICTS = {"architecture": "patchtst", "look_back": 336, "horizon": 96}
SPECIAL = ["<mask>", "<system>", "<user>", "<assistant>", "<to-fr>"]
# A model for each of the shipped recipes that have none.
MODELS = {
    "tune-answers": ("masked", READS),
    "tune-captions-ende": ("translation", TRANSLATES),
    "tune-case": ("masked", READS),
    "tune-chat": ("language", WRITES),
    "tune-denoising": ("denoising", TRANSLATES),
    "tune-images": ("images", {**READS, "architecture": "vit", "channels": 1, "patch": 4}),
    "tune-imdb": ("masked", READS),
    "tune-label-words": ("translation", TRANSLATES),
    "tune-language": ("language", WRITES),
    "tune-masked": ("masked", READS),
    "tune-pairs": ("masked", READS),
    "tune-photographs": ("captions", CAPTIONS),
    "tune-policy": ("chat", WRITES),
    "tune-preference": ("chat", WRITES),
    "tune-prompted": ("language", WRITES),
    "tune-reward": ("chat", WRITES),
    "tune-series": ("forecasting", PREDICTS),
    "tune-sst2": ("masked", READS),
    "tune-subjects": ("translation", TRANSLATES),
    "tune-writer": ("language", WRITES),
}


def a_run(folder: Path, kind: str, model: dict[str, object]) -> Path:
    """A run folder without weights: its recipe is all that is asked for."""
    folder.mkdir()
    tables = {"task": {"kind": kind}, "tokenizer": {"vocab_size": 400, "extra": SPECIAL}, "model": model}
    Recipe.of("run", tables).write(folder / "recipe.toml")
    return folder


def test_every_recipe_without_a_model_has_one_here() -> None:
    assert sorted(MODELS) == sorted(tuning_recipes())


@pytest.mark.sampled("every case is a training of its own", cases=3)
@pytest.mark.parametrize("name", MODELS)
def test_shipped_recipes_take_the_model_of_a_run(name: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", *MODELS[name])
    recipe, theirs = read_recipe(name, run=run), Recipe.of_run(run)
    assert recipe.architecture == theirs.architecture
    assert recipe.tokenizer == theirs.tokenizer or not theirs.task_class.reads_text
    with torch.device("meta"):
        assert sum(weight.numel() for weight in recipe.build_model().parameters()) > 10_000
    assert recipe.data.max_length < recipe.model.max_length
    with pytest.raises(ConfigError, match="takes its model and its tokenizer from a run: give that run, --from RUN"):
        Recipe.read(name)
    recipe.write(tmp_path / "again.toml")  # as the run that it makes has it
    assert read_recipe(str(tmp_path / "again.toml")).model == recipe.model


def test_every_task_that_learns_further_has_such_a_recipe() -> None:
    kinds = {config.load(name)["task"].get("kind", "translation") for name in tuning_recipes()}
    without = {
        "reading": "learns nothing",
        "bidirectional": "ELMo is frozen when it is used",
        "replaced": "its generator is trained along with it, and thrown away",
        "permutation": "no data set of its own: tune-sst2 takes such a run",
        "decisions": "its settings are those of one game",
        "tagging": "no data set of tags is named by a recipe: tune-case restores case by tags",
        "numbers": "its recipe learns from nothing in half a minute",
    }
    assert kinds | set(without) == set(TASKS) and not kinds & set(without)


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text('[task]\nkind = "classification"\n' + text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ("[model]\nd_model = 64\n", "model.d_model = 64 ("),
        ("[model]\nn_heads = 4\n", "model.n_heads = 4 ("),  # weights of the same shapes, another meaning
        ("[model]\nposition = 'rotary'\n", 'model.position = "rotary" ('),
        ("[model]\nmax_length = 700\n", "model.max_length = 700 ("),  # positions are learned
        ("[tokenizer]\nkind = 'words'\n", 'tokenizer.kind = "words" ('),
        ("[tokenizer]\nvocab_size = 300\n", "tokenizer.vocab_size = 300 ("),
        ("[tokenizer]\nextra = ['<mask>']\n", 'tokenizer.extra = ["<mask>"] ('),
    ],
)
def test_what_differs_is_named(settings: str, named: str, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "masked", READS)
    with pytest.raises(ConfigError, match="leave it out") as caught:
        read_recipe(write(tmp_path, settings), run=run)
    assert named in str(caught.value) and str(run) in str(caught.value)


def test_what_is_equal_or_says_how_to_learn_may_be_set(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "masked", READS)
    settings = "[model]\nd_model = 32\ndropout = 0.3\n[tokenizer]\nvocab_size = 8000\ndropout = 0.1\n"
    recipe = read_recipe(write(tmp_path, settings), run=run)
    assert recipe.model.dropout == 0.3 and recipe.model.d_model == 32 and recipe.model.n_layers == 2
    assert recipe.tokenizer.dropout == 0.1 and recipe.tokenizer.vocab_size == 400


def test_a_longer_text_where_no_table_ends(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "language", WRITES)
    path = tmp_path / "mine.toml"
    path.write_text('[task]\nkind = "language"\n[model]\nmax_length = 900\n', encoding="utf-8")
    assert read_recipe(str(path), run=run).model.max_length == 900


def test_a_model_for_another_task_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", "translation", TRANSLATES)
    with pytest.raises(ConfigError, match="the architecture 'transformer' cannot do the task 'classification'"):
        read_recipe("tune-sst2", run=run)
    with pytest.raises(RunError, match="is not a run folder"):
        read_recipe("tune-sst2", run=tmp_path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("bert-small", "sst2-bert"),
        ("bert-small", "imdb-bert"),
        ("bert-small", "sms-bert"),
        ("bert-small", "boolq-bert"),
        ("bert-small", "quac-bert"),
        ("bert-small", "wikitext2-case-bert"),
        ("electra-small", "sst2-bert"),
        ("bart-small", "sst2-bart"),
        ("bart-small", "aeslc-bart"),
        ("t5-small-own", "sst2-t5"),
        ("xlnet-small", "sst2-xlnet"),
        ("elmo", "sst2-elmo"),
        ("imdb-bytes-masked", "imdb-bytes"),
        ("chat-tiny", "chat-preference"),
        ("chat-tiny", "chat-reward"),
        ("chat-tiny", "chat-policy"),
    ],
)
def test_shipped_recipes_with_a_model_set_nothing_that_differs(first: str, second: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    Recipe.read(first).write(tmp_path / "run" / "recipe.toml")
    assert read_recipe(second, run=tmp_path / "run").model.d_model == Recipe.read(first).model.d_model


@pytest.mark.parametrize("name", ["tune-captions-ende", "tune-denoising", "tune-label-words"])
def test_the_tokens_around_texts_are_the_runs(name: str, tmp_path: Path) -> None:
    """An imported Marian writes after a token of its own; trained after another one, it begins with nonsense."""
    task = {"kind": "translation", "source_start": 3, "target_start": 399}
    tables = {"task": task, "tokenizer": {"vocab_size": 400, "extra": SPECIAL}, "model": TRANSLATES}
    (tmp_path / "run").mkdir()
    Recipe.of("run", tables).write(tmp_path / "run" / "recipe.toml")
    read = read_recipe(name, run=tmp_path / "run").tables()["task"]
    assert (read["source_start"], read["target_start"]) == (3, 399)
    with pytest.raises(ConfigError, match=r"task\.target_start = 5 \(.*run has 399\)"):
        read_recipe(name, ["task.target_start=5"], tmp_path / "run")
