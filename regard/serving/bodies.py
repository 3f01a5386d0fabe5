"""Bodies: JSON or forms, checked against the form of a route, and what /openapi.json says of them."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from regard.serving.faults import fields_refused
from regard.serving.refusal import Refusal

JSON = "application/json"
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
MOST_FAULTS = 100  # of a body: to list more takes time, and one is told
MOST_FIELDS = 1_000  # of an HTML form

F = TypeVar("F", bound=BaseModel)


async def received(http: Request, form: type[F], takes_forms: bool = False) -> F:
    """The body as the form of a route."""
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == JSON:
            return checked(form, json.loads(await http.body()))
        if takes_forms and kind in FORMS:
            async with http.form(max_files=0, max_fields=MOST_FIELDS) as sent:
                return checked(form, from_form(sent))
    except (ValueError, RecursionError, MultiPartException):
        raise Refusal(400, "the body cannot be read: it is not what its Content-Type says") from None
    kinds = ", ".join((JSON, *FORMS) if takes_forms else (JSON,))
    raise Refusal(415, f"the body must have the Content-Type {kinds}")


def checked(form: type[F], sent: object) -> F:
    try:
        return form.model_validate(sent)
    except ValidationError as error:
        if error.error_count() > MOST_FAULTS:
            raise Refusal(400, "the body: many fields do not fit; see /openapi.json") from None
        raise fields_refused(error.errors(include_url=False, include_input=False)) from None


def from_form(sent: FormData) -> dict[str, object]:
    """Forms know texts alone; a name that comes twice is a list."""
    fields: dict[str, object] = {}
    for name in sent:
        values = sent.getlist(name)
        fields[name] = values[0] if len(values) == 1 else list(values)
    number = fields.get("alternatives")
    if isinstance(number, str) and number.isascii() and number.isdecimal() and len(number) < 10:
        fields["alternatives"] = int(number)
    return fields


def body_of(form: type[BaseModel], takes_forms: bool = False) -> dict[str, Any]:
    """The body of a route, for its entry in /openapi.json."""
    schema = form.model_json_schema()
    whole = without_references(schema, schema.pop("$defs", {}))
    kinds = (JSON, FORMS[0]) if takes_forms else (JSON,)
    return {"requestBody": {"required": True, "content": {kind: {"schema": whole} for kind in kinds}}}


def without_references(schema: Any, definitions: dict[str, Any]) -> Any:
    """With what it refers to in place: no schema here contains itself."""
    if isinstance(schema, list):
        return [without_references(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return without_references(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: without_references(part, definitions) for name, part in schema.items()}
