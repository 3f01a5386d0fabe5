"""Every command that answers lines, or a text among its arguments × hostile lines: N in, N out, and what is wrong is
said."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from calling import Outcome, call
from hostile_text import LINES, NOT_TEXT, filled, within_limits
from tiny_runs import Runs

from regard.runs.run import load

# By command: its task, its arguments after the run, and one line of input made from one hostile line.
COMMANDS: dict[str, tuple[str, list[str], Callable[[str], str]]] = {
    "translate": ("translation", [], str),
    "summarize": ("translation", [], str),
    "classify": ("classification", [], str),
    "tag": ("tagging", [], str),
    "restore": ("restoration", [], str),
    "fill": ("masked", [], lambda line: f"{line} <mask>"),
    "follow": ("masked", [], lambda line: "\t".join([line.replace("\t", " ")] * 2)),  # more tabs are more texts
    "embed": ("reading", [], str),
    "search": ("reading", [__file__, "--json"], str),
    "generate": ("language", ["--set", "max_length=6"], str),
    "score": ("language", [], str),
    "chat": ("chat", ["--set", "max_length=4"], str),
    "answer": ("answers", [], lambda line: json.dumps({"question": line, "context": line})),
    "judge": ("reward", [], lambda line: json.dumps({"prompt": line, "answer": line})),
}
NAMES = {"restore": "tag"}  # of the command, where a row is about another task


# By command with TEXT among its words: the task of RUN, and the words.  Where it also reads lines, it reads "cat".
ARGUMENTS = {
    "look": ("translation", "look RUN --html page.html --overwrite --terminal --device cpu -- TEXT"),
    "look --target": ("translation", "look RUN --target TEXT --device cpu -- cat"),
    "look, one text": ("classification", "look RUN --device cpu -- TEXT"),
    "neighbors": ("translation", "neighbors RUN -- TEXT"),
    "search": ("reading", f"search RUN {__file__} --device cpu -- TEXT"),
    "tokenizer show": ("translation", "tokenizer show RUN -- TEXT"),
    "translate --prefix": ("translation", "translate RUN --prefix TEXT --device cpu"),
    "answer --context": ("answers", "answer RUN --context TEXT --device cpu -- cat"),
    "generate --stop": ("language", "generate RUN --length 2 --stop TEXT --device cpu -- cat"),
    "generate --stream": ("language", "generate RUN --length 2 --stream --device cpu -- TEXT"),
    "generate --label": ("label-to-text", "generate RUN --length 2 --label TEXT --device cpu"),
    "chat --system": ("chat", "chat RUN --length 2 --system TEXT --device cpu"),
}
TEXTS = {**LINES, "a byte": "\udcff", "a byte among words": "the \udcff cat"}  # bytes that are no text come so


def ask(command: str, runs: Runs, contents: Iterable[bytes], place: Path) -> list[Outcome]:
    task, arguments, _ = COMMANDS[command]
    words = [NAMES.get(command, command), runs[task], *arguments, "--device", "cpu"]
    return within_limits(place, *((words, content) for content in contents))


def expect_answers(command: str, runs: Runs, lines: list[str], place: Path) -> None:
    content = "".join(COMMANDS[command][2](line) + "\n" for line in lines).encode()
    (outcome,) = ask(command, runs, [content], place)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("\n") == len(lines)


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("command", COMMANDS)
def test_all_together_each_has_its_answer(command: str, runs: Runs, tmp_path: Path) -> None:
    expect_answers(command, runs, list(LINES.values()), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_alone_each_has_its_answer(command: str, line: str, runs: Runs, tmp_path: Path) -> None:
    expect_answers(command, runs, [LINES[line]], tmp_path)


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("command", COMMANDS)
def test_bytes_that_are_no_text_are_an_error(command: str, runs: Runs, tmp_path: Path) -> None:
    contents = (b"fine\n" * (command != "answer") + content + b"\n" for content in NOT_TEXT.values())
    for outcome in ask(command, runs, contents, tmp_path):
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


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("line", NO_QUESTIONS)
def test_a_question_that_is_no_text_is_an_error(line: str, runs: Runs, tmp_path: Path) -> None:
    content = b'{"question": "Who", "context": "the cat"}\n' + line.encode() + b"\n"
    (outcome,) = ask("answer", runs, [content], tmp_path)
    assert (
        outcome.code == 1 and outcome.err.startswith("error: standard input:2: ") and NO_QUESTIONS[line] in outcome.err
    )


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("options", [["--json"], []])
@pytest.mark.parametrize("command", ["fill", "generate", "answer"])
def test_an_argument_that_is_no_text_has_its_answer(
    command: str, options: list[str], runs: Runs, tmp_path: Path
) -> None:
    """Bytes of an argument that are not UTF-8 reach Python as halves of surrogate pairs."""
    more = ["--context", "the cat says \udcff"] if command == "answer" else []
    run = runs[COMMANDS[command][0]]
    arguments = [command, run, "the \udcff <mask>", *more, *options, "--device", "cpu"]
    (outcome,) = within_limits(tmp_path, (arguments, b""))
    assert outcome.code == 0, outcome.err


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("command", ARGUMENTS)
def test_every_argument_has_an_answer_or_an_error(command: str, every: int, runs: Runs, tmp_path: Path) -> None:
    """Each in a call of its own; in the fast tests a third of the texts, from one command to the next another third."""
    task, form = ARGUMENTS[command]
    names = list(TEXTS)[list(ARGUMENTS).index(command) % every :: every]
    calls = [(filled(form, RUN=runs[task], TEXT=TEXTS[name]), b"cat\n") for name in names]
    for name, outcome in zip(names, within_limits(tmp_path, *calls), strict=True):
        is_said = outcome.out if outcome.code == 0 else outcome.err.startswith("error: ")
        assert is_said and len(outcome.err) < len(TEXTS[name]) + 1000, f"{name}: {outcome}"


def test_the_tokens_of_piped_lines_are_shown(runs: Runs, tmp_path: Path) -> None:
    show = ["tokenizer", "show", runs["translation"]]
    text = "\n".join(LINES.values())
    contents = [text.encode(), *(b"fine\n" + content for content in NOT_TEXT.values())]
    shown, *refusals = within_limits(tmp_path, *((show, content + b"\n") for content in contents))
    assert shown.code == 0 and f"{len(text)} characters" in shown.out
    for refused in refusals:
        assert refused.code == 1 and refused.err.startswith("error: standard input:2 is not UTF-8"), refused.err


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
