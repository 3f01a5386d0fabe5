"""Questions are read in every form, answers stand where they should, and what is odd is counted or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.files.questions import NO_ANSWER, Answer, Question, read_questions
from regard.errors import ConfigError, DataError

DATA = Path(__file__).parents[3] / "shared" / "data"
CONTEXT = "Ann met Bob. Bob met Ann."


def written(folder: Path, *records: Any, name: str = "some.jsonl") -> tuple[str, ...]:
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return (name,)


def read_one(folder: Path, record: Any) -> Question:
    found = read_questions(written(folder, record), folder)
    assert len(found) == 1
    return found.all[0]


def plain(answers: Any, context: str = CONTEXT, question: str = "Who met Bob?") -> dict[str, Any]:
    return {"question": question, "context": context, "answers": answers}


def test_squad(tmp_path: Path) -> None:
    asked = [
        {"question": "Who met Bob?", "id": "1", "answers": [{"text": "Ann", "answer_start": 0}]},
        {"question": "Who met Eve?", "id": "2", "answers": [], "is_impossible": True},
    ]
    record = {"version": "2", "data": [{"title": "x", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(record, indent=2), encoding="utf-8")
    found = read_questions(("squad.json",), tmp_path)
    assert found.all[0] == Question(
        "Who met Bob?", CONTEXT, (Answer("Ann", 0),), "squad.json, article 1, paragraph 1, question 1"
    )
    assert found.all[1].answers == (NO_ANSWER,)
    assert found.all[1].earlier == ()  # SQuAD's questions are no dialogue
    assert found.references == [["Ann"], [""]] and not found.all_answerable


def test_quac_as_it_is_published(tmp_path: Path) -> None:
    asked = [
        {"question": "Who met Bob?", "followup": "y", "answers": [{"text": "Ann", "answer_start": 21}]},
        {"question": "Where?", "followup": "n", "answers": [{"text": "CANNOTANSWER", "answer_start": 26}]},
    ]
    paragraph = {"context": f"{CONTEXT} CANNOTANSWER", "qas": asked}
    (tmp_path / "quac.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}), encoding="utf-8")
    first, second = read_questions(("quac.json",), tmp_path).all
    assert first.context == CONTEXT and first.answers == (Answer("Ann", 21),)
    assert second.answers == (NO_ANSWER,) and second.earlier == ("Who met Bob?",)


def test_dialogues(tmp_path: Path) -> None:
    """Both parts of QuAC as the data here have them: with one answer and its place, or with several without."""
    turns = [["Who?", "Bob", 13], ["Where?", "CANNOTANSWER", -1], ["Whom?", ["Ann", "CANNOTANSWER", "Ann."]]]
    found = read_questions(written(tmp_path, {"passage": f"{CONTEXT} CANNOTANSWER", "turns": turns}), tmp_path)
    assert [question.answers for question in found.all] == [
        (Answer("Bob", 13),),
        (NO_ANSWER,),
        (Answer("Ann", 0), NO_ANSWER, Answer("Ann.", 21)),
    ]
    assert [question.earlier for question in found.all] == [(), ("Who?",), ("Who?", "Where?")]
    assert found.all[2].place == "some.jsonl:1, question 3"
    assert found.notes.counts == {"answer that stands in its context more than once: the first place is taken": 1}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], (NO_ANSWER,)),
        ([""], (NO_ANSWER,)),
        (["met"], (Answer("met", 4),)),
        ([" met\n"], (Answer("met", 4),)),  # white space around an answer is not meant
        ([{"text": "met", "answer_start": 17}], (Answer("met", 17),)),
        ([{"text": "met", "answer_start": 15}], (Answer("met", 17),)),  # the nearest
        ([{"text": "met", "answer_start": 7}], (Answer("met", 4),)),
        ([{"text": "met", "answer_start": -3}], (Answer("met", 4),)),
        ([{"text": "met", "answer_start": 9999}], (Answer("met", 17),)),
        ([{"text": "Eve", "answer_start": 0}], (Answer("Eve", -1),)),
    ],
)
def test_plain_records(tmp_path: Path, answers: Any, expected: tuple[Answer, ...]) -> None:
    found = read_one(tmp_path, plain(answers))
    assert found.answers == expected
    for answer in found.answers:
        assert not answer.is_found or CONTEXT[answer.start :].startswith(answer.text)


def test_what_the_file_got_wrong_is_counted(tmp_path: Path) -> None:
    records = [plain([{"text": "met", "answer_start": 15}]), plain(["Eve"]), plain(["Eve"]), plain(["Ann met"])]
    found = read_questions(written(tmp_path, *records), tmp_path)
    assert found.notes.counts == {
        "answer found at another place than the file says": 1,
        "answer that does not stand in its context": 2,
    }
    assert found.notes.first["answer that does not stand in its context"] == "some.jsonl:2"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"context": "x"}, "none of the known forms"),
        (["question"], "none of the known forms"),
        ({"question": "x", "answers": []}, "has no 'context'"),
        ({"question": None, "context": "x", "answers": []}, "'question' must be text"),
        ({"question": "x", "context": "\ud800", "answers": []}, "half of a surrogate pair"),
        ({"question": "x", "context": "x", "answers": "x"}, "'answers' must be a list"),
        ({"question": "x", "context": "x", "answers": [["x"]]}, "'answers' must be text"),
        ({"question": "x", "context": "x", "answers": [{"text": "x", "answer_start": "0"}]}, "number of characters"),
        ({"passage": "x", "turns": [["x"]]}, "must be \\[question, answer, start\\]"),
        ({"passage": "x", "turns": [["x", "x"]]}, "a list of texts"),
        ({"data": [{"paragraphs": ["x"]}]}, "has no 'context'"),
    ],
)
def test_mistakes_name_the_place(tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"some.jsonl:1.*{message}"):
        read_questions(written(tmp_path, record), tmp_path)


def test_files_that_hold_no_questions(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question"', encoding="utf-8")
    with pytest.raises(DataError, match=r"bad\.jsonl:1 is not valid JSON"):
        read_questions(("bad.jsonl",), tmp_path)
    with pytest.raises(DataError, match="no questions found"):
        read_questions(written(tmp_path, {"data": []}), tmp_path)
    with pytest.raises(ConfigError, match=r"\.json and \.jsonl"):
        read_questions(("some.tsv",), tmp_path)


def test_a_context_is_held_out_as_a_whole(tmp_path: Path) -> None:
    records = [plain([], f"context {i % 20}", f"question {i}") for i in range(100)]
    found = read_questions(written(tmp_path, *records), tmp_path)
    left, held_out = found.hold_out(0.3, seed=1)
    assert len(left) + len(held_out) == 100 and len(held_out) >= 5
    assert not {q.context for q in left.all} & {q.context for q in held_out.all}


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the real data beside the checkout")
def test_the_real_files() -> None:
    """The counts that their sources state, and every span where it is said to be."""
    for name, n, n_contexts, n_without in (
        ("quac/val.jsonl.xz", 7354, 1000, 1486),
        ("xquad/xquad.de.json.xz", 1190, 240, 0),
    ):
        found = read_questions((name,), DATA)
        assert len(found) == n
        assert len({question.context for question in found.all}) == n_contexts
        assert sum(question.answers[0] == NO_ANSWER for question in found.all) == n_without
        for question in found.all:
            for answer in question.answers:
                assert question.context.startswith(answer.text, answer.start) or answer == NO_ANSWER
