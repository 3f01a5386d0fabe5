"""A route for every verb that the served runs offer: POST /v1/VERB, with the fields of the verb's request as JSON."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from regard.errors import RegardError
from regard.serving.bodies import body_of, received
from regard.serving.events import DONE, Events, event
from regard.serving.schema import Asking, form_of
from regard.serving.service import Service, as_refusal
from regard.tasks.request import AnyRequest
from regard.tasks.verbs import VERBS


def verb_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["verbs"])
    for name, verb in VERBS.items():
        runs = service.offering(name)
        if runs and verb.in_routes:
            form, about = form_of(verb, runs), (verb.__doc__ or "").strip()
            router.add_api_route(
                f"/{name}",
                route_of(service, verb, form),
                methods=["POST"],
                name=name,
                summary=about.partition("\n")[0],
                description=about,
                openapi_extra=body_of(form),
            )
    return router


def route_of(
    service: Service, verb: type[AnyRequest], form: type[BaseModel]
) -> Callable[[Request], Awaitable[Response]]:
    """The function that FastAPI makes a route of."""

    async def answer(http: Request) -> Response:
        sent = await received(http, form)
        name = service.choose(dict(sent)["model"], verb.name)
        run = service.runs[name]
        try:
            request, shown = Asking(run, service.limits).request(verb, sent)
        except RegardError as error:
            raise as_refusal(error, sent.model_dump()) from None
        if verb.streams:
            return Events(as_events(await service.stream(name, request)))
        answers = await service.ask(http, name, request)
        return JSONResponse({"model": name, "verb": verb.name, "answers": request.records(shown, answers)})

    return answer


async def as_events(pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(pieces):
        async for piece in pieces:
            yield event({"text": piece})
    yield DONE
