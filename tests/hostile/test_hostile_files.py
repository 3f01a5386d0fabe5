"""Every command that reads files × files of hostile lines: it ends well, or with an error that says what is wrong."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import Outcome
from every_pair import TASK_ROWS
from hostile_text import LINES, NOT_TEXT, filled, within_limits
from test_hostile_lines import ARGUMENTS, COMMANDS, NAMES
from tiny_runs import Runs

from regard.__main__ import build
from regard.text.learned import KINDS

Example = Callable[[int, str], str]


def json_line(record: Callable[[int, str], dict[str, object]]) -> Example:
    return lambda i, line: json.dumps(record(i, line)) + "\n"


def plain(i: int, line: str) -> str:
    return line + "\n"


def tagged(i: int, line: str) -> str:
    return "".join(f"{word}\t{('O', 'SOUND')[n % 2]}\n" for n, word in enumerate(line.split())) + "\n"


def said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


# By kind of data: the endings of its files, and what stands in each for line i.
EXAMPLES: dict[str, dict[str, Example]] = {
    "text": {"txt": plain},
    "pairs": {"en": plain, "back": plain},
    "labeled": {"jsonl": json_line(lambda i, line: {"text": line, "label": ("in", "out")[i % 2]})},
    "tagged": {"tags": tagged},
    "numbered": {"tags": lambda i, line: "".join(f"{word}\t{len(word)}\n" for word in line.split()) + "\n"},
    "questions": {
        "jsonl": json_line(
            lambda i, line: {
                "question": line,
                "context": line,
                "answers": [{"text": line[:3], "answer_start": 0}] * (i % 2 and line != ""),
            }
        )
    },
    "conversations": {"jsonl": json_line(lambda i, line: {"messages": [said("user", line), said("assistant", line)]})},
    "preferences": {"jsonl": json_line(lambda i, line: {"prompt": line, "chosen": line, "rejected": f"no {line}"})},
}
# The tasks of the fast tests: one for each kind of data.
FAST = ("language", "translation", "classification", "tagging", "answers", "chat", "preference")
LEARNED = tuple(task for task, row in TASK_ROWS.items() if not row.cannot_learn and row.data in EXAMPLES)
WITHOUT_BASE = tuple(task for task in LEARNED if task != "preference")  # which learns from a run that can answer

# By command: its words, and the tasks whose files it reads.  DATA names them in place of the RECIPE's.
COMMANDS_OF_FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "doctor": ("doctor RECIPE DATA --seconds 0 --device cpu", LEARNED),
    "train": ("train RECIPE DATA --run new --set training.steps=2 --device cpu", WITHOUT_BASE),
    "evaluate": ("evaluate RUN FILES --device cpu", LEARNED),
    "evaluate --outputs": ("evaluate RUN FILES --outputs outputs.txt --device cpu", ("translation", "classification")),
    "reach": ("reach RUN --text FILES --distance 4 --passages 2 --device cpu", ("language",)),
    "ladder": ("ladder --data FILES --rungs n-gram --steps 1 --out ladder --device cpu", ("language",)),
    **{f"tokenizer train {kind}": (f"tokenizer train FILES --kind {kind}", ("language",)) for kind in KINDS},
}
CASES = [(command, task) for command, (_, tasks) in COMMANDS_OF_FILES.items() for task in tasks]
OF_EACH_KIND = [case for case in CASES if case[1] in FAST]
TRAINED = [("doctor", task) for task in FAST if task not in ("language", "preference")]  # `train` reads the same files
# Nothing that a user wrote: `show` reads recipes (test_settings.py), `import` and `export` models (tests/interop),
# `caption` images (tests/data/images), `point` boxes (tests/tasks/captions/test_point.py), and `forecast` tables of
# numbers (tests/data/series); `record` reads nothing, and `play` a run (tests/commands/test_play_command.py).  `data`
# copies files whose sums it knows; `new` reads the beginnings of files (tests/tasks/test_recognition.py) and trains;
# `serve` reads requests (tests/serving/test_hostile_requests.py).
OF_FILES = {"caption", "point", "forecast", "play", "record", "norms", "neighbours", "data", "new", "serve"}
WITHOUT_TEXT = {"recipes", "demo", "bench", "show", "import", "export", *OF_FILES}


def write_files(task: str, lines: list[str], folder: Path) -> list[Path]:
    paths = []
    for ending, example in EXAMPLES[TASK_ROWS[task].data].items():
        paths.append(folder / f"hostile.{ending}")
        content = "".join(example(i, line) for i, line in enumerate(lines))
        paths[-1].write_text(content, encoding="utf-8", newline="")
    return paths


def use(command: str, task: str, runs: Runs, files: list[Path], place: Path) -> Outcome:
    names = [str(path) for path in files]
    data = [word for part in ("train", "valid", "test") for word in ("--set", f"data.{part}={json.dumps(names)}")]
    run = runs[task]
    form = COMMANDS_OF_FILES[command][0]
    words = filled(form, RUN=run, RECIPE=run.parent / "recipe.toml", FILES=names, DATA=data)
    return within_limits(place, (words, b""))[0]


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded", cases=3)
@pytest.mark.parametrize(
    ("command", "task"),
    [
        case if case in OF_EACH_KIND and case not in TRAINED else pytest.param(*case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
def test_all_together_are_read(command: str, task: str, runs: Runs, tmp_path: Path) -> None:
    outcome = use(command, task, runs, write_files(task, list(LINES.values()), tmp_path), tmp_path)
    assert outcome.code == 0 and outcome.out.strip(), outcome
    outputs = tmp_path / "outputs.txt"
    assert outputs.exists() == ("--outputs" in command)
    assert not outputs.exists() or outputs.read_text(encoding="utf-8").count("\n") == len(LINES)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(("command", "task"), OF_EACH_KIND)
def test_each_is_read_between_others(command: str, task: str, line: str, runs: Runs, tmp_path: Path) -> None:
    """There must be something to learn from, so it is not alone."""
    files = write_files(task, ["the cat says", LINES[line], "the dog", "the cow says"], tmp_path)
    outcome = use(command, task, runs, files, tmp_path)
    assert outcome.code == 0 and outcome.out.strip(), outcome


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("task", FAST)
def test_alone_each_is_read_or_refused(task: str, line: str, runs: Runs, tmp_path: Path) -> None:
    """As the whole content of a file, whatever the file should hold."""
    files = write_files(task, [], tmp_path)
    for path in files:
        path.write_text(LINES[line] + "\n", encoding="utf-8", newline="")
    for command in ("doctor", "evaluate"):
        outcome = use(command, task, runs, files, tmp_path)
        assert outcome.out.strip() if outcome.code == 0 else outcome.err.startswith("error: "), outcome


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize(
    ("command", "task"), [case for case in OF_EACH_KIND if case[0] == "evaluate" or case[1] == "language"]
)
def test_bytes_that_are_no_text_are_an_error(command: str, task: str, runs: Runs, tmp_path: Path) -> None:
    files = write_files(task, ["fine"], tmp_path)
    with files[-1].open("ab") as file:
        file.write(NOT_TEXT["latin-1"] + b"\n")
    outcome = use(command, task, runs, files, tmp_path)
    assert outcome.code == 1 and f"{files[-1]}:" in outcome.err and "is not UTF-8 (byte 0xe9)" in outcome.err


def test_pairs_are_scored_or_the_line_that_is_too_long_is_named(runs: Runs, tmp_path: Path) -> None:
    score = ["score", runs["translation"], "hostile.en", "hostile.back", "--device", "cpu"]
    lines = [line for name, line in LINES.items() if name != "many words"]
    write_files("translation", lines, tmp_path)
    (scored,) = within_limits(tmp_path, (score, b""))
    assert scored.code == 0 and scored.out.count("\n") == len(lines), scored.err
    write_files("translation", [*lines, LINES["many words"]], tmp_path)
    (refused,) = within_limits(tmp_path, (score, b""))
    assert refused.code == 1 and f"source line {len(LINES)} has 8001 tokens" in refused.err, refused.err


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize(
    "form", ["doctor RECIPE DATA --seconds 0 --device cpu", "evaluate RUN FILES --outputs outputs.txt --device cpu"]
)
def test_captions_are_read(form: str, runs: Runs, tmp_path: Path) -> None:
    """Of one image all; an image whose only caption is blank has none."""
    run, table = runs["captions"], tmp_path / "hostile.jsonl"
    for i in range(len(LINES) + 1):
        shutil.copy(run.parent / "data" / "0.png", tmp_path / f"{i}.png")
    one = [json.dumps({"path": f"{len(LINES)}.png", "caption": line}) for line in LINES.values()]
    each = [json.dumps({"path": f"{i}.png", "caption": line}) for i, line in enumerate(LINES.values())]
    table.write_text("\n".join([*one, *each]) + "\n", encoding="utf-8")
    data = [
        word for part in ("train", "valid", "test") for word in ("--set", f"data.{part}={json.dumps([str(table)])}")
    ]
    words = filled(form, RUN=run, RECIPE=run.parent / "recipe.toml", FILES=[str(table)], DATA=data)
    (outcome,) = within_limits(tmp_path, (words, b""))
    assert outcome.code == 0 and outcome.out.strip(), outcome
    outputs = tmp_path / "outputs.txt"
    n_captioned = 1 + sum(bool(line.strip()) for line in LINES.values())
    assert outputs.exists() == ("--outputs" in form)
    assert not outputs.exists() or outputs.read_text(encoding="utf-8").count("\n") == n_captioned


def test_every_command_is_walked() -> None:
    forms = [*(form for _, form in ARGUMENTS.values()), *(form for form, _ in COMMANDS_OF_FILES.values())]
    walked = {NAMES.get(name, name) for name in COMMANDS} | {form.split()[0] for form in forms}
    assert walked | WITHOUT_TEXT == set(build().commands) and not walked & WITHOUT_TEXT
