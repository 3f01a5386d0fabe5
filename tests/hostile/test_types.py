"""Every method of a run × wrong types: a string is one text, and whatever is no text is an error that says so."""

import inspect
import re
from functools import partial
from typing import get_type_hints

import pytest
from bounded import all_bounded, bounded
from tiny_runs import Runs

from regard.errors import RegardError
from regard.runs.run import load
from regard.tasks.chat.verbs import Chat
from regard.tasks.language.verbs import Generate, GenerateAs, StreamText
from regard.tasks.pretraining.verbs import Fill
from regard.tasks.request import FOR_EACH_ANSWER, Embed, checked, kinds_of
from regard.tasks.translation.verbs import Translate
from regard.tasks.verbs import LINE_VERBS, VERBS

# By method: its task, and the names of the arguments that take texts.
METHODS = {
    "translate": ("translation", ("lines",)),
    "classify": ("classification", ("texts",)),
    "generate": ("language", ("prompts",)),
    "score": ("translation", ("sources", "targets")),
    "score_texts": ("language", ("texts",)),
    "summarize": ("translation", ("texts",)),
    "tag": ("tagging", ("lines",)),
    "embed": ("reading", ("texts",)),
    "search": ("reading", ("queries", "corpus")),
    "fill": ("masked", ("texts",)),
    "follow": ("masked", ("texts", "nexts")),
    "answer": ("answers", ("questions", "contexts")),
    "judge": ("reward", ("prompts", "answers")),
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


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("method", METHODS)
def test_a_string_is_one_text(method: str, runs: Runs) -> None:
    bound, names = parameters(method, runs)
    alone, listed = (bound(*[given] * len(names)) for given in (TEXT, [TEXT]))
    assert len(listed) == 1
    assert repr(alone) == repr(listed[0])


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("method", METHODS)
def test_what_is_no_text_is_an_error_that_says_what_was_expected(method: str, runs: Runs) -> None:
    bound, names = parameters(method, runs)
    cases = [(what, place) for what in WRONG for place in range(len(names))]

    def call(what: str, place: int) -> str:
        given = [[TEXT]] * len(names)
        given[place] = WRONG[what]
        return repr(bound(*given))

    ends = all_bounded([partial(call, what, place) for what, place in cases])
    for (what, place), end in zip(cases, ends, strict=True):
        assert end.how == "raised", f"{what} was accepted as {names[place]}: {end}"
        kinds, text, trace = end.value
        assert "RegardError" in kinds, f"{what} as {names[place]}: {trace}"
        assert "text" in text and "expected" in text, f"{what} as {names[place]}: {text}"


def test_every_method_that_answers_texts_is_walked() -> None:
    """The texts of `generate_as` have a default, `caption` takes images and `forecast` tables: they have own tests."""
    with_texts = {
        name
        for name, verb in VERBS.items()
        if any(FOR_EACH_ANSWER in kinds_of(hint) for hint in get_type_hints(verb, include_extras=True).values())
    }
    assert with_texts == {*METHODS, "generate_as", "caption", "forecast"}
    assert not [name for name, verb in LINE_VERBS.items() if name not in with_texts]


def test_a_beginning_of_a_text_from_a_label_may_be_a_string() -> None:
    request, is_alone = checked(GenerateAs("good", "The"))  # type: ignore[arg-type]
    assert is_alone and request == GenerateAs("good", ["The"])
    assert checked(GenerateAs("good"))[1] is False


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_image_is_an_error_that_says_what_was_expected(what: str, runs: Runs) -> None:
    bound = load(runs["captions"], device="cpu").caption
    end = bounded(lambda: repr(bound(WRONG[what])))
    assert end.how == "raised", end
    kinds, text, trace = end.value
    assert "RegardError" in kinds, trace
    assert "image" in text and ("expected" in text or "no file" in text), text


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_history_is_an_error_that_says_what_was_expected(what: str, runs: Runs) -> None:
    bound = load(runs["forecasting"], device="cpu").forecast
    end = bounded(lambda: repr(bound(WRONG[what])))
    assert end.how == "raised", end
    kinds, text, trace = end.value
    assert "RegardError" in kinds, trace
    assert "expected" in text or "not a table" in text, text


WRONG_SETTINGS = {
    "fill, top: expected at least 1, got 0": lambda: Fill([TEXT], top=0),
    "fill, top: expected a whole number, got str '3'": lambda: Fill([TEXT], top="3"),
    "translate: expected as many texts in each list, got 2 lines, 1 prefixes": lambda: Translate(
        [TEXT, TEXT], prefixes="Le"
    ),
    "translate, prefixes: expected a list of texts, got None at place 0": lambda: Translate([TEXT], prefixes=[None]),
    "stream, prompt: expected a text, got None": lambda: StreamText(None),
    "generate, stop: expected a text or a list of texts, got int 3": lambda: Generate([TEXT], stop=3),
    "generate_as, label: expected a text, got int 1": lambda: GenerateAs(1),
    "chat, messages: expected a list of messages, got int 3": lambda: Chat(3),
    "embed, pooling: expected a text, got None": lambda: Embed([TEXT], pooling=None),
}


@pytest.mark.parametrize("message", WRONG_SETTINGS)
def test_wrong_settings_are_an_error_that_says_what_was_expected(message: str) -> None:
    with pytest.raises(RegardError, match=f"^{re.escape(message)}"):
        checked(WRONG_SETTINGS[message]())


def test_a_string_as_stop_is_one_stop_string() -> None:
    assert checked(Generate([TEXT], stop="\n\n"))[0].stop == ["\n\n"]


@pytest.mark.sampled("every case of the corpus takes minutes; one shows that the way is guarded")
@pytest.mark.parametrize("messages", ["hello", [3], [{"role": "user", "content": b"x"}], {"role": "user"}, [None]])
def test_what_is_no_conversation_is_an_error(messages: object, runs: Runs) -> None:
    bound = load(runs["chat"], device="cpu").chat
    end = bounded(lambda: repr(bound(messages)))
    assert end.how == "raised" and "RegardError" in end.value[0], str(end)


@pytest.mark.parametrize("method", ["score", "answer"])
def test_unequal_lists_are_an_error(method: str, runs: Runs) -> None:
    bound, _ = parameters(method, runs)
    end = bounded(lambda: repr(bound([TEXT, TEXT], [TEXT])))
    assert end.how == "raised" and "RegardError" in end.value[0], str(end)
