"""`regard new`: the recipe that it writes reads, and trains, whatever the files are."""

import json
import random
import tomllib
from pathlib import Path

import numpy as np
import pytest
from calling import Call, call

from regard.runs.recipe import Recipe
from regard.tasks.table import TASKS
from regard.training import proposal
from regard.training.estimate import Estimate

WORDS = ["apple", "bird", "black", "dog", "eats", "green", "house", "in", "man", "on", "red", "sees", "the", "under"]
DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal, "SECONDS", 0.01)


def sentences(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(n)]


def lines(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def parallel_text(place: Path) -> list[Path]:
    texts = sentences(300)
    return [lines(place / "corpus.en", texts), lines(place / "corpus.fr", [text.upper() for text in texts])]


def labeled_table(place: Path) -> list[Path]:
    rows = [f"{text}\t{'animal' if 'dog' in text else 'none'}" for text in sentences(200)]
    return [lines(place / "reviews.tsv", ["text\tlabel", *rows])]


def plain_text(place: Path) -> list[Path]:
    return [lines(place / "story.txt", [f"{text}." for text in sentences(150)])]


def tagged_words(place: Path) -> list[Path]:
    rows = []
    for text in sentences(80):
        rows += [f"{word} {'N' if word in ('dog', 'bird') else 'O'}" for word in text.split()] + [""]
    return [lines(place / "words.txt", rows)]


def conversations(place: Path) -> list[Path]:
    records = [{"prompt": text, "answer": text.split()[-1]} for text in sentences(60)]
    return [lines(place / "talk.jsonl", [json.dumps(record) for record in records])]


def questions(place: Path) -> list[Path]:
    records = []
    for text in sentences(60):
        word = text.split()[-1]
        answer = {"text": word, "answer_start": text.rindex(word)}
        records.append({"context": text, "question": "What comes last?", "answers": [answer]})
    return [lines(place / "questions.jsonl", [json.dumps(record) for record in records])]


def series(place: Path) -> list[Path]:
    days = np.datetime64("2024-01-01") + np.arange(330)
    rows = [f"{day},{np.sin(i / 7):.3f},{i % 7}" for i, day in enumerate(days)]
    return [lines(place / "sales.csv", ["date,sold,weekday", *rows])]


def episodes(place: Path) -> list[Path]:
    draw = random.Random(0)
    records = []
    for _ in range(40):
        actions = [draw.randint(0, 1) for _ in range(8)]
        states = [[draw.random(), float(action)] for action in actions]
        records.append({"states": states, "actions": actions, "rewards": [float(action) for action in actions]})
    return [lines(place / "play.jsonl", [json.dumps(record) for record in records])]


def labeled_images(place: Path) -> list[Path]:
    from PIL import Image

    draw = np.random.default_rng(0)
    for label, level in (("dark", 40), ("light", 200)):
        (place / "photos" / label).mkdir(parents=True)
        for i in range(20):
            pixels = draw.integers(level - 40, level + 40, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(place / "photos" / label / f"{i}.png")
    return [place / "photos"]


MADE = {
    "translation": parallel_text,
    "classification": labeled_table,
    "language": plain_text,
    "tagging": tagged_words,
    "chat": conversations,
    "answers": questions,
    "forecasting": series,
    "decisions": episodes,
    "images": labeled_images,
}


@pytest.mark.sampled("every case is a run of the command of its own")
@pytest.mark.parametrize("kind", MADE)  # a proposal and a training each
def test_what_it_writes_can_be_trained(kind: str, regard: Call, tmp_path: Path) -> None:
    files = MADE[kind](tmp_path)
    made = regard("new", *files, "--minutes", "0.05", "--output", "mine.toml", "--device", "cpu")
    assert made.code == 0, made.err
    assert f"the task is {kind}" in made.out and "next: regard train mine.toml" in made.out
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    assert tables["task"]["kind"] == kind and "# Expected: about " in text
    assert tables["data"]["valid_share"] == tables["data"]["test_share"] == 0.1
    steps = ["--set", "training.steps=2", "--set", "training.validate_every=2", "--set", "training.warmup=1"]
    trained = regard("train", "mine.toml", *steps, "--device", "cpu")
    assert trained.code == 0, trained.err
    assert (tmp_path / "runs/mine/model.safetensors").is_file()


def test_every_task_that_knows_its_files_can_size_a_recipe() -> None:
    from regard.tasks.sizing import no_draft
    from regard.tasks.task import Task

    assert [
        name for name, task in TASKS.items() if (task.recognize is Task.recognize) != (task.draft is no_draft)
    ] == []


def test_more_minutes_make_more_steps_and_a_larger_model(
    regard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a computer on which a step takes a second, however large it is."""
    monkeypatch.setattr(proposal, "time_step", lambda *_: 1.0)
    monkeypatch.setattr(proposal, "measure", lambda *_: Estimate(0.0, 0, 1.0, "imagined"))
    files, made = [lines(tmp_path / "story.txt", sentences(3000))], {}
    for minutes in (1, 10):
        assert regard("new", *files, "--minutes", minutes, "--output", f"{minutes}.toml", "--device", "cpu").code == 0
        made[minutes] = tomllib.loads((tmp_path / f"{minutes}.toml").read_text())
    assert 30 < made[1]["training"]["steps"] < 60 < made[10]["training"]["steps"] < 600
    assert made[1]["model"]["d_hidden"] < made[10]["model"]["d_hidden"]


def test_nothing_is_overwritten_unless_told(regard: Call, tmp_path: Path) -> None:
    files = plain_text(tmp_path)
    (tmp_path / "story.toml").write_text("mine")
    refused = regard("new", *files)
    assert refused.code == 1 and "story.toml exists, and nothing was changed" in refused.err
    assert (tmp_path / "story.toml").read_text() == "mine"
    assert regard("new", *files, "--minutes", "0.02", "--overwrite", "--device", "cpu").code == 0
    assert Recipe.read(str(tmp_path / "story.toml")).name == "story"


@pytest.mark.slow  # two trainings
def test_a_run_of_another_task_is_taken_further(lab: Path, regard: Call, tmp_path: Path) -> None:
    files = [*(lab / "data" / f"train.{language}" for language in ("en", "fr"))]
    made = regard("new", *files, "--from", lab / "one", "--minutes", "0.05", "--output", "more.toml", "--device", "cpu")
    assert made.code == 0, made.err
    tables = tomllib.loads((tmp_path / "more.toml").read_text(encoding="utf-8"))
    assert tables["model"]["d_model"] == 32 and tables["training"]["learning_rate"] <= 2e-4
    begin = ["--from", lab / "one", "--set", "training.steps=1", "--set", "training.warmup=1"]
    assert regard("train", "more.toml", *begin, "--device", "cpu").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.txt",), "no file nothing.txt; check its name"),
        (("noise.bin",), "noise.bin: no task recognizes these files"),
        (("story.txt", "--task", "images"), "not recognized as data for the task 'images'; they look like data for: "),
        (("story.txt", "--task", "imges"), "unknown task 'imges'; choose one of: answers, "),
        (("story.txt", "--minutes", "0"), "--minutes must be above 0"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str, regard: Call, tmp_path: Path) -> None:
    plain_text(tmp_path)
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    refused = regard("new", *arguments)
    assert refused.code == 1 and message in refused.err
    assert not list(tmp_path.glob("*.toml"))


SAME_MINUTES = {  # files, the shipped recipe, the figure, and from what on it is worse
    "sst2": (["sst2/train.tsv.xz", "sst2/dev.tsv.xz"], "sst2-bag", "accuracy", lambda theirs: theirs - 5.0),
    "sms": (["sms-spam/SMSSpamCollection.tsv.xz"], "sms-bag", "accuracy", lambda theirs: theirs - 5.0),
    "timemachine": (["timemachine/timemachine.txt.xz"], "timemachine", "bits_per_byte", lambda theirs: -1.1 * theirs),
}


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no shared data")
@pytest.mark.parametrize("name", SAME_MINUTES)
def test_it_comes_close_to_the_shipped_recipe(name: str, tmp_path: Path) -> None:
    files, shipped, figure, least = SAME_MINUTES[name]
    assert call(tmp_path, "new", *(DATA / file for file in files), "--minutes", "3", "--output", "mine.toml").code == 0
    values = []
    for recipe, more in (("mine.toml", []), (shipped, ["--set", f"data.root={DATA}"])):
        assert call(tmp_path, "train", recipe, *more).code == 0
        record = json.loads(call(tmp_path, "evaluate", f"runs/{Path(recipe).stem}", "--json").out)
        metrics = {metric["name"]: metric for metric in record.get("metrics", [])} or record
        values.append(metrics[figure]["value"])
    bound = least(values[1])
    assert values[0] >= bound if bound > 0 else -values[0] >= bound  # of bits, fewer are better
