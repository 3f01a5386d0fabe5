"""Server-sent events: a text that comes in pieces, up to `[DONE]`, and whose work ends with its reader."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from regard.serving.guard import FAULT, log_fault
from regard.serving.refusal import Refusal
from regard.serving.stepping import Gone

DONE = "data: [DONE]\n\n"


def event(record: object) -> str:
    return f"data: {json.dumps(record, ensure_ascii=False, allow_nan=False)}\n\n"


class Events(StreamingResponse):
    """However it ends, what produces the events is closed: a search does not go on without its reader."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[str, None]) -> None:
        self.events = told_of_errors(events)
        super().__init__(self.events, headers={"X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.events.aclose()


async def told_of_errors(events: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    """An error after the first event is an event, too: the status has been sent."""
    try:
        async with aclosing(events):
            async for text in events:
                yield text
    except Refusal as refusal:
        yield event(refusal.record())
    except Gone:
        raise
    except Exception as error:
        log_fault(error)
        yield event(FAULT.record())
