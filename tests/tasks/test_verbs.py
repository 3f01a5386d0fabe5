"""What can be asked of runs: a task offers every verb, and methods, commands and routes can be made of its types."""

import inspect
import pydoc
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from regard.data.config import DataConfig
from regard.decoding.config import DecodingConfig
from regard.runs.recipe import Recipe
from regard.runs.run import CannotError, Run
from regard.tasks.request import Request
from regard.tasks.setup import Setup
from regard.tasks.table import TASKS
from regard.tasks.task import Task
from regard.tasks.translation.task import TranslationConfig
from regard.tasks.translation.verbs import Translated
from regard.tasks.verbs import VERBS
from regard.text.tokenizer import Tokenizer, TokenizerConfig

EXTRA = ("<mask>", "<answer>", "<system>", "<user>", "<assistant>")


@pytest.fixture(scope="module")
def tasks() -> list[Task[Any, Any, Any, Any]]:
    """All tasks with their usual settings, and one that summarizes."""
    tokenizer = Tokenizer.train(["a cat sat on a mat"], TokenizerConfig(vocab_size=300, extra=EXTRA))
    setup = Setup(data=DataConfig(), tokenizer=tokenizer, dropout=0.0, cache=None, seed=0, decoding=DecodingConfig())
    made = [task(task.settings(), setup) for task in TASKS.values()]
    return [*made, TASKS["translation"](TranslationConfig(long="cut"), setup)]


def test_every_verb_of_a_task_is_in_the_table(tasks):
    assert {type(task).__name__: set(task.verbs) - set(VERBS) for task in tasks if set(task.verbs) - set(VERBS)} == {}


def test_every_verb_of_the_table_is_offered_by_a_task(tasks):
    assert set(VERBS) - {name for task in tasks for name in task.verbs} == set()


def answer_type(verb: type[Request[Any]]) -> object:
    for parent in verb.__mro__:
        for base in parent.__dict__.get("__orig_bases__", ()):
            return get_args(base)[0]
    raise AssertionError(f"{verb.__name__} says nothing about its answer")


def types_within(hint: object) -> Iterator[object]:
    """A type, what it is made of, and so on, with all names resolved."""
    yield hint
    inner = list(get_args(hint))
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, tuple)):
        inner += get_type_hints(hint).values()
    for part in inner:
        yield from types_within(part)


@pytest.mark.parametrize("name", VERBS)
def test_requests_and_answers_are_typed(name):
    verb = VERBS[name]
    assert verb.name == name
    assert is_dataclass(verb)
    assert verb.__doc__ and not verb.__doc__.startswith(f"{verb.__name__}(")  # not the one that dataclasses make up
    hints = get_type_hints(verb)
    assert fields(verb)
    for part in [*(hints[field.name] for field in fields(verb)), answer_type(verb)]:
        assert not [kind for kind in types_within(part) if kind is Any or isinstance(kind, str)]


@pytest.fixture(scope="module")
def translator() -> Run:
    small = ["model.d_model=16", "model.n_heads=2", "model.n_layers=1", "model.d_ff=16"]
    recipe = Recipe.read("demo", small)
    tokenizer = Tokenizer.train(["a cat sat on a mat"], recipe.tokenizer)
    recipe = recipe.with_vocabulary(tokenizer.vocab_size)
    return Run(Path("runs/translator"), recipe, tokenizer, recipe.build_model().eval(), "its weights")


def test_a_method_shows_the_fields_of_its_request(translator):
    signature = inspect.signature(translator.translate)
    assert list(signature.parameters) == [*(field.name for field in fields(VERBS["translate"])), "draft"]
    assert signature.parameters["decoding"].default is None
    assert signature.parameters["alignments"].annotation is bool  # without what the command line says of it
    assert signature.return_annotation == list[Translated]
    page = pydoc.render_doc(translator.translate, renderer=pydoc.plaintext)
    assert "translate(lines:" in page
    assert "N lines in, N lines out" in page


def test_a_method_refuses_what_its_request_does_not_have(translator):
    with pytest.raises(TypeError, match="beams"):
        translator.translate(["a cat"], beams=3)


def test_a_run_says_what_it_can_do_instead(translator):
    assert {"translate", "score", "embed"} <= set(translator.verbs) <= set(dir(translator))
    with pytest.raises(CannotError, match="cannot classify; it can: translate, "):
        translator.classify(["a cat"])
