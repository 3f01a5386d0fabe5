"""docs/walk.md: the stops are functions that are really passed, in the order in which the page names them."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from docs import walks

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "commands"))
from calling import call  # noqa: E402

from regard.data.corpora.grammar import generate  # noqa: E402

RECIPE = """
[data]
root = "{root}"
train = ["train.en", "train.fr"]
max_length = 48
batch_tokens = 300

[tokenizer]
vocab_size = 300

[model]
d_model = 16
n_heads = 2
n_layers = 1
d_ff = 32
max_length = 64

[training]
steps = 1
compile = "off"
"""


def passed(run: Callable[[], object]) -> list[str]:
    """Functions of ours, in the order in which they were called, in any thread."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT / "regard")):
            calls.append(f"{code.co_filename}:{code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return [call.removeprefix(f"{ROOT}{os.sep}") for call in calls]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    place = tmp_path_factory.mktemp("walk")
    generate(2000).write(place / "data")
    (place / "tiny.toml").write_text(RECIPE.format(root=place / "data"), encoding="utf-8")
    functions = passed(lambda: call(place, "train", "tiny.toml", "--run", "run", "--device", "cpu"))
    assert (place / "run/model.safetensors").is_file()
    return place, functions


def not_reached(name: str, functions: list[str]) -> list[str]:
    """The stops from the first one on that is not passed after all before it."""
    rest = iter(functions)
    stops = [stop["at"] for stop in walks.stops(name)]
    n_passed = next((i for i, stop in enumerate(stops) if stop not in rest), len(stops))
    return stops[n_passed:]


def test_a_batch_passes_the_stops_in_order(trained: tuple[Path, list[str]]) -> None:
    _, functions = trained
    assert not_reached("train", functions) == []
    assert not_reached("train", functions[::-1]) != []


def test_a_sentence_passes_the_stops_in_order(trained: tuple[Path, list[str]]) -> None:
    place, _ = trained
    sentence = b"The animal was tired.\n"
    functions = passed(lambda: call(place, "translate", "run", "--device", "cpu", stdin=sentence))
    assert not_reached("translate", functions) == []


@pytest.mark.parametrize("name", walks.walks())
def test_walks_are_short(name: str) -> None:
    assert 10 < len(walks.stops(name)) <= walks.MOST
