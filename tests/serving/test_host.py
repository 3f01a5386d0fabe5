"""Model work of a server: who leaves frees its rows within two steps, and a step that fails ends its own requests."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from starlette.testclient import TestClient

from regard.decoding.config import DecodingConfig
from regard.decoding.engine import Engine
from regard.runs.run import Run
from regard.serving.app import Server
from regard.serving.host import Host
from regard.serving.stepping import Gone
from regard.tasks.language.verbs import Generate, StreamText

LENGTH = 12  # steps of a search that nobody ends


@pytest.fixture
def host(runs: dict[str, Run]) -> Iterator[Host]:
    host = Host({task: runs[task] for task in ("language", "chat")})
    yield host
    host.close()


class Steps:
    """After each step of an engine, how many searches have rows; `at` is called before a step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, engine: Engine, at: Callable[[int], None]) -> None:
        self.n_running: list[int] = []
        step = engine.step

        def counted() -> Any:
            at(len(self.n_running))
            over = step()
            self.n_running.append(len(engine.running))
            return over

        monkeypatch.setattr(engine, "step", counted)


@pytest.mark.parametrize("beam", [1, 3])
def test_who_leaves_frees_its_rows_within_two_steps(
    host: Host, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch, beam: int
) -> None:
    gone = Event()
    steps = Steps(monkeypatch, runs["language"].engine, lambda n: gone.set() if n == 2 else None)
    request = Generate(["The cat", "a dog"], LENGTH, DecodingConfig(beam=beam))
    with pytest.raises(Gone):
        host.answer("language", request, gone)
    for _ in range(200):  # the thread that steps may be about to
        if runs["language"].engine.is_idle:
            break
        Event().wait(0.01)
    assert steps.n_running[:3] == [2, 2, 2] and steps.n_running[3:5] in ([0], [0, 0])
    assert (
        host.answer("language", Generate(["The cat"], 3))[0][0].text == runs["language"].generate("The cat", 3)[0].text
    )


def test_who_stops_listening_frees_its_rows(host: Host, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Event()
    steps = Steps(monkeypatch, runs["language"].engine, lambda n: gone.set() if n == 4 else None)
    with pytest.raises(Gone):
        list(host.stream("language", StreamText("The cat", LENGTH), gone))
    assert len(steps.n_running) <= 6


def test_others_go_on_while_one_leaves(host: Host, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Event()
    Steps(monkeypatch, runs["language"].engine, lambda n: gone.set() if n == 3 else None)
    with ThreadPoolExecutor(2) as threads:
        leaving = threads.submit(host.answer, "language", Generate(["The cat"], LENGTH), gone)
        staying = threads.submit(host.answer, "language", Generate(["a dog"], LENGTH))
        with pytest.raises(Gone):
            leaving.result()
    assert staying.result()[0][0].text == runs["language"].generate("a dog", LENGTH)[0].text


def test_the_end_waits_for_the_step_that_runs(
    host: Host, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends in the middle of PyTorch's work is aborted, and its exit status is not 0."""
    began = Event()

    def at(n: int) -> None:
        began.set()
        time.sleep(0.1)

    Steps(monkeypatch, runs["language"].engine, at)
    gone = Event()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(host.answer, "language", Generate(["The cat"], LENGTH), gone)
        began.wait()
        host.close()
        is_over = not host.stepper.thread.is_alive()
        gone.set()
        with pytest.raises(Gone):
            asked.result()
    assert is_over
    runs["language"].engine.give_up(Gone())  # its other tests begin with nothing


@pytest.mark.parametrize("fault", [RuntimeError("secret"), ZeroDivisionError("secret")])
def test_a_step_that_fails_ends_its_own_requests(
    runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Of another run, requests go on meanwhile; of this run, they do afterwards."""

    def fail(*args: object) -> Any:
        raise fault

    served = {task: runs[task] for task in ("language", "chat")}
    body = {"prompts": ["The cat"], "length": 3}
    with TestClient(Server(served).app, base_url="http://localhost") as client:
        with monkeypatch.context() as patch:
            patch.setattr(runs["language"].engine, "step", fail)
            failed = client.post("/v1/generate", json={"model": "language", **body})
            assert failed.status_code == 500 and "secret" not in failed.text
            other = {"messages": [{"role": "user", "content": "the dog"}], "length": 3, "model": "chat"}
            assert client.post("/v1/chat", json=other).status_code == 200
        again = client.post("/v1/generate", json={"model": "language", **body})
        assert again.json()["answers"][0][0]["text"] == runs["language"].generate("The cat", 3)[0].text
        failures = [line for line in client.get("/metrics").text.splitlines() if line.startswith("regard_failed_total")]
        assert failures == ["regard_failed_total 1.0"]
