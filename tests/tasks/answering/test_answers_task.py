"""Answers as a task: it learns, answers alone as together, resumes, and says what happened to every question."""

import json
from pathlib import Path

import pytest
import torch
from tiny_questions import CONTEXT, train, write_questions

from regard.data.files.questions import question_parts
from regard.errors import ConfigError, RunError
from regard.runs.recipe import Recipe
from regard.runs.run import Run, load
from regard.runs.weights import weights_of
from regard.tasks.answering.task import Answering, AnsweringConfig
from regard.training.prepare import prepare


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("answers")
    train(write_questions(place), place / "run")
    return load(place / "run", "cpu")


@pytest.mark.slow  # a whole training
def test_it_learns_to_answer_and_when_not_to(run: Run) -> None:
    what, metrics = run.measure()[:2]
    found = {metric.name: metric.value for metric in metrics}
    assert what == "test.json"
    assert found["F1"] > 90 and found["F1 of answering nothing"] == 0
    assert "cannot answer:never" in metrics[0].signature
    valid = Path(run.recipe.data.root) / "valid.jsonl"
    what, metrics = run.measure([valid])[:2]
    found = {metric.name: metric.value for metric in metrics}
    assert what == str(valid) and "cannot answer:below log-odds 0" in metrics[0].signature
    assert found["right where there is none"] > 85 and found["F1 where there is an answer"] > 85
    assert 20 < found["F1 of answering nothing"] < 50
    assert found["F1 at the best threshold"] >= found["F1"]


def test_answers_stand_where_they_are_said_to(run: Run) -> None:
    answers = run.answer(["in", "on", "at"], ["on bee in fig", "on bee in fig", "on bee in fig"])
    assert [answer.text for answer in answers] == ["fig", "bee", ""]
    assert [answer.place for answer in answers] == [(10, 13), (3, 6), None]
    assert all(0.5 < answer.probability <= 1 for answer in answers)
    always = run.answer(["at"], ["on bee in fig"], always=True)[0]
    assert always.place is not None and always.text in "on bee in fig"
    assert always.probability < 0.5


def test_alone_as_in_a_batch(run: Run) -> None:
    questions = ["in", "on", "at", "in at on in", "in"]
    contexts = ["in fig", "at sea on hat", "", "on bee " * 20, CONTEXT]
    together = run.answer(questions, contexts)
    for question, context, answer in zip(questions, contexts, together, strict=True):
        alone = run.answer([question], [context])[0]
        assert (alone.text, alone.place, alone.notes) == (answer.text, answer.place, answer.notes)
        assert alone.probability == pytest.approx(answer.probability, abs=1e-5)


def test_a_long_text_is_read_in_windows(run: Run) -> None:
    """Wherever the one place that tells stands, it is found."""
    for i in range(0, 40, 7):
        words = ["on bee"] * 40
        words[i] = "in owl"
        context = " ".join(words)
        answer = run.answer(["in"], [context])[0]
        assert answer.text == "owl" and answer.place == (context.index("owl"), context.index("owl") + 3)
        assert answer.notes == ["read in 9 windows"]


def test_strange_input_gets_an_answer_and_its_story(run: Run) -> None:
    questions = ["", "in", " ", "in", "in </s> \ud800", "in " * 50]
    contexts = ["in fig", "", " \n", "\ud83d\ude00", "in fig", "in fig"]
    answers = run.answer(questions, contexts)
    assert [answer.notes for answer in answers] == [
        ["empty question"],
        ["empty context"],
        ["empty question", "empty context"],
        [],
        [],
        [],
    ]
    assert answers[1].place is None and answers[1].probability == 1
    assert run.answer(["in"], [""], always=True)[0].place is None  # there is nothing to answer with
    assert run.answer([], []) == []


@pytest.mark.slow  # a whole training, twice; tests/pairs resumes every task
def test_a_resumed_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    recipe = write_questions(tmp_path)
    settings = ["training.save_every=5", "training.validate_every=5", "training.schedule=constant"]
    train(recipe, tmp_path / "whole", *settings, "training.steps=10", "model.dropout=0.3")
    train(recipe, tmp_path / "parted", *settings, "training.steps=5", "model.dropout=0.3")
    train(recipe, tmp_path / "parted", "training.steps=10", resume=True)
    first, second = (weights_of(load(tmp_path / name, "cpu").model) for name in ("whole", "parted"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_what_was_decided_is_said(tmp_path: Path) -> None:
    """Every window is learnt from once an epoch, but for those of questions that teach nothing."""
    recipe = write_questions(tmp_path)
    bad = [
        {"question": "in", "context": "in fig", "answers": ["owl"]},
        {"question": "", "context": "in fig", "answers": ["fig"]},
        {"question": "in", "context": "", "answers": []},
        {"question": "in", "context": "on bee " * 20, "answers": []},
    ]
    with (tmp_path / "train.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in bad)
    prepared = prepare(Recipe.read(str(recipe)), tmp_path / "run")
    rows = dict(prepared.task.rows())
    decided = [row for name, row in prepared.task.rows() if name == "decided"]
    assert rows["training data"].startswith("3,004 questions about ")
    assert decided == [
        "answer that does not stand in its context: 1 (first at train.jsonl:3001)",
        "context read in windows of 20 tokens: 1 (first at train.jsonl:3004)",
        "dropped: its answer does not stand in its context: 1 (first at train.jsonl:3001)",
        "dropped: empty question: 1 (first at train.jsonl:3002)",
        "dropped: empty context: 1 (first at train.jsonl:3003)",
        *prepared.task.valid.notes.rows(),
    ]
    batches = [prepared.task.batch(0, i) for i in range(prepared.task.n_batches(0))]
    lines = [line for batch in batches for line in batch.lines]
    assert sorted(set(lines), key=lambda line: int(line.split(":")[1])) == [
        f"train.jsonl:{i}" for i in [*range(1, 3001), 3004]
    ]
    assert sum(batch.n_targets for batch in batches) == 2 * len(lines)
    found = {(row.part, row.what): row.value for row in prepared.task.inspect()}
    assert found["train", "questions, texts"].startswith("3,004, ")
    assert int(found["valid", "question and text also in training"]) > 0
    assert found["test", "questions with an answer"].endswith("(100.0%)")


def test_a_small_batch_has_something_to_learn(tmp_path: Path) -> None:
    prepared = prepare(Recipe.read(str(write_questions(tmp_path))), tmp_path / "run")
    for n_tokens in (1, 10, 1000):
        assert (prepared.task.small_batch(n_tokens).spans[:, 1] > 0).any()


@pytest.mark.sampled("every case is a training of its own")
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("task.stride=14", "some would never be read"),
        ("task.max_question=12", "some would never be read"),
        ("task.stride=0", "stride must be at least 1"),
        ("task.history=-1", "history must not be negative"),
        ("task.metric=bleu", "one of f1, best_f1, exact, loss"),
        ("data.columns=['question']", "leave data.columns empty"),
        ("model.causal=true", ""),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, setting: str, message: str) -> None:
    recipe = write_questions(tmp_path)
    if not message:  # a reader that never looks ahead is a poor choice, but no mistake
        prepare(Recipe.read(str(recipe), [setting]), tmp_path / "run")
        return
    with pytest.raises(ConfigError, match=message):
        prepare(Recipe.read(str(recipe), [setting]), tmp_path / "run")


def test_only_a_run_of_answers_answers(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="find the answers to questions in a text and cannot classify; it can: answer, "):
        run.classify(["in"])


def test_shares_are_held_out_by_context(tmp_path: Path) -> None:
    recipe = Recipe.read(str(write_questions(tmp_path)), ["data.valid=[]", "data.test=[]", "data.valid_share=0.2"])
    parts = question_parts(recipe.data)
    assert parts.valid is not None and parts.test is None
    assert not {q.context for q in parts.train.all} & {q.context for q in parts.valid.all}
    assert set(Answering.texts(recipe.data)) >= {q.context for q in parts.train.all}
    assert AnsweringConfig().metric == "f1"


def test_it_begins_with_a_pre_trained_reader(tmp_path: Path) -> None:
    """What was learnt by finding hidden words: the reader and the tokenizer are taken, the head is new."""
    recipe = write_questions(tmp_path)
    lines = [
        json.loads(line)["context"] for line in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    (tmp_path / "plain.txt").write_text("\n".join(lines[:50]), encoding="utf-8")
    settings = recipe.read_text(encoding="utf-8").split("[data]")[1]
    text = settings.replace("train.jsonl", "plain.txt").replace('"valid.jsonl"', "").replace('"test.json"', "")
    text = text.replace("vocab_size = 40", 'vocab_size = 40\nextra = ["<mask>"]')
    (tmp_path / "masked.toml").write_text(f'[task]\nkind = "masked"\nwindow = 16\n[data]{text}', encoding="utf-8")
    train(tmp_path / "masked.toml", tmp_path / "masked", "training.steps=2")
    prepared = prepare(Recipe.read(str(recipe)), tmp_path / "run", weights_from=tmp_path / "masked")
    pretrained = load(tmp_path / "masked", "cpu")
    assert prepared.tokenizer.to_json() == pretrained.tokenizer.to_json()
    taken = weights_of(prepared.model.reader)
    assert all(torch.equal(tensor, taken[name]) for name, tensor in weights_of(pretrained.model.reader).items())
    assert prepared.about.rows[-1][1].endswith("new: to_ends")
