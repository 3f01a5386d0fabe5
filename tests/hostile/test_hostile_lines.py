"""Every command that answers lines × hostile lines: N in, N out, and what is wrong is said."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bounded import BUG, bounded
from calling import Outcome, call
from tiny_runs import Runs

from regard.runs.run import load

LINES = {
    "empty": "",
    "white space": " \t\u00a0\u3000",
    "separators": "two\u2028lines\u2029or\u0085one\x0bor\x0cnone",
    "special tokens": "<s> </s> <pad> <unk> <mask> <answer> <user> <assistant> <system>",
    "controls": "\x00\x01\x1b[31m\x7f\x9b",
    "carriage return": "a\rb",
    "byte order mark": "\ufeffx",
    "direction": "\u202eevil\u202d \u200f",
    "combining": "e" + "\u0301" * 500,
    "beyond the plane": "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0010ffff \U000e0041",
    "no characters": "\ufffe\uffff\ufdd0",
    "markup": "</script><!--<script>&lt;{{data}}",
    "format": "%s %n {0} {} \\n \\x00 $(id) `id`",
    "json": '{"text": null, "context": [1, 2], "question": {}}',
    "number": "-1e400",
    "one word": "a" * 20_000,
    "many words": "the cat says meow " * 2_000,
    "brackets": "[" * 5_000,
    "other scripts": "नमस्ते 你好 こんにちは مرحبا ΑΒΓ",
}
NOT_TEXT = {"latin-1": b"caf\xe9", "half": b"\xe2\x82", "surrogate": b"\xed\xa0\x80", "overlong": b"\xc0\xaf"}

# By command: its task, its arguments after the run, and one line of input made from one hostile line.
COMMANDS: dict[str, tuple[str, list[str], Callable[[str], str]]] = {
    "translate": ("translation", [], str),
    "classify": ("classification", [], str),
    "tag": ("tagging", [], str),
    "restore": ("restoration", [], str),
    "fill": ("masked", [], lambda line: f"{line} <mask>"),
    "embed": ("reading", [], str),
    "generate": ("language", ["--set", "max_length=6"], str),
    "score": ("language", [], str),
    "chat": ("chat", ["--set", "max_length=4"], str),
    "answer": ("answers", [], lambda line: json.dumps({"question": line, "context": line})),
}
NAMES = {"restore": "tag"}  # of the command, where a row is about another task


def ask(command: str, runs: Runs, content: bytes, place: Path) -> Outcome:
    task, arguments, _ = COMMANDS[command]
    run = runs[task]
    name = NAMES.get(command, command)
    end = bounded(lambda: tuple(vars(call(place, name, run, *arguments, "--device", "cpu", stdin=content)).values()))
    assert end.how == "returned", str(end)
    outcome = Outcome(*end.value)
    assert BUG not in outcome.err, (place / "error.log").read_text()[-1500:]
    assert outcome.code in (0, 1, 2)
    assert outcome.code == 0 or outcome.err.strip(), "an error says something"
    return outcome


def expect_answers(command: str, runs: Runs, lines: list[str], place: Path) -> None:
    content = "".join(COMMANDS[command][2](line) + "\n" for line in lines).encode()
    outcome = ask(command, runs, content, place)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("\n") == len(lines)


@pytest.mark.parametrize("command", COMMANDS)
def test_all_together_each_has_its_answer(command: str, runs: Runs, tmp_path: Path) -> None:
    expect_answers(command, runs, list(LINES.values()), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_alone_each_has_its_answer(command: str, line: str, runs: Runs, tmp_path: Path) -> None:
    expect_answers(command, runs, [LINES[line]], tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_bytes_that_are_no_text_are_an_error(command: str, runs: Runs, tmp_path: Path) -> None:
    for content in NOT_TEXT.values():
        outcome = ask(command, runs, b"fine\n" * (command != "answer") + content + b"\n", tmp_path)
        assert outcome.code == 1 and "UTF-8" in outcome.err


# Lines of JSON for `answer` whose question or context is no text, and what is said about them.
NO_QUESTIONS = {
    '{"question": "Who \\ud800", "context": "the cat"}': "half of a surrogate pair",
    '{"question": "Who", "context": "the \\udfff cat"}': "half of a surrogate pair",
    '{"question": "Who", "context": null}': "'context' must be text, got null",
    '{"question": ["Who"], "context": "the cat"}': "'question' must be text, got [",
    '{"question": NaN, "context": "the cat"}': "not a finite number",
    '{"question": ' + "9" * 5_000 + ', "context": "the cat"}': "each line of input must be",
}


@pytest.mark.parametrize("line", NO_QUESTIONS)
def test_a_question_that_is_no_text_is_an_error(line: str, runs: Runs, tmp_path: Path) -> None:
    outcome = ask("answer", runs, b'{"question": "Who", "context": "the cat"}\n' + line.encode() + b"\n", tmp_path)
    assert (
        outcome.code == 1 and outcome.err.startswith("error: standard input:2: ") and NO_QUESTIONS[line] in outcome.err
    )


@pytest.mark.parametrize("options", [["--json"], []])
@pytest.mark.parametrize("command", ["fill", "generate", "answer"])
def test_an_argument_that_is_no_text_has_its_answer(
    command: str, options: list[str], runs: Runs, tmp_path: Path
) -> None:
    """Bytes of an argument that are not UTF-8 reach Python as halves of surrogate pairs."""
    more = ["--context", "the cat says \udcff"] if command == "answer" else []
    run = runs[COMMANDS[command][0]]
    arguments = [command, run, "the \udcff <mask>", *more, *options, "--device", "cpu"]
    end = bounded(lambda: tuple(vars(call(tmp_path, *arguments)).values()))
    assert end.how == "returned" and Outcome(*end.value).code == 0, str(end)


def test_piped_lines_begin_the_texts_of_a_label(runs: Runs, tmp_path: Path) -> None:
    """Each gives a line; without any, one text is written."""
    run = runs["label-to-text"]
    label = load(run, "cpu").task.config.labels[0]
    arguments = ["generate", run, "--label", label, "--length", "2", "--json", "--device", "cpu"]
    for content, prompts in ((b"the cat\n\nsays\n", ["the cat", "", "says"]), (b"", [""])):
        lines = call(tmp_path, *arguments, stdin=content).out.splitlines()
        assert [json.loads(line)["prompt"] for line in lines] == prompts
    one = call(tmp_path, *arguments[:-3], "--set", "n_best=1", "--device", "cpu", stdin=b"the cat\nsays\n")
    assert one.code == 0 and one.out.count("\n") == 2, one
