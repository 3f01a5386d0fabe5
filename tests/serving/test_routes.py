"""Every route answers what the run itself answers; what does not fit is refused in words of our own."""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from asked import REQUESTS, image, request, text
from hostile_requests import BODIES, TRAVERSALS
from starlette.testclient import TestClient

from regard.runs.run import Run
from regard.serving.app import Server
from regard.serving.keys import Keys
from regard.serving.limits import Limits
from regard.viewer.page import digest, own_script, own_style

KEY = "0123456789abcdef0123"
CHAT = [{"role": "user", "content": "what says the cat"}]


@pytest.fixture(scope="module")
def client(runs: dict[str, Run]) -> Iterator[TestClient]:
    with TestClient(Server(runs).app, base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def narrow(runs: dict[str, Run]) -> Iterator[TestClient]:
    limits = Limits(texts=4, text_chars=100, tokens=60, new_tokens=32, attention_tokens=10, attention_cells=20)
    with TestClient(Server(runs, limits).app, base_url="http://localhost") as client:
        yield client


@pytest.mark.sampled("every case asks a server of its own")
@pytest.mark.parametrize("verb", REQUESTS)
def test_every_verb_answers_as_the_run_does(client: TestClient, runs: dict[str, Run], verb: str) -> None:
    for i in (0, 7):
        path, body, expected = request(verb, i, runs)
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == json.loads(json.dumps(expected))


def test_every_verb_has_its_route(client: TestClient, runs: dict[str, Run]) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    offered = {verb for run in runs.values() for verb in run.verbs}
    of_files = {"reach", "point", "alignments"}  # name files of the machine, or take what only Python has
    assert {f"/v1/{verb}" for verb in offered - of_files} <= set(paths)
    assert not {f"/v1/{verb}" for verb in of_files} & set(paths)


def test_several_runs_by_name(client: TestClient) -> None:
    body: dict[str, Any] = {"lines": ["the cat"]}
    assert "name a run" in client.post("/v1/embed", json=body).json()["error"]["message"]
    for model, status in (("translation", 200), ("../translation", 404), ("", 404), ("forecasting", 400)):
        assert client.post("/v1/embed", json={**body, "model": model}).status_code == status
    assert client.post("/v1/classify", json=body).json()["model"] == "classification"  # the only one that can


def test_streams_give_what_generate_gives(client: TestClient, runs: dict[str, Run]) -> None:
    body = {"model": "language", "prompt": "The cat", "length": 6}
    lines = client.post("/v1/stream", json=body).text.split("\n\n")
    pieces = [json.loads(line.removeprefix("data: "))["text"] for line in lines[:-2]]
    assert lines[-2:] == ["data: [DONE]", ""]
    assert "".join(pieces) == runs["language"].generate("The cat", 6)[0].text


def test_a_beam_streams_what_its_hypotheses_agree_on(client: TestClient, runs: dict[str, Run]) -> None:
    body = {"model": "language", "prompt": "The cat", "length": 6, "decoding": {"beam": 3}}
    lines = client.post("/v1/stream", json=body).text.split("\n\n")
    pieces = [json.loads(line.removeprefix("data: "))["text"] for line in lines[:-2]]
    decoding = replace(runs["language"].recipe.decoding, beam=3)
    assert "".join(pieces) == runs["language"].generate("The cat", 6, decoding=decoding)[0].text


def test_completions(client: TestClient, runs: dict[str, Run]) -> None:
    asked = {"model": "language", "prompt": ["The cat", "A dog"], "max_tokens": 5}
    answer = client.post("/v1/completions", json={**asked, "logprobs": 2, "stop": "zzz"}).json()
    expected = [group[0] for group in runs["language"].generate(["The cat", "A dog"], 5)]
    assert [choice["text"] for choice in answer["choices"]] == [written.text for written in expected]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length", "length"]
    assert len(answer["choices"][0]["logprobs"]["top_logprobs"][0]) == 2
    drawn = {**asked, "temperature": 1.5, "n": 3, "seed": 5}
    texts = [[c["text"] for c in client.post("/v1/completions", json=drawn).json()["choices"]] for _ in range(2)]
    assert texts[0] == texts[1] and len(texts[0]) == 6
    first = expected[0].text
    stop = {**asked, "prompt": "The cat", "stop": [first[-1]]}
    assert client.post("/v1/completions", json=stop).json()["choices"][0]["text"] == first[: first.index(first[-1])]


def test_embeddings_in_base64(client: TestClient, runs: dict[str, Run]) -> None:
    body = {"model": "language", "input": ["The cat", "A dog"], "encoding_format": "base64"}
    rows = client.post("/v1/embeddings", json=body).json()["data"]
    vectors = np.array([np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in rows])
    assert np.array_equal(vectors, runs["language"].embed(["The cat", "A dog"]))


def test_libretranslate(client: TestClient, runs: dict[str, Run]) -> None:
    pair = {"source": "source", "target": "target"}
    alone = {line: runs["translation"].translate(line).text for line in ("the cat", "a dog")}
    one = client.post("/translate", json={"q": "the cat", **pair}).json()
    assert one == {"translatedText": alone["the cat"]}
    many = client.post("/translate", data={"q": ["the cat", "a dog"], **pair}).json()
    assert many == {"translatedText": list(alone.values())}
    others = client.post("/translate", data={"q": "the cat", "alternatives": "2", **pair}).json()
    assert len(set(others["alternatives"])) == 2
    html = {"q": "<p class=x>the cat<br>a dog</p>", "format": "html", **pair, "source": "auto"}
    page = client.post("/translate", json=html).json()
    assert page["translatedText"] == f"<p class=x>{alone['the cat']}<br>{alone['a dog']}</p>"
    assert page["detectedLanguage"]["language"] == "source"
    assert client.get("/frontend/settings").json()["keyRequired"] is False
    wrong = client.post("/translate", json={"q": "the cat", "source": "xx", "target": "yy"})
    assert wrong.status_code == 400 and wrong.json()["error"].startswith("source, target: ")
    assert client.post("/translate", content=b"q=1", headers={"Content-Type": "text/plain"}).status_code == 415


def test_attention(client: TestClient, runs: dict[str, Run]) -> None:
    body = {"model": "translation", "input": "the cat says", "layers": [0], "heads": [1]}
    maps = client.post("/v1/attention", json=body).json()["maps"]
    expected = runs["translation"].look("the cat says", layers=[0], heads=[1])
    assert [(m["kind"], m["layer"], m["head"]) for m in maps] == [("encoder", 0, 1), ("decoder", 0, 1), ("cross", 0, 1)]
    assert maps[0]["weights"] == np.round(expected.maps[0].weights.astype(np.float64), 7).tolist()
    assert client.post("/v1/attention", json={"model": "captions", "input": image(1)}).status_code == 200
    assert client.post("/v1/attention", json={**body, "layers": [9]}).status_code == 400


def test_pages_need_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.post("/v1/attention", json={"model": "language", "input": "The cat", "format": "page"}).text
    assert "The cat" in page
    for path in ("/", "/docs"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert digest(own_script()) in policy and digest(own_style()) in policy and "unsafe" not in policy
        for link in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
            assert link.startswith("/") and client.get(link).status_code == 200
        assert not re.search(r"<script>|<style|onclick|https?://", answer.text)


@pytest.mark.parametrize(
    "path, body, cap",
    [
        ("/v1/classify", {"lines": ["a"] * 5}, "texts"),
        ("/v1/classify", {"lines": ["a" * 101]}, "text_chars"),
        ("/v1/classify", {"lines": ["the cat " * 10] * 4}, "tokens"),
        ("/v1/generate", {"model": "language", "prompts": ["a"], "length": 99}, "new_tokens"),
        ("/v1/generate", {"model": "language", "prompts": ["a"], "stop": ["a"] * 9}, "stops"),
        ("/v1/generate", {"model": "language", "prompts": ["a"], "n_likeliest": 999}, "likeliest"),
        ("/v1/translate", {"lines": ["a"], "decoding": {"beam": 99}}, "beams"),
        ("/v1/translate", {"lines": ["a"], "decoding": {"sample": True, "n_best": 99}}, "n"),
        ("/v1/play", {"episodes": 99}, "episodes"),
        ("/v1/completions", {"model": "language", "prompt": "a", "n": 99}, "n"),
        ("/v1/completions", {"model": "language", "prompt": "a", "max_tokens": 99}, "new_tokens"),
        ("/v1/completions", {"model": "language", "prompt": "a", "stop": "a" * 101}, "stop_chars"),
        ("/v1/chat/completions", {"model": "chat", "messages": CHAT * 5}, "texts"),
        ("/v1/embeddings", {"model": "language", "input": ["a" * 101]}, "text_chars"),
        ("/translate", {"q": "a", "source": "source", "target": "target", "alternatives": 99}, "alternatives"),
        ("/v1/attention", {"model": "language", "input": "the cat " * 6}, "attention_tokens"),
        ("/v1/attention", {"model": "language", "input": "the cat " * 4}, "attention_cells"),
    ],
)
def test_every_cap_names_itself(narrow: TestClient, path: str, body: dict[str, Any], cap: str) -> None:
    answer = narrow.post(path, json=body)
    assert answer.status_code == 400 and f"the server's cap {cap})" in answer.text


def test_faults_name_their_field(client: TestClient) -> None:
    asked = {"model": "translation", "lines": ["the cat"]}
    for body, message in (
        ({**asked, "zanzibar": 1}, "zanzibar: is not a parameter of this route"),
        ({**asked, "decoding": {"zanzibar": 1}}, "decoding.zanzibar: is not a parameter of this route"),
        ({**asked, "decoding": {"a b": 1}}, "the body: is not a parameter of this route"),
        ({**asked, "decoding": {"beam": "zanzibar"}}, "decoding: must be a whole number"),
    ):
        assert client.post("/v1/translate", json=body).json()["error"]["message"] == message
    target = {"model": "translation", "input": "the cat", "target": "a" * 50_001}
    assert client.post("/v1/attention", json=target).json()["error"]["param"] == "target"


@pytest.mark.sampled("every case asks a server of its own", cases=3)
@pytest.mark.parametrize("name", BODIES)
def test_hostile_bodies(client: TestClient, name: str) -> None:
    for path in ("/v1/embed", "/v1/completions", "/v1/chat/completions", "/v1/play", "/translate", "/v1/attention"):
        answer = client.post(path, content=BODIES[name], headers={"Content-Type": "application/json"})
        assert 400 <= answer.status_code < 500 or "surrogate" in name, (path, answer.text)
        assert "zanzibar" not in answer.text or answer.status_code == 200


def test_names_cannot_leave_the_command_line(client: TestClient) -> None:
    page = client.get("/").content
    for name in TRAVERSALS[::25]:
        answer = client.post("/v1/completions", json={"model": name, "prompt": "a"})
        assert answer.status_code == 404 and name not in answer.text
        assert 400 <= client.get(f"/v1/models/{quote(name, safe='')}").status_code < 500
        file = client.get(f"/static/{quote(name, safe='')}")
        assert 400 <= file.status_code < 500 or file.content == page  # this client walks /static/.. by itself


def test_every_route_without_a_key_is_refused(runs: dict[str, Run]) -> None:
    server = Server(runs, keys=Keys([KEY]))
    with TestClient(server.app, base_url="http://localhost") as client:
        paths = client.get("/openapi.json", headers={"Authorization": f"Bearer {KEY}"}).json()["paths"]
        for path, methods in paths.items():
            for method in methods:
                status = client.request(method, path.replace("{model}", "chat")).status_code
                assert status == (200 if path in ("/health", "/ready") else 401), path
        assert client.get("/openapi.json").status_code == client.get("/nothing").status_code == 401
        for path in ("/", "/docs", "/static/look.js"):
            assert client.get(path).status_code == 200
        form = {"q": text(1), "source": "source", "target": "target", "api_key": KEY}
        assert client.post("/translate", data=form).status_code == 200


def test_metrics(client: TestClient) -> None:
    client.post("/v1/classify", json={"lines": ["the cat"]})
    page = client.get("/metrics").text
    assert 'regard_requests_total{route="/v1/classify",status="200"}' in page
    assert "regard_running 0.0" in page and "process_resident_memory_bytes" in page
