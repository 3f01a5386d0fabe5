"""Fields that do not fit their form, in words of our own: the values are never repeated."""

from collections.abc import Iterable, Mapping
from typing import Any

from regard.serving.refusal import Refusal

WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is not a parameter of this route",
    "json_invalid": "is not valid JSON",
    "string_type": "must be a text",
    "string_unicode": "must be a text that UTF-8 can write",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number of 64 bits",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "none_required": "is not supported",
    "model_type": "must be an object",
    "model_attributes_type": "must be a JSON object",
}
LONGEST_NAME = 64  # of a parameter that is not known: it is named, as long as it is a name


def fields_refused(errors: Iterable[Mapping[str, Any]]) -> Refusal:
    """What pydantic found, as one refusal: the first field, and what is expected of it."""
    error = next(iter(errors))
    kind = str(error["type"])
    place = [part for part in error["loc"] if part not in ("body", "query", "path")]
    names = [part for part in place if isinstance(part, str)]
    shown = names[:1] + names[1:][-1:] if kind == "extra_forbidden" else names[:1]  # of an object: the field within it
    field = ".".join(shown) if shown and all(map(is_name, shown)) else None
    what = WORDS.get(kind, "does not fit; see /openapi.json")
    code = "unknown_parameter" if kind == "extra_forbidden" else None
    return Refusal(400, f"{field or 'the body'}: {what}", param=field, code=code)


def is_name(text: str) -> bool:
    return text.isidentifier() and text.isascii() and len(text) <= LONGEST_NAME
