"""docs/api.md: what Python code calls, with the signatures and docstrings that the code has."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import TypeVar, get_args, get_type_hints

from docs.settings import meaning
from docs.writing import cell, first_sentence, markdown, wrapped
from regard.nn.watch import watch
from regard.runs.history import TrainingHistory
from regard.runs.run import Run, load
from regard.tasks.request import AnyRequest
from regard.tasks.verbs import VERBS
from regard.training.call import train
from regard.training.estimator import TextClassifier
from regard.viewer.capture import Capture
from regard.viewer.map_set import Map, MapSet

API = """\
# Python

`make docs` writes this page from the signatures and docstrings of the code. [A run](run.md#in-python) has examples, and
[first-steps.ipynb](first-steps.ipynb) is a notebook.

{sections}

## Verbs

What can be asked of a run are the verbs of its task, as methods of the run; `run.verbs` lists them. A string in place
of texts is one text and gets its answer alone; a list gets a list; a generator, or any other iterator, gets its answers
one after the other as they are made.

| call | answer for each | what it does |
|---|---|---|
{verbs}

## Answers

{answers}
"""

FUNCTIONS: dict[str, Callable[..., object]] = {"regard.train": train, "regard.load": load, "regard.watch": watch}
CLASSES: dict[str, tuple[type, ...]] = {  # with the classes whose methods count as its own
    "Run": (Run,),
    "Capture": (Capture, MapSet),
    "Map": (Map,),
    "TrainingHistory": (TrainingHistory,),
    "regard.TextClassifier": (TextClassifier,),
}


def described(text: str) -> str:
    """A docstring: prose is wrapped, what is set out in columns stays as it is."""
    blocks = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        is_table = re.search(r"^\w+: {2,}\S", paragraph, re.MULTILINE)
        blocks.append(f"```\n{paragraph}\n```" if is_table else wrapped(markdown(paragraph)))
    return "\n\n".join(blocks)


def call_of(name: str, function: Callable[..., object]) -> str:
    """ "load(folder, device=None)": names and defaults; the docstring says the rest."""
    parts, is_keyword = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword:
            parts.append("*")
            is_keyword = True
        parts.append(parameter.name + default_of(parameter))
    return f"{name}({', '.join(parts)})"


def default_of(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    return "={}" if isinstance(parameter.default, type(type.__dict__)) else f"={parameter.default!r}"


def methods_of(classes: tuple[type, ...]) -> Iterator[tuple[str, object]]:
    """What a class defines for its callers, in the order of the code; the first of the classes wins."""
    seen = set()
    for owner in classes:
        for name, member in vars(owner).items():
            if not name.startswith("_") and name not in seen and documented(member):
                seen.add(name)
                yield name, member


def documented(member: object) -> str:
    function = member.__func__ if isinstance(member, classmethod) else member
    is_own = inspect.isfunction(function) or isinstance(member, property) or type(member).__name__ == "cached_property"
    return inspect.getdoc(function) or "" if is_own else ""


def class_section(name: str, classes: tuple[type, ...]) -> str:
    first = classes[0]
    text = vars(first).get("__doc__") or ""
    rows = []
    for method, member in methods_of(classes):
        function = member.__func__ if isinstance(member, classmethod) else member
        shown = call_of(method, function) if inspect.isfunction(function) else method
        rows.append(f"| `{shown}` | {cell(markdown(documented(member)))} |")
    if dataclasses.is_dataclass(first):
        own = [
            f"| `{field.name}` | {cell(words)} |"
            for field in dataclasses.fields(first)
            if (words := said(first, field))
        ]
        rows = own + rows
    table = "\n".join(["| name | what it is |", "|---|---|", *rows]) if rows else ""
    return "\n\n".join(filter(None, [f"## {name}", described(text), table]))


def said(owner: type, field: "dataclasses.Field[object]") -> str:
    home = next((kind for kind in owner.__mro__ if field.name in vars(kind).get("__annotations__", {})), owner)
    return meaning(home, field.name)


def answer_of(verb: type[AnyRequest]) -> type | None:
    """The class of the answers of a verb, if it is one of ours."""
    for base in (parent for kind in verb.__mro__ for parent in vars(kind).get("__orig_bases__", ())):
        for kind in get_args(base):
            for inner in (kind, *get_args(kind)):
                if dataclasses.is_dataclass(inner) and isinstance(inner, type):
                    return inner
    return None


def answer_name(verb: type[AnyRequest]) -> str:
    for base in (parent for kind in verb.__mro__ for parent in vars(kind).get("__orig_bases__", ())):
        for kind in get_args(base):
            if not isinstance(kind, TypeVar):
                return name_of(kind)
    return ""


def verb_row(verb: type[AnyRequest]) -> str:
    fields = [
        field.name + ("" if field.default is dataclasses.MISSING else f"={field.default!r}")
        for field in dataclasses.fields(verb)
    ]
    words = markdown(first_sentence(inspect.getdoc(verb) or ""))
    return f"| `run.{verb.name}({', '.join(fields)})` | `{answer_name(verb)}` | {cell(words)} |"


def answer_section(kind: type) -> str:
    hints = get_type_hints(kind)
    rows = [
        f"| `{field.name}` | `{cell(name_of(hints[field.name]))}` | {cell(said(kind, field))} |"
        for field in dataclasses.fields(kind)
    ]
    about = inspect.getdoc(kind) or ""
    text = "" if about.startswith(f"{kind.__name__}(") else described(about)  # Python's own words for a dataclass
    return "\n\n".join(filter(None, [f"### {kind.__name__}", text, "\n".join([HEADS, *rows])]))


HEADS = "| field | type | what it is |\n|---|---|---|"


def name_of(hint: object) -> str:
    """A type as the code writes it, without the modules that its names come from."""
    name = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    return re.sub(r"[\w.]+\.", "", name)


def page() -> str:
    sections = [
        f"## {name}\n\n```python\n{call_of(name, function)}\n```\n\n{described(inspect.getdoc(function) or '')}"
        for name, function in FUNCTIONS.items()
    ]
    sections += [class_section(name, classes) for name, classes in CLASSES.items()]
    kinds = dict.fromkeys(kind for verb in VERBS.values() if (kind := answer_of(verb)) is not None)
    return API.format(
        sections="\n\n".join(sections),
        verbs="\n".join(verb_row(verb) for verb in VERBS.values()),
        answers="\n\n".join(answer_section(kind) for kind in kinds),
    )


def gaps() -> list[str]:
    """Verbs and functions without a docstring."""
    things = {**FUNCTIONS, **{f"run.{name}": verb for name, verb in VERBS.items()}}
    return [f"docs/api.md: {name} has no docstring" for name, thing in things.items() if not inspect.getdoc(thing)]
