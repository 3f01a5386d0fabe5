"""A real server process: the official clients complete their examples, slow and huge requests are refused, SIGTERM."""

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import openai
import pytest
from asked import mixed
from libretranslatepy import LibreTranslateAPI
from load import disconnect, load
from process import Process, serving
from tiny_runs import Runs
from typer.testing import CliRunner

from regard.__main__ import app
from regard.commands.serve import bound
from regard.errors import ConfigError
from regard.runs.run import load as load_run

KEY = "0123456789abcdef0123"
HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def server(folders: Runs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"# whose\n{KEY}\n")
    runs = {task: folders[task] for task in ("translation", "language", "chat")}
    limits = ["read_seconds=1.0", "connections=40", "header_bytes=8192", "stop_seconds=2.0"]
    with serving(runs, "--key-file", str(keys), *(part for each in limits for part in ("--set", each))) as process:
        yield process


def test_the_official_client_of_openai(server: Process, folders: Runs) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
    run = load_run(folders["language"], "cpu")
    assert [model.id for model in client.models.list()] == ["translation", "language", "chat"]
    assert client.models.retrieve("chat").id == "chat"
    expected = run.generate("The cat", 6)[0].text
    asked = {"model": "language", "prompt": "The cat", "max_tokens": 6}
    assert client.completions.create(**asked).choices[0].text == expected
    pieces = [chunk.choices[0].text for chunk in client.completions.create(**asked, stream=True)]
    assert "".join(pieces) == expected and len(pieces) > 2
    messages = [{"role": "user", "content": "the dog"}]
    reply = client.chat.completions.create(model="chat", messages=messages, max_tokens=5)
    assert reply.choices[0].message.content == load_run(folders["chat"], "cpu").chat(messages, 5).text
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    chunks = client.chat.completions.create(model="chat", messages=messages, max_tokens=5, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks).strip() == reply.choices[0].message.content
    vectors = client.embeddings.create(model="language", input=["The cat", "a dog"]).data  # asks for base64
    assert vectors[1].embedding == pytest.approx(run.embed(["The cat", "a dog"])[1].tolist())
    with pytest.raises(openai.BadRequestError, match="presence_penalty: this parameter is not supported"):
        client.completions.create(**asked, presence_penalty=1)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0).models.list()


def test_the_client_of_libretranslate(server: Process, folders: Runs) -> None:
    client = LibreTranslateAPI(server.url, api_key=KEY)
    expected = load_run(folders["translation"], "cpu").translate("the cat says meow").text
    assert client.translate("the cat says meow", "source", "target") == expected
    assert client.detect("the cat") == [{"confidence": 100.0, "language": "source"}]
    assert [language["code"] for language in client.languages()] == ["source", "target"]


def answer_to(server: Process, sent: bytes, rest: bytes = b"") -> tuple[bytes, float]:
    """What comes back for these bytes, until the server closes; and how long that took."""
    began, answer = time.monotonic(), b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(sent)
        try:
            if rest:
                connection.sendall(rest)
            while part := connection.recv(65536):
                answer += part
        except ConnectionError:  # closed while there was more to send
            pass
        return answer, time.monotonic() - began


def test_slow_and_huge_requests(server: Process) -> None:
    head = f"Host: localhost\r\nAuthorization: Bearer {KEY}\r\n".encode()
    slow_header, seconds = answer_to(server, b"GET /health HT")
    assert b" 408 " in slow_header and b"read_seconds" in slow_header and seconds < 5
    slow_body, seconds = answer_to(
        server, b"POST /v1/embed HTTP/1.1\r\nConnection: close\r\nContent-Length: 9\r\n" + head + b"\r\n{"
    )
    assert b" 408 " in slow_body and b"read_seconds" in slow_body and seconds < 5
    long_header, _ = answer_to(
        server, b"GET /health HTTP/1.1\r\nConnection: close\r\nX: " + 9_000 * b"a" + b"\r\n" + head + b"\r\n"
    )
    assert b" 431 " in long_header and b"header_bytes" in long_header
    endless, _ = answer_to(server, b"GET /health HTTP/1.1\r\nX: ", 20_000_000 * b"a")
    assert endless == b"" or b" 431 " in endless  # the connection may break while it still sends
    assert b" 400 " in answer_to(server, b"\x16\x03\x01\x00\xff\r\n\r\n")[0]
    large = httpx.post(f"{server.url}/v1/embed", content=30_000_000 * b"a", headers=HEADERS)
    assert large.status_code == 413 and "body_bytes" in large.text
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_connections_are_counted(server: Process) -> None:
    held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
    try:
        time.sleep(0.2)
        answer, _ = answer_to(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 429 " in answer and b"Retry-After: 1" in answer and b"connections" in answer
    finally:
        for connection in held:
            connection.close()
    time.sleep(0.2)
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_clients_get_what_the_run_says_alone(server: Process, folders: Runs) -> None:
    runs = {task: load_run(folders[task], "cpu") for task in ("translation", "language", "chat")}
    tally = load(server, mixed(runs, 3), 8, lambda tally: sum(tally.statuses.values()) >= 36, headers=HEADERS)
    assert set(tally.statuses) == {200} and not tally.wrong


def test_who_leaves_frees_a_place(server: Process) -> None:
    disconnect(server, 20, HEADERS)


def test_the_log_says_nothing_of_a_text(server: Process) -> None:
    secret = "zanzibar"
    body = {"lines": [secret], "model": "translation"}
    httpx.post(f"{server.url}/v1/translate?q={secret}", json=body, headers=HEADERS)
    httpx.get(f"{server.url}/{secret}", headers=HEADERS)
    time.sleep(0.2)
    assert "POST /v1/translate 200" in server.log and "GET unknown 404" in server.log
    assert secret not in server.log and KEY not in server.log


def test_an_answer_leaves_whole() -> None:
    """It is written in two parts; the second must not wait until the first is acknowledged."""
    with bound("127.0.0.1", 0) as place, socket.create_connection(place.getsockname()), place.accept()[0] as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_another_address_needs_a_key(folders: Runs) -> None:
    done = CliRunner().invoke(app, ["serve", str(folders["chat"]), "--host", "0.0.0.0"])
    assert isinstance(done.exception, ConfigError) and "add --key-file" in str(done.exception)


def test_sigterm_finishes_what_runs_and_exits_with_0(server: Process) -> None:
    """The last test of this server."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "the dog"}], "stream": True}
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(headers=HEADERS, timeout=30))
        url = f"{server.url}/v1/chat/completions"
        answers = [stack.enter_context(client.stream("POST", url, json=body)) for _ in range(4)]
        server.child.send_signal(signal.SIGTERM)
        texts = ["".join(answer.iter_text()) for answer in answers]
    assert all(text.endswith("[DONE]\n\n") for text in texts)
    assert server.stop() == 0
    assert KEY not in server.log
