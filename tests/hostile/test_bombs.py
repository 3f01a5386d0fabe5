"""Small files and short settings that ask for more than any machine has: a clear error, before memory is taken."""

import io
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bounded import BUG, bounded
from calling import Outcome, call
from tiny_runs import Runs

from regard.data.batching.shards import shard
from regard.text.tokenizer import Tokenizer, TokenizerConfig


def ended(place: Path, *arguments: str | Path, stdin: bytes = b"the cat\nthe dog\n") -> Outcome:
    end = bounded(lambda: tuple(vars(call(place, *arguments, "--device", "cpu", stdin=stdin)).values()))
    assert end.how == "returned", str(end)
    outcome = Outcome(*end.value)
    assert BUG not in outcome.err, outcome.err
    return outcome


def with_setting(run: Path, target: Path, name: str, value: int) -> Path:
    shutil.copytree(run, target)
    recipe = (target / "recipe.toml").read_text(encoding="utf-8")
    changed = re.sub(rf"(\[model\][^\[]*?\n{name} = )\d+", rf"\g<1>{value}", recipe)
    assert changed != recipe, name
    (target / "recipe.toml").write_text(changed, encoding="utf-8")
    return target


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("d_model", 12_000, "does not fit the model"),
        ("d_ff", 100_000_000, "does not fit the model"),
        ("d_ff", 2_000_000_000, "does not fit the model"),
        ("d_model", 999_999_999_998, "d_model must be at most"),
        ("n_layers", 1_000_000, "n_layers must be at most 300"),
        ("n_layers", 40, "does not fit the model"),
        ("max_length", 1_000_000_000, "recipe.toml asks for tables of"),
        ("max_length", 999_999_999_999, "max_length must be at most"),
    ],
)
def test_a_run_from_elsewhere_takes_no_more_than_its_weights(
    runs: Runs, tmp_path: Path, setting: str, value: int, said: str
) -> None:
    run = with_setting(runs["translation"], tmp_path / "run", setting, value)
    refused = ended(tmp_path, "translate", run)
    assert refused.code == 1 and said in refused.err, refused.err


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("settings", [["beam=1000000"], ["beam=100000000000"], ["sample=true", "n_best=1000000"]])
def test_a_search_that_does_not_fit_is_refused(runs: Runs, tmp_path: Path, settings: list[str]) -> None:
    changes = [part for setting in settings for part in ("--set", setting)]
    refused = ended(tmp_path, "translate", runs["translation"], *changes)
    assert refused.code == 1 and "a search of" in refused.err and "lower beam" in refused.err, refused.err


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded", cases=3)
@pytest.mark.parametrize(
    ("task", "setting", "said"),
    [
        ("translation", "training.seed=99999999999999999999999", "seed must be a number of at most 18 digits"),
        ("translation", "model.max_length=999999999999", "max_length must be at most"),
        ("translation", "model.max_length=2000000000", "this model needs about"),
        ("translation", "model.n_layers=100000", "n_layers must be at most 300"),
        ("translation", "model.norm_eps=inf", "norm_eps must be a finite number"),
        ("translation", "training.learning_rate=inf", "learning_rate must be a finite number"),
        ("translation", "task.target_start=99999", "target_start must be at most"),
        ("translation", "task.source_start=99999", "source_start must be at most"),
        ("translation", 'data.train=["a\\u0000", "b"]', "no file name holds the character NUL"),
        ("translation", 'data.root="\\u0000"', "no file name holds the character NUL"),
        ("translation", "tokenizer.vocab_size=1000000000000", "vocab_size must be at most"),
        ("translation", "decoding.length_ratio=inf", "length_ratio must be a finite number"),
        ("translation", "decoding.length_penalty=1e300", "length_penalty must be at most 10"),
        ("classification", "data.max_length=100000", "do not fit model.max_length"),
        ("translation", "model.d_ff=" + "9" * 5000, "is not a value"),
        ("translation", "model.d_ff=" + "[" * 100_000, "is not a value"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_nothing_is_left(
    runs: Runs, tmp_path: Path, task: str, setting: str, said: str
) -> None:
    recipe = runs[task].parent / "recipe.toml"
    refused = ended(tmp_path, "train", recipe, "--run", "run", "--set", setting)
    assert refused.code == 1 and said in refused.err, refused.err
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_larger_than_the_text_is_that_of_the_text(tmp_path: Path) -> None:
    lines = ["the cat sat", "on the mat"]

    def learned() -> list[str]:
        sizes = (2**31 - 1, 400)
        configs = [TokenizerConfig(kind=kind, vocab_size=size) for kind in ("bpe", "words") for size in sizes]
        return [Tokenizer.train(lines, config).to_json() for config in configs]

    end = bounded(learned)
    assert end.how == "returned", str(end)
    huge_bpe, bpe, huge_words, words = end.value
    assert huge_bpe == bpe and huge_words == words


def test_a_recipe_of_nothing_but_brackets(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    refused = bounded(lambda: tuple(vars(call(tmp_path, "show", "deep.toml")).values()))
    assert refused.how == "returned", str(refused)
    assert refused.value[0] == 1 and "deep.toml is not valid TOML" in refused.value[2]


def test_a_refused_training_leaves_what_was_there(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    recipe = runs["translation"].parent / "recipe.toml"
    refused = ended(tmp_path, "train", recipe, "--run", "run", "--set", "task.target_start=99999")
    assert refused.code == 1
    assert {path.name: path.read_text() for path in (tmp_path / "run").iterdir()} == {"mine.txt": "mine"}


def test_a_full_disk_under_the_cache_says_why(tmp_path: Path) -> None:
    lines = ["the cat sat on the mat"] * 2000
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=300))

    def write() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        shard(lines, tokenizer, tmp_path / "cache")

    end = bounded(write)
    assert end.how == "raised" and "RunError" in end.value[0], str(end)
    assert "File too large" in end.value[1] and "None" not in end.value[1]


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
# `tokenizer show` of what is not there ends before PyTorch is imported, which `translate` needs three times.
@pytest.mark.parametrize(
    "command", ["recipes", "tokenizer show nowhere", pytest.param("translate nowhere", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_said_or_not_needed(tmp_path: Path, closed: str, command: str) -> None:
    program = f"{sys.executable} -m regard {command} {closed}"
    done = subprocess.run(["sh", "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert BUG not in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert done.returncode == (1 if closed == ">&-" or command != "recipes" else 0), done
    if closed == ">&-":
        assert "standard output is closed" in done.stderr


def test_memory_that_runs_out_is_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard import config

    def exhausted() -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr(config, "shipped_recipes", exhausted)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    ended = call(tmp_path, "recipes")
    assert ended.code == 1 and "not enough memory" in ended.err and BUG not in ended.err
