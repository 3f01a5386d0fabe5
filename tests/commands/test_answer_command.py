"""regard answer, as a user calls it: a question, questions a line, lines of JSON."""

import json
from pathlib import Path

import pytest
from calling import Outcome, call

import regard as library

RECIPE = """
[task]
kind = "answers"
stride = 4
max_question = 4
max_answer = 3

[data]
train = ["train.jsonl"]
max_length = 16
batch_tokens = 200

[tokenizer]
kind = "spaces"
vocab_size = 40

[model]
architecture = "recurrent"
bidirectional = true
d_model = 8
d_hidden = 8
n_layers = 1

[training]
steps = 4
warmup = 1
"""
TEXT = "Ann met Bob and Bob met Ann"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answer")
    (folder / "data").mkdir()
    record = {"question": "Who met Bob", "context": TEXT, "answers": ["Ann"]}
    (folder / "data" / "train.jsonl").write_text((json.dumps(record) + "\n") * 20, encoding="utf-8")
    (folder / "small.toml").write_text(RECIPE, encoding="utf-8")
    (folder / "text.txt").write_text(f"{TEXT}\n", encoding="utf-8")
    trained = call(folder, "train", "small.toml", "--run", "run", "--device", "cpu")
    assert trained.code == 0 and 'next: regard answer run --context TEXT "QUESTION"' in trained.out
    return folder


def answer(place: Path, *arguments: str, stdin: str = "") -> Outcome:
    return call(place, "answer", "run", *arguments, "--device", "cpu", stdin=stdin.encode())


def test_one_question_about_a_text_or_a_file(place: Path) -> None:
    by_text = answer(place, "Who met Bob", "--context", TEXT, "--always")
    mistyped = answer(place, "Who met Bob", "--context", "txet.txt", "--always")
    assert mistyped.code == 1 and "no file 'txet.txt'; --context takes" in mistyped.err
    assert by_text.code == 0 and by_text.out.endswith("\n") and by_text.out.strip() in TEXT and by_text.out.strip()
    assert answer(place, "Who met Bob", "--context", "text.txt", "--always").out == by_text.out


def test_a_line_for_each_line(place: Path) -> None:
    """Every question is answered by a place of the text, or by an empty line and why."""
    lines = answer(place, "--context", "text.txt", "--json", "--always", stdin="Who met Bob\n\nWho\n")
    records = [json.loads(line) for line in lines.out.splitlines()]
    assert [record["question"] for record in records] == ["Who met Bob", "", "Who"]
    assert [record["notes"] for record in records] == [[], ["empty question"], []]
    for record in records:
        assert record["answer"] == TEXT[record["start"] : record["end"]] and 0 <= record["probability"] <= 1

    pairs = [{"question": "Who met Bob", "context": context} for context in (TEXT, "", f"{TEXT} " * 3)]
    lines = answer(place, "--json", "--always", stdin="".join(json.dumps(pair) + "\n" for pair in pairs))
    records = [json.loads(line) for line in lines.out.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3]
    assert records[1] == {
        **{"line": 2, "question": "Who met Bob", "answer": None, "probability": 1.0},
        **{"start": None, "end": None, "notes": ["empty context"]},
    }
    assert records[2]["notes"] == ["read in 4 windows"]

    nothing = answer(place, stdin=json.dumps(pairs[1]) + "\n")
    assert nothing.out == "\n" and nothing.err == "line 1: empty context, the text does not say\n"


@pytest.mark.parametrize("line", ["no JSON", "[1]", '{"question": "Who"}', "null"])
def test_lines_that_are_no_questions(place: Path, line: str) -> None:
    outcome = answer(place, stdin=f'{{"question": "Who", "context": "Bob"}}\n{line}\n')
    assert outcome.code == 1 and 'input:2: each line of input must be {"question": ..., "context": ...}' in outcome.err


def test_a_question_needs_a_text(place: Path) -> None:
    outcome = answer(place, "Who met Bob")
    assert outcome.code == 1 and "--context FILE or --context TEXT" in outcome.err


def test_evaluate(place: Path) -> None:
    """Files of another form than the training's, and files that are none."""
    asked = {"question": "Who met Bob", "answers": [{"text": "Ann", "answer_start": 0}]}
    squad = {"data": [{"paragraphs": [{"context": TEXT, "qas": [asked]}]}]}
    (place / "squad.json").write_text(json.dumps(squad), encoding="utf-8")
    found = json.loads(call(place, "evaluate", "run", "squad.json", "--json", "--device", "cpu").out)
    assert found["of"] == "squad.json" and found["metrics"][0]["name"] == "F1"
    assert "cannot answer:never" in found["metrics"][0]["signature"]
    (place / "odd.txt").write_text("Who?\n", encoding="utf-8")
    outcome = call(place, "evaluate", "run", "odd.txt", "--device", "cpu")
    assert outcome.code == 1 and ".json and .jsonl" in outcome.err
    outcome = call(place, "evaluate", "run", "--device", "cpu")
    assert outcome.code == 1 and "regard evaluate RUN FILE" in outcome.err


def test_doctor(place: Path) -> None:
    outcome = call(place, "doctor", "small.toml", "--seconds", "0.1", "--device", "cpu")
    assert outcome.code == 0 and "windows, those that hold the answer" in outcome.out


def test_a_question_and_its_text_are_looked_at_in_their_frame(place: Path) -> None:
    run = library.load(place / "run", "cpu")
    ids = run.task.encode("Who met Bob [SEP] Ann met Bob.")
    assert ids[0] == run.tokenizer.start_id and ids.count(run.tokenizer.end_id) == 2
