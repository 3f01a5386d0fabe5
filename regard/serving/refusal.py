"""An answer that is an error: its status, and words that repeat nothing of what was sent."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
UNTOLD = "the run cannot answer this request; check its fields against /openapi.json"
SHORTEST = 3  # characters of a word that counts as repeated


class Refusal(Exception):
    """`param` is the field it is about; `retry_after` is in seconds."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None, retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        return headers | ({"WWW-Authenticate": "Bearer"} if self.status == 401 else {})

    def record(self) -> dict[str, object]:
        """As OpenAI's clients expect it."""
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else KINDS[400])
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


class NotFound(Refusal):
    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(404, message, param=param, code=code)


def words_in(value: Any) -> Iterator[str]:
    """Everything that somebody sent, word by word."""
    if isinstance(value, str):
        yield value
        yield from value.split()
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from words_in(name)
            yield from words_in(part)
    elif isinstance(value, Iterable):
        for part in value:
            yield from words_in(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def told(error: Exception, sent: Any) -> str:
    """The message of an error, if it repeats no word that was sent and names no path; otherwise a general one."""
    message = str(error)
    mentioned = set(re.findall(r"\w+", message))
    repeats = any(
        word in mentioned if len(word) < SHORTEST else word in message for word in words_in(sent) if word.strip()
    )
    names_path = re.search(r"[/\\]", message) is not None
    return UNTOLD if repeats or names_path or not message.isprintable() else message
