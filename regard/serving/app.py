"""The application: all routes over one service, behind one gate."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

import regard
from regard.runs.run import Run
from regard.serving import front, libretranslate, status
from regard.serving.attention import attention_routes
from regard.serving.guard import LOCAL_NAMES, Entry, Gate, error_record
from regard.serving.host import Host
from regard.serving.keys import Keys
from regard.serving.limits import Limits
from regard.serving.metrics import ServerMetrics
from regard.serving.openai_routes import openai_routes
from regard.serving.refusal import NotFound, Refusal
from regard.serving.service import Service
from regard.serving.verb_routes import verb_routes

ERRORS: dict[int | str, dict[str, Any]] = {"4XX": {"description": "refused; the message names the field or the cap"}}
NO_ANSWER = {404: "there is nothing here; /docs shows what there is", 405: "another method is needed here; see /docs"}


class Server:
    """A service with its application: `app` is what uvicorn runs."""

    def __init__(
        self,
        runs: Mapping[str, Run],
        limits: Limits | None = None,
        keys: Keys | None = None,
        names: Collection[str] = LOCAL_NAMES,
        origins: Collection[str] = (),
    ) -> None:
        self.limits, self.keys = limits or Limits(), keys or Keys()
        self.metrics = ServerMetrics()
        self.service = Service(Host(runs), self.limits, self.metrics)
        self.entry = Entry(
            names=frozenset(names),
            keys=self.keys,
            limits=self.limits,
            origins=frozenset(origins),
            public=frozenset([*status.PUBLIC, *front.FILES]),
            keyed_by_body=frozenset(libretranslate.PATHS),
        )
        self.app: ASGIApp = Gate(self.inner(origins), self.entry, self.metrics, self.service.admission.check_queue)

    def inner(self, origins: Collection[str]) -> ASGIApp:
        app = FastAPI(
            title="regard",
            version=regard.__version__,
            docs_url=None,
            redoc_url=None,
            responses=ERRORS,
            lifespan=self.life,
        )
        for router in (
            status.status_routes(self.service),
            openai_routes(self.service),
            libretranslate.libretranslate_routes(self.service, self.keys),
            attention_routes(self.service),
            verb_routes(self.service),
            front.page_routes(),
        ):
            app.include_router(router)
        app.exception_handler(HTTPException)(self.refuse_path)
        app.exception_handler(Refusal)(self.refuse)
        if not origins:
            return app
        methods, headers = ["GET", "POST"], ["Authorization", "Content-Type"]
        return CORSMiddleware(app, allow_origins=list(origins), allow_methods=methods, allow_headers=headers)

    @asynccontextmanager
    async def life(self, app: FastAPI) -> AsyncIterator[None]:
        yield
        self.service.admission.close()
        self.service.host.close()

    # Errors.

    async def refuse(self, http: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        self.metrics.refused.labels(error.code or str(error.status)).inc()
        return JSONResponse(error_record(error, http.url.path, self.entry), error.status, error.headers)

    async def refuse_path(self, http: Request, error: Exception) -> Response:
        """What routing found wrong: no such path, or another method."""
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            return await self.refuse(http, NotFound(NO_ANSWER[404]))
        message = NO_ANSWER.get(error.status_code, "the request cannot be read")
        return await self.refuse(http, Refusal(error.status_code, message))
