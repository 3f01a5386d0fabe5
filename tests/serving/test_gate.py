"""What passes the gate: names, origins, keys, sizes and time; seen with an application that only says what it got."""

import asyncio
import json
import logging
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from regard.errors import ConfigError
from regard.serving.guard import LOCAL_NAMES, Entry, Gate
from regard.serving.keys import Keys, bearer, read_keys
from regard.serving.limits import Limits
from regard.serving.metrics import ServerMetrics
from regard.serving.refusal import UNTOLD, Refusal, told

KEY = "0123456789abcdef0123"
LIMITS = Limits(body_bytes=1000, header_bytes=2000, read_seconds=0.1)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = (await receive())["body"]
    if body == b"fail":
        raise ZeroDivisionError("a secret of the request")
    if body == b"refuse":
        raise Refusal(418, "no tea", retry_after=7)
    await JSONResponse({"n_bytes": len(body)})(scope, receive, send)


def client(keys: Keys | None = None, **settings: Any) -> TestClient:
    entry = Entry(
        names=[*LOCAL_NAMES, "served.example"],
        keys=keys or Keys(),
        limits=LIMITS,
        public=["/health"],
        keyed_by_body=["/translate"],
        **settings,
    )
    gate = Gate(echo, entry, ServerMetrics(), lambda: None)
    return TestClient(gate, base_url="http://localhost", raise_server_exceptions=False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:80", "SERVED.example", "served.example:443"])
def test_served_names(host):
    assert client().get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil", "localhost:80@evil", "", "a b"]
)
def test_other_names_are_refused(host):
    """DNS rebinding: the name of another site that leads here."""
    assert client().get("/health", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1234", "file://", "http://localhost.evil"]
)
def test_pages_of_other_sites_are_refused(origin):
    assert client().post("/", headers={"Origin": origin}).status_code == 403
    assert client().get("/", headers={"Origin": origin}).status_code == 403


def test_own_pages_and_allowed_ones_may_ask():
    assert client().post("/", headers={"Origin": "http://localhost"}).status_code == 200
    assert client().post("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    asked = client(origins=["https://app.example"]).post("/", headers={"Origin": "https://app.example"})
    assert asked.status_code == 200


def test_keys():
    keyed = client(Keys(["another-key-of-somebody", KEY]))
    assert keyed.get("/health").status_code == 200
    for wrong in ({}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": KEY}, {"Authorization": "Bearer é"}):
        answer = keyed.get("/anything", headers={name: value.encode() for name, value in wrong.items()})
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert keyed.get("/anything", headers={"Authorization": f"bearer {KEY}"}).status_code == 200
    assert keyed.post("/translate", json={"api_key": KEY}).status_code == 200
    assert keyed.post("/translate", data={"api_key": KEY}).status_code == 200
    for body in ({"json": {"api_key": "no"}}, {"json": [1]}, {"content": b"[" * 900}, {"json": {"api_key": 5}}):
        assert keyed.post("/translate", **body).json() == {
            "error": "a key is missing or unknown: send Authorization: Bearer KEY"
        }
    assert keyed.post("/other", json={"api_key": KEY}).status_code == 401


def test_a_file_of_keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# comment\n\n{KEY}\n")
    assert read_keys(path).knows(KEY) and not read_keys(path).knows(None)
    path.write_text("short\n")
    with pytest.raises(ConfigError, match="key 1 must have at least 16"):
        read_keys(path)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="openssl rand"):
        read_keys(path)
    assert Keys().knows(None) and not Keys()
    assert bearer("Basic abc") is None


def test_sizes():
    assert client().post("/", content=b"a" * 1000).json() == {"n_bytes": 1000}
    large = client().post("/", content=b"a" * 1001)
    assert large.status_code == 413 and "the server's cap body_bytes" in large.json()["error"]["message"]
    unstated = client().post("/", content=(b"a" * 100 for _ in range(11)))
    assert unstated.status_code == 413
    long = client().get("/", headers={"X-Long": "a" * 2000})
    assert long.status_code == 431 and "header_bytes" in long.text
    assert client().get("/" + "a" * 2000).status_code == 431


class Lines(logging.Handler):
    """What is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_a_fault_is_told_without_its_words(monkeypatch):
    gate, logged = client(), Lines()
    monkeypatch.setattr(logging.getLogger(), "handlers", [logged])
    answer = gate.post("/", content=b"fail")
    assert answer.status_code == 500 and "secret" not in answer.text
    assert "ZeroDivisionError at " in "".join(logged.lines) and "secret" not in "".join(logged.lines)
    tea = gate.post("/", content=b"refuse")
    assert (tea.status_code, tea.headers["retry-after"]) == (418, "7")
    assert gate.get("/").status_code == 200


def test_answers_are_safe_in_a_browser():
    headers = client().get("/").headers
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    assert (
        "default-src 'none'" in headers["content-security-policy"]
        and "frame-ancestors 'none'" in headers["content-security-policy"]
    )


def test_a_body_that_does_not_come():
    sent: list[Any] = []

    async def ask() -> None:
        async def receive() -> Any:
            await asyncio.sleep(10)

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-length", b"5")]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await client().app(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 408 and "read_seconds" in json.loads(sent[1]["body"])["error"]["message"]


@pytest.mark.parametrize(
    "message, sent, is_told",
    [
        ("an answer of many tokens does not fit the model", ["Hello"], True),
        ("no pooling 'zanzibar'; use mean or last", ["zanzibar"], False),
        ("the length must be at least 1, got 0", {"length": 0}, False),
        ("no file /etc/passwd", ["x"], False),
        ("text is cut", ["te"], True),  # two letters within a word repeat nothing
        ("text te is cut", ["te"], False),
    ],
)
def test_errors_repeat_nothing(message, sent, is_told):
    assert told(ValueError(message), sent) == (message if is_told else UNTOLD)
