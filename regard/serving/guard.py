"""What every request passes before a route sees it: names, origins, keys, sizes, and the time to arrive."""

import asyncio
import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.keys import Keys, bearer
from regard.serving.limits import Limits
from regard.serving.metrics import ServerMetrics
from regard.serving.refusal import Refusal
from regard.serving.stepping import Gone

log = logging.getLogger("regard.serving")

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
NAME = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::[0-9]{1,5})?")  # of a Host header, in lower case
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
MEANT = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SECURITY = {
    b"content-security-policy": MEANT,  # of answers that no browser shows; pages have their own
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Who may come in, and by which paths."""

    names: Collection[str]  # that the server is called by
    keys: Keys
    limits: Limits
    origins: Collection[str] = ()  # of other pages that may ask (CORS)
    public: Collection[str] = field(default_factory=tuple)  # paths that need no key
    keyed_by_body: Collection[str] = field(default_factory=tuple)  # paths that also take LibreTranslate's api_key


class Gate:
    def __init__(self, app: ASGIApp, entry: Entry, metrics: ServerMetrics, check_queue: Callable[[], None]) -> None:
        self.app, self.entry, self.metrics, self.check_queue = app, entry, metrics, check_queue
        self.limits = entry.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        began, status, n_bytes = time.monotonic(), 0, 0

        async def send_safely(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                given = {name.lower() for name, _ in headers}
                message["headers"] = headers + [pair for pair in SECURITY.items() if pair[0] not in given]
            await send(message)

        try:
            headers = Headers(scope=scope)
            self.check_headers(scope, headers)
            is_known = self.check_key(scope["path"], headers)
            body = await self.read_body(headers, receive)
            n_bytes = len(body)
            if not is_known and not self.entry.keys.knows(key_in(body, headers)):
                raise no_key()
            if scope["method"] == "POST":
                self.check_queue()  # under pressure a refusal must cost little: before a body is understood
            await self.app(scope, replayed(body, receive), send_safely)
        except Refusal as refusal:
            answer = JSONResponse(error_record(refusal, scope["path"], self.entry), refusal.status, refusal.headers)
            self.metrics.refused.labels(refusal.code or str(refusal.status)).inc()
            await answer(scope, receive, send_safely)
        except Gone:
            self.metrics.left.inc()
            status = 499  # as nginx counts it; nobody reads the answer
        except Exception as error:
            self.metrics.failed.inc()
            log_fault(error)
            if not status:
                await JSONResponse(FAULT.record(), 500)(scope, receive, send_safely)
        finally:
            self.note(scope, status, time.monotonic() - began, n_bytes)

    # Checks.

    def check_headers(self, scope: Scope, headers: Headers) -> None:
        n_bytes = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        n_bytes += sum(len(name) + len(value) for name, value in scope["headers"])
        self.limits.check(n_bytes, "header_bytes", "the headers", 431)
        names = headers.getlist("host")
        match = NAME.fullmatch(names[0].lower()) if len(names) == 1 else None
        if match is None or match[1] not in self.entry.names:
            raise Refusal(421, "the Host header is not a name of this server; add it with --name", code="host")
        self.check_origin(scope["method"], headers, names[0].lower())

    def check_origin(self, method: str, headers: Headers, host: str) -> None:
        """A page of another site may not ask, whatever it knows."""
        for origin in headers.getlist("origin"):
            if origin not in self.entry.origins and origin.lower() not in (f"http://{host}", f"https://{host}"):
                raise Refusal(
                    403, "pages of other sites may not ask this server; allow one with --origin", code="origin"
                )
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site") and "origin" not in headers
        if is_foreign and method not in SAFE_METHODS:
            raise Refusal(403, "pages of other sites may not ask this server", code="origin")

    def check_key(self, path: str, headers: Headers) -> bool:
        """Whether the key is known; where it may stand in the body, that is seen later."""
        if path in self.entry.public or self.entry.keys.knows(bearer(headers.get("authorization"))):
            return True
        if path not in self.entry.keyed_by_body:
            raise no_key()
        return False

    async def read_body(self, headers: Headers, receive: Receive) -> bytes:
        """All of it, within the caps of size and time."""
        stated = headers.get("content-length", "0")
        if stated.isdecimal() and len(stated) < 20:
            self.limits.check(int(stated), "body_bytes", "the body", 413)
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    body += message.get("body", b"")
                    self.limits.check(len(body), "body_bytes", "the body", 413)
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            seconds = f"{self.limits.read_seconds:g} s"
            raise Refusal(408, f"the body took longer than {seconds} (the server's cap read_seconds)") from None

    # What is kept of a request: nothing that was sent.

    def note(self, scope: Scope, status: int, seconds: float, n_bytes: int) -> None:
        path = route_of(scope)
        self.metrics.requests.labels(path, str(status)).inc()
        self.metrics.seconds.labels(path).observe(seconds)
        method = scope["method"] if scope["method"] in (*SAFE_METHODS, "POST", "PUT", "DELETE", "PATCH") else "other"
        log.info("%s %s %d %.0f ms, %d bytes", method, path, status, 1000 * seconds, n_bytes)


FAULT = Refusal(500, "the server failed to answer this request; its log says where")


def no_key() -> Refusal:
    return Refusal(401, "a key is missing or unknown: send Authorization: Bearer KEY", code="key")


def error_record(refusal: Refusal, path: str, entry: Entry) -> dict[str, object]:
    """LibreTranslate's clients expect a plain text."""
    return {"error": refusal.message} if path in entry.keyed_by_body else refusal.record()


def route_of(scope: Scope) -> str:
    """The route as it was declared, and not what the client wrote."""
    route = scope.get("route")
    return "unknown" if route is None else route.path


def key_in(body: bytes, headers: Headers) -> str | None:
    """LibreTranslate's api_key, of JSON or of a form."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            sent = json.loads(body)
            key = sent.get("api_key") if isinstance(sent, dict) else None
            return key if isinstance(key, str) else None
        return parse_qs(body.decode("utf-8")).get("api_key", [None])[0]
    except (ValueError, RecursionError):
        return None


def replayed(body: bytes, receive: Receive) -> Receive:
    """What was read, again; then what comes, which is the end of the connection."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again


def log_fault(error: Exception) -> None:
    """Where, and of which type: the message of an error may repeat what was sent."""
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("%s at %s", type(error).__name__, " < ".join(reversed(places[-8:])))
