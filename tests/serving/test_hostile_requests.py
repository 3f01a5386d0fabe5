"""A fixed corpus of hostile requests and random ones from the schema: no answer is a server error, and it goes on."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
import schemathesis
from hostile_requests import BODIES, TRAVERSALS
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from process import Process, serving
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from tiny_runs import Runs

from regard.runs.run import Run
from regard.serving.app import Server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(folders: Runs, runs: dict[str, Run]) -> Iterator[Process]:
    with serving(
        {task: folders[task] for task in runs}, "--set", "read_seconds=2.0", "--set", "write_seconds=1.0"
    ) as process:
        yield process


@pytest.fixture(scope="module")
def client(server: Process) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        yield client


def answers_still(client: httpx.Client) -> None:
    assert client.post("/v1/classify", json={"lines": ["the cat"]}).status_code == 200


def paths_of(client: httpx.Client) -> list[str]:
    paths: dict[str, Any] = client.get("/openapi.json").json()["paths"]
    return [path for path, methods in paths.items() if "post" in methods]


@pytest.mark.parametrize("name", BODIES)
def test_bodies(server: Process, client: httpx.Client, name: str) -> None:
    for path in paths_of(client):
        for kind in (
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain",
        ):
            answer = client.post(path, content=BODIES[name], headers={"Content-Type": kind})
            assert answer.status_code < 500, (path, kind, answer.text)
            assert answer.status_code == 200 or "zanzibar" not in answer.text
    answers_still(client)


def test_a_body_of_100_megabytes(server: Process, client: httpx.Client) -> None:
    answer = client.post("/v1/classify", content=100_000_000 * b"a")
    assert answer.status_code == 413
    answers_still(client)


def test_a_header_of_200_megabytes(server: Process, client: httpx.Client) -> None:
    before = server.memory
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
            for _ in range(200):
                connection.sendall(1_000_000 * b"a")
            assert b" 431 " in connection.recv(1000)
        except ConnectionError:
            pass  # it was closed in the middle
    answers_still(client)
    assert server.memory < before + 50_000_000


def test_slow_bodies(server: Process, client: httpx.Client) -> None:
    lines = ("POST /v1/classify HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 100")
    head = "\r\n".join([*lines, "", "{"]).encode()
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(50)]
    for connection in held:
        connection.sendall(head)
    answers_still(client)
    for connection in held:
        assert b" 408 " in connection.recv(1000)
        connection.close()


def test_a_client_that_does_not_read(server: Process, client: httpx.Client) -> None:
    """Its connection is closed after `write_seconds`, however much it asked for."""
    asked, n_asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000
    n_bytes = len(client.get("/openapi.json").content)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(n_asked * asked)
        time.sleep(8)
        answers_still(client)
        n_read = 0
        with suppress(ConnectionError):
            while part := connection.recv(2**20):
                n_read += len(part)
    assert 0 < n_read < n_asked * n_bytes


def test_other_names_and_other_sites(server: Process, client: httpx.Client) -> None:
    body = {"lines": ["the cat"]}
    for path in paths_of(client):
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Host": f"evil.example:{server.port}"}, 421),
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
        ):
            assert client.post(path, json=body, headers=headers).status_code == status
    answers_still(client)


def test_500_names(server: Process, client: httpx.Client) -> None:
    assert len(TRAVERSALS) == 500
    for name in TRAVERSALS:
        answer = client.post("/v1/embeddings", json={"model": name, "input": "a"})
        assert answer.status_code == 404 and "recipe" not in answer.text
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:  # a client would tidy the path
            path = name.encode("ascii", "ignore").replace(b" ", b"%20").replace(b"\0", b"%00")
            raw.sendall(b"GET /static/" + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            line = raw.recv(100).split(b"\r\n")[0]
            assert line.split()[1][:1] == b"4", (name, line)
    answers_still(client)


@pytest.fixture(scope="module")
def schema(runs: dict[str, Run]) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", with_name(Server(runs).app))


def with_name(app: Any) -> Any:
    """The client of schemathesis calls a server by no name that is served."""

    async def named(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            others = [pair for pair in scope["headers"] if pair[0] != b"host"]
            scope = {**scope, "headers": [*others, (b"host", b"localhost")]}
        await app(scope, receive, send)

    return named


def test_requests_from_the_schema(schema: Any) -> None:
    """Random requests for every route: those that fit its schema, and those that do not."""
    n_routes = 0
    for found in schema.get_all_operations():
        operation, n_routes = found.ok(), n_routes + 1
        for mode in GenerationMode:

            @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
            @given(case=operation.as_strategy(generation_mode=mode))
            def check(case: schemathesis.Case) -> None:
                answer = case.call()
                case.validate_response(answer, checks=[not_a_server_error])
                if answer.status_code >= 400:
                    assert json.loads(answer.content)["error"]

            with suppress(Unsatisfiable):  # a route without fields has no request that does not fit
                check()
    assert n_routes >= 25
