"""From a verb to the form of its route: the fields of its request as JSON, checked, and back to a request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache, reduce
from operator import or_
from types import NoneType
from typing import Any, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as FormField

from regard import config
from regard.decoding.config import DecodingConfig
from regard.runs.run import Run
from regard.serving.limits import CAPS, Limits
from regard.serving.refusal import Refusal
from regard.tasks.request import FOR_EACH_ANSWER, AnyRequest, checked, kinds_of
from regard.tasks.wire import Wire

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
LISTS: dict[object, Any] = {  # how JSON has what Python has
    Sequence[str]: list[str],
    Sequence[float]: list[float],
    Sequence[dict[str, str]]: list[dict[str, str]],
    tuple[int, ...]: list[int],
    tuple[tuple[int, ...], ...]: list[list[int]],
}
OWN = ("batch_tokens",)  # settings of decoding that are the server's own
MOST_IDS = 64  # ids of tokens in a setting of decoding
MOST_RATIO = 4.0  # new tokens for each that was read


@cache
def decoding_form() -> type[BaseModel]:
    """Every field may be left out: then the run's recipe says it."""
    hints = get_type_hints(DecodingConfig)
    form: dict[str, Any] = {
        field.name: (LISTS.get(hints[field.name], hints[field.name]) | None, None)
        for field in fields(DecodingConfig)
        if field.name not in OWN
    }
    return create_model("Decoding", __config__=STRICT, **form)


HINTS: dict[type[AnyRequest], dict[str, Any]] = {}  # of verbs that were asked for before


def hints_of(verb: type[AnyRequest]) -> dict[str, Any]:
    """The types of a verb's fields; to work them out takes longer than to check a body."""
    if verb not in HINTS:
        HINTS[verb] = get_type_hints(verb, include_extras=True)
    return HINTS[verb]


def is_callable(kind: object) -> bool:
    return get_origin(kind) is Callable or get_origin(kind) is get_origin(Callable[[], None])


def form_of(verb: type[AnyRequest], runs: Mapping[str, Run]) -> type[BaseModel]:
    """The body of the verb's route, for the runs that offer it."""
    hints = hints_of(verb)
    wires = {run.task.wire.meaning: run.task.wire for run in runs.values()}
    named = FormField(
        default=None, description=f"the run: one of {', '.join(runs)}; may be left out if it is the only one"
    )
    form: dict[str, Any] = {"model": (str | None, named)}
    for field in fields(verb):
        kinds = list(kinds_of(hints[field.name]))
        if not any(map(is_callable, kinds)):
            form[field.name] = (form_type(kinds, wires.values()), form_default(field, kinds, list(wires)))
    return create_model(verb.__name__, __config__=STRICT, __doc__=verb.__doc__, **form)


def form_type(kinds: list[object], wires: Iterable[Wire]) -> Any:
    types: list[Any] = []
    for kind in kinds:
        if kind == Sequence[str] and FOR_EACH_ANSWER in kinds:
            types += [part for wire in wires for part in (wire.kind, list[wire.kind])]  # type: ignore[name-defined]
        elif kind is DecodingConfig:
            types.append(decoding_form())
        elif kind is NoneType:
            types.append(None)
        elif isinstance(kind, type) or kind in LISTS:
            types.append(LISTS.get(kind, kind))
    return reduce(or_, types)


def one_of_wires(wires: Iterable[Wire]) -> Any:
    """The type of one thing that is asked about."""
    return reduce(or_, (wire.kind for wire in wires))


def form_default(field: "Field[Any]", kinds: list[object], meanings: list[str]) -> Any:
    about = " or ".join(meanings) + ", or a list of them" if FOR_EACH_ANSWER in kinds else None
    if field.default is MISSING:
        return FormField(description=about)
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return FormField(default=default, description=about)


class Asking:
    """A request in the making: what was sent, for one run, within the limits."""

    def __init__(self, run: Run, limits: Limits) -> None:
        self.run, self.limits = run, limits

    def request(self, verb: type[AnyRequest], sent: BaseModel) -> tuple[AnyRequest, list[str]]:
        """The request, and what to call each thing it asks about."""
        hints = hints_of(verb)
        values: dict[str, Any] = {}
        shown: list[str] = []
        for field in fields(verb):
            if field.name not in type(sent).model_fields:
                continue
            value = dict(sent)[field.name]
            kinds = list(kinds_of(hints[field.name]))
            if FOR_EACH_ANSWER in kinds and value is not None:
                things = [value] if self.run.task.wire.is_one(value) else value
                shown = shown or [self.run.task.wire.shown(thing, i) for i, thing in enumerate(things, start=1)]
                value = self.read(things, field.name)
            elif DecodingConfig in kinds:
                value = None if value is None else self.decoding(value.model_dump(exclude_none=True))
            else:
                self.check(value, field.name)
            values[field.name] = value
        request, _ = checked(verb(**values), self.run.task.listed)
        return request, shown

    def read(self, things: list[Any], name: str) -> list[Any]:
        self.limits.check(len(things), "texts", name)
        wire = self.run.task.wire
        if wire.is_text:
            self.limits.check_texts([thing for thing in things if isinstance(thing, str)], name)
        return [wire.read(thing, f"{name}, place {place}") for place, thing in enumerate(things)]

    def check(self, value: Any, name: str) -> None:
        """One field that is no list of things asked about."""
        if name == "stop":
            self.limits.check_stops(value)
        elif isinstance(value, list):
            self.limits.check(len(value), "texts", name)
            for part in value:
                for text in part.values() if isinstance(part, dict) else [part]:
                    self.check(text, name)
        elif isinstance(value, str):
            self.limits.check(len(value), "text_chars", name)
        elif name in CAPS:
            self.limits.check(value, CAPS[name], name)

    def decoding(self, changes: dict[str, Any]) -> DecodingConfig:
        """The recipe's settings with these changes, within the limits."""
        for name, value in changes.items():
            where = f"decoding.{name}"
            if name in CAPS:
                self.limits.check(value, CAPS[name], where)
            if isinstance(value, list) and len(value) > MOST_IDS:
                raise Refusal(400, f"{where}: at most {MOST_IDS} ids of tokens", param=where)
            if name == "length_ratio" and value > MOST_RATIO:
                raise Refusal(400, f"{where}: at most {MOST_RATIO:g}", param=where)
        settings = config.as_settings(self.run.recipe.decoding) | changes
        return config.build(DecodingConfig, settings, "decoding").within(self.limits.new_tokens)
