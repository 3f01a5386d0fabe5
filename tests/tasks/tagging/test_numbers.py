"""Aligned real-valued outputs: a number for each word, which only the word after it tells."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_sentences import MODELS, TAGGING, sentences, train

from regard.errors import ConfigError, DataError
from regard.evaluation.classification import unigram_numbers
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.tasks.tagging.numbers import NumbersConfig
from regard.tasks.tagging.verbs import Tag
from regard.training.prepare import prepare


def numbers_of(words: list[str]) -> list[float]:
    """100, and 10 for each letter of the next word."""
    return [100.0 + 10 * len(after) for after in [*words[1:], ""]]


def write_recipe(root: Path) -> Path:
    for seed, (name, n) in enumerate((("train", 200), ("valid", 30), ("test", 40))):
        blocks = [zip(words, numbers_of(words), strict=True) for words in sentences(n, seed)]
        rows = ["".join(f"{word}\t{number}\n" for word, number in block) for block in blocks]
        (root / f"{name}.txt").write_text("\n".join(rows), encoding="utf-8")
    settings = {"architecture": "recurrent", "model": "\n".join(MODELS["recurrent"]), "tokenizer": "spaces"}
    (root / "recipe.toml").write_text(TAGGING.format(root=root, kind="numbers", task="", **settings), encoding="utf-8")
    return root / "recipe.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("numbers")
    train(write_recipe(place), place / "run")
    return load(place / "run", "cpu")


@pytest.mark.slow  # a whole training
def test_numbers_are_learned_in_their_own_unit(run: Run) -> None:
    figures = {metric.name: metric.value for metric in run.measure()[1]}
    assert figures["r2"] > 95 and figures["rmse"] < 3
    lines = [" ".join(words) for words in sentences(20, seed=7)]
    answers = run.tag(lines)
    errors = [
        float(tag) - true
        for line, answer in zip(lines, answers, strict=True)
        for tag, true in zip(answer.tags, numbers_of(line.split()), strict=True)
    ]
    assert np.sqrt(np.mean(np.square(errors))) < 3
    assert answers[0].text.split()[0] == f"{answers[0].words[0]}/{answers[0].tags[0]}"
    alone, nothing = run.tag([lines[3]])[0], run.tag([""])[0]
    assert alone.numbers == pytest.approx(answers[3].numbers) and nothing.notes == ["empty"] and not nothing.numbers
    assert figures["r2"] > figures["unigram baseline: r2"] + 50 and figures["rmse"] < figures["unigram baseline: rmse"]


@pytest.mark.parametrize(
    ("mean", "deviation", "written"),
    [(0.0, 1.0, "0.12"), (200_000.0, 20.0, "200002.5"), (5e6, 4e5, "5050000"), (1.0, 8e-6, "1.00000100")],
)
def test_numbers_keep_the_digits_that_differ(run: Run, mean: float, deviation: float, written: str) -> None:
    task = replace(run.task.config, mean=mean, deviation=deviation)
    numbers = type(run.task)(task, run.task.setup)
    numbers.predict = lambda model, pieces: np.full(len(pieces.words), 0.125) * deviation + mean  # type: ignore
    [answer] = numbers.answers(run.model, ["bee"])
    assert answer.tags == [written] and answer.text == f"bee/{written}"
    assert answer.numbers == [0.125 * deviation + mean]


def test_every_line_has_its_numbers(run: Run) -> None:
    lines = ["an bee", ""]
    records = [Tag(lines).record(i, lines[i], answer) for i, answer in enumerate(run.tag(lines))]
    assert [len(record["numbers"]) for record in records] == [2, 0]  # type: ignore[arg-type]


def test_the_baseline_is_the_mean_number_of_each_word() -> None:
    numbers = unigram_numbers(["a", "b", "a"], np.array([1.0, 5.0, 2.0]), ["b", "a", "c"])
    assert numbers.tolist() == [5.0, 1.5, 8 / 3]


@pytest.mark.slow  # a whole training
def test_the_loss_is_the_squared_error_in_deviations(run: Run, tmp_path: Path) -> None:
    prepared = prepare(Recipe.read(str(write_recipe(tmp_path))), tmp_path / "run")
    settings, batch = prepared.task.config, prepared.task.small_batch(100)
    true = [number for words in sentences(200, 0) for number in numbers_of(words)]
    assert (settings.mean, settings.deviation) == pytest.approx((np.mean(true), np.std(true)), rel=1e-5)
    with torch.no_grad():
        outputs = run.model(batch.tokens, batch.layout)[batch.last, 0]
        expected = (((outputs * settings.deviation + settings.mean) - batch.tags) / settings.deviation).square().sum()
        assert float(prepared.task.loss(run.model, batch)) == pytest.approx(float(expected), rel=1e-3)


@pytest.mark.parametrize("wrong", ["NOUN", "nan", "inf", "1,5"])
def test_what_is_no_number_is_named(wrong: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    (tmp_path / "train.txt").write_text(f"an\t1\n\nbee\t2\ncan\t{wrong}\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"the sentence at train.txt:3 has '{wrong}' where a number belongs"):
        prepare(Recipe.read(str(recipe)), tmp_path / "run")
    with pytest.raises(ConfigError, match="metric must be loss, got 'f1'"):
        NumbersConfig(metric="f1")


def test_numbers_far_from_zero_keep_their_differences(tmp_path: Path) -> None:
    """As times in seconds since 1970 are: float32 knows only every 128th number there."""
    path = write_recipe(tmp_path)
    for file in tmp_path.glob("*.txt"):
        lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
        far = [f"{line[0]}\t{1_700_000_000 + float(line[1])}" if len(line) == 2 else "" for line in lines]
        file.write_text("\n".join(far), encoding="utf-8")
    task = prepare(Recipe.read(str(path)), tmp_path / "run").task
    true = np.array([number for words in sentences(200, 0) for number in numbers_of(words)])
    assert task.config.deviation == pytest.approx(true.std(), rel=1e-6)
    batch = task.small_batch(100)
    scaled = (batch.tags.numpy() - task.config.mean) / task.config.deviation
    assert set(np.round(scaled, 4)) <= set(np.round((true - true.mean()) / true.std(), 4))
