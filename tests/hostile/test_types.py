"""Every method of a run × wrong types: a string is one text, and whatever is no text is an error that says so."""

import inspect

import pytest
from bounded import bounded
from conftest import Runs

from regard.runs.run import load

# By method: its task, and the names of the arguments that take texts.
METHODS = {
    "translate": ("translation", ("lines",)),
    "classify": ("classification", ("texts",)),
    "generate": ("language", ("prompts",)),
    "score": ("translation", ("sources", "targets")),
    "embed": ("reading", ("texts",)),
    "fill": ("masked", ("texts",)),
    "answer": ("answers", ("questions", "contexts")),
}
TEXT = "the cat says <mask>"
WRONG = {
    "number": 3,
    "none": None,
    "bytes": b"the cat",
    "float": 1.5,
    "object": object(),
    "dict": {"text": TEXT},
    "set": {TEXT},
    "list of numbers": [TEXT, 3],
    "list of none": [None],
    "list of bytes": [b"the cat"],
    "list of lists": [[TEXT]],
}


def parameters(method: str, runs: Runs) -> tuple[object, list[str]]:
    """The bound method, and its required arguments: those that take texts, in order."""
    task, names = METHODS[method]
    bound = getattr(load(runs[task], device="cpu"), method)
    needed = [p.name for p in inspect.signature(bound).parameters.values() if p.default is p.empty]
    assert len(needed) == len(names), needed
    return bound, needed


@pytest.mark.parametrize("method", METHODS)
def test_a_string_is_one_text(method: str, runs: Runs) -> None:
    bound, names = parameters(method, runs)
    alone, listed = (bound(*[given] * len(names)) for given in (TEXT, [TEXT]))
    assert len(listed) == 1
    assert repr(alone) == repr(listed[0])


@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_text_is_an_error_that_says_what_was_expected(method: str, runs: Runs) -> None:
    bound, names = parameters(method, runs)
    for what, value in WRONG.items():
        for place in range(len(names)):
            given = [[TEXT]] * len(names)
            given[place] = value
            end = bounded(lambda given=given: repr(bound(*given)))
            assert end.how == "raised", f"{what} was accepted as {names[place]}: {end}"
            kinds, text, trace = end.value
            assert "RegardError" in kinds, f"{what} as {names[place]}: {trace}"
            assert "text" in text and "expected" in text, f"{what} as {names[place]}: {text}"


@pytest.mark.parametrize("method", ["score", "answer"])
def test_unequal_lists_are_an_error(method: str, runs: Runs) -> None:
    bound, _ = parameters(method, runs)
    end = bounded(lambda: repr(bound([TEXT, TEXT], [TEXT])))
    assert end.how == "raised" and "RegardError" in end.value[0], str(end)
