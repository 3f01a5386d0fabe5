"""The program around the commands: its help, --debug, and what a shell completes."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from calling import Call

from regard.__main__ import PANELS, below, build

BASH = Path("/bin/bash")


def test_help_shows_the_commands_in_their_panels(regard: Call) -> None:
    shown = regard("--help").out
    places = [shown.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    for functions, begin, end in zip(PANELS.values(), places, [*places[1:], len(shown)], strict=True):
        for function in functions:
            assert f"│ {function.__name__.rstrip('_')} " in shown[begin:end]
    assert "│ import " in shown
    assert "│ tokenizer " in shown and "--debug" in shown and "--install-completion" in shown


def test_help_imports_no_torch() -> None:
    script = "import sys, regard.__main__ as program; program.build(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def processor_time(*arguments: str) -> float:
    """Seconds of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.slow  # a figure of time, for a machine that is left alone
def test_help_is_quick() -> None:
    """Beside what importing PyTorch takes on the same machine: nothing heavy is imported."""
    whole = processor_time("-c", "import torch")
    tries = (processor_time("-m", "regard", "--help") for _ in range(3))  # three, as the machine may be busy
    assert any(seconds < 0.5 * whole for seconds in tries)


def test_every_command_takes_debug() -> None:
    for command in below(build()):
        assert sum("--debug" in option.opts for option in command.params) == 1, command.name


@pytest.mark.parametrize(
    "arguments",
    [
        ("--debug", "show", "nothing"),
        ("show", "--debug", "nothing"),
        ("show", "nothing", "--debug"),
        ("tokenizer", "--debug", "train", "nothing"),
        ("tokenizer", "train", "nothing", "--debug"),
    ],
)
def test_debug_shows_where_an_error_arose(regard: Call, arguments: tuple[str, ...]) -> None:
    for given, is_shown in ((arguments, True), ([word for word in arguments if word != "--debug"], False)):
        ended = regard(*given)
        assert ended.code == 1 and "error: no " in ended.err
        assert ("Traceback (most recent call last)" in ended.err) == is_shown


def test_debug_lets_a_fault_of_ours_out(regard: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the moon is full")

    monkeypatch.setattr("regard.config.shipped_recipes", fail)
    with pytest.raises(RuntimeError, match="the moon is full"):
        regard("recipes", "--debug")
    assert not (tmp_path / "error.log").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("tr",), {"train", "translate"}),
        (("tokenizer", ""), {"train", "show"}),
        (("train", "--res"), {"--resume"}),
        (("show", "--d"), {"--debug"}),
        (("--debug", "neigh"), {"neighbors"}),
    ],
)
def test_a_shell_completes(
    regard: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: set[str]
) -> None:
    monkeypatch.setenv("_REGARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("regard", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    completed = regard()
    assert completed.code == 0 and set(completed.out.split()) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_the_program(regard: Call, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # the shell around the tests is any
    shown = regard("--show-completion", shell)
    assert shown.code == 0 and f"_REGARD_COMPLETE=complete_{shell}" in shown.out


@pytest.mark.skipif(not BASH.exists(), reason="there is no bash")
def test_completion_is_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    script = f"{sys.executable} -m regard --install-completion; exit $?"  # not the last command: bash stays the parent
    done = subprocess.run([BASH, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "bash completion installed in" in done.stdout
    (completion,) = tmp_path.glob(".bash_completions/*")
    assert completion.name == "regard.sh" and str(completion) in (tmp_path / ".bashrc").read_text(encoding="utf-8")
