"""/v1/attention: where a served model looks, for the layers and heads that are asked for, as JSON or as a page."""

import json
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, create_model
from pydantic import Field as FormField

from regard.errors import RegardError
from regard.serving.bodies import body_of, received
from regard.serving.schema import STRICT, one_of_wires
from regard.serving.service import Service, as_refusal
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus
from regard.viewer.page import page


def attention_form(service: Service) -> type[BaseModel]:
    wires = {run.task.wire.meaning: run.task.wire for run in service.runs.values()}
    counted = FormField(default=None, description="counted from 0; left out: all")
    own = FormField(default=None, description="what the model writes; left out: its own answer")
    form: dict[str, Any] = {
        "model": (str | None, None),
        "input": (one_of_wires(wires.values()), FormField(description=" or ".join(wires))),
        "target": (str | None, own),
        "layers": (list[int] | None, counted),
        "heads": (list[int] | None, counted),
        "part": (int, FormField(default=1, ge=1, description="which part of a text that is too long and was split")),
        "vectors": (bool, FormField(default=False, description="also queries, keys and values")),
        "format": (
            Literal["json", "page"],
            FormField(default="json", description="page: HTML that needs nothing else"),
        ),
    }
    return create_model("Attention", __config__=STRICT, **form)


def attention_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["attention"])

    fields = attention_form(service)

    @router.post("/attention", openapi_extra=body_of(fields))
    async def attention(http: Request) -> Response:
        """The attention of a model while it reads the input and, where it writes, its answer or the given target."""
        form = dict(await received(http, fields))
        name = service.choose(form["model"])
        run, limits = service.runs[name], service.limits
        for field in ("input", "target"):
            if isinstance(form[field], str) and run.task.wire.is_text:
                limits.check(len(form[field]), "text_chars", field)
        focus = Focus(layers=form["layers"], heads=form["heads"], vectors=form["vectors"], part=form["part"])
        try:
            source = run.task.wire.read(form["input"], "input")
        except RegardError as error:
            raise as_refusal(error, form) from None

        def as_json(capture: Capture) -> str:
            return json.dumps({"model": name, **json.loads(capture.to_json())})

        is_page = form["format"] == "page"
        shown = await service.look(http, name, source, form["target"], focus, page if is_page else as_json)
        return HTMLResponse(shown) if is_page else Response(shown, media_type="application/json")

    return router
