"""OpenAI's routes: every parameter of its client works or names itself, and tokens are counted as they were read."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_create_params
from starlette.testclient import TestClient

from regard.data.batching.template import template_of
from regard.data.files.conversations import read_messages
from regard.decoding.engine import Engine
from regard.runs.run import Run
from regard.serving.app import Server
from regard.serving.limits import Limits
from regard.serving.openai_forms import ChatForm, CompletionForm, EmbeddingForm, OpenAIForm

CHAT = [{"role": "user", "content": "what says the cat"}]
ROUTES: dict[str, tuple[type[OpenAIForm], dict[str, Any], tuple[type, ...]]] = {
    "/v1/completions": (
        CompletionForm,
        {"model": "language", "prompt": "The cat"},
        (completion_create_params.CompletionCreateParamsStreaming,),
    ),
    "/v1/chat/completions": (
        ChatForm,
        {"model": "chat", "messages": CHAT},
        (chat_create_params.CompletionCreateParamsStreaming,),
    ),
    "/v1/embeddings": (
        EmbeddingForm,
        {"model": "language", "input": "The cat"},
        (embedding_create_params.EmbeddingCreateParams,),
    ),
}
UNUSUAL = ({"zanzibar": 1}, 0.5, "zanzibar", [{"zanzibar": 1}], 3)  # none of them changes nothing


@pytest.fixture(scope="module")
def client(runs: dict[str, Run]) -> Iterator[TestClient]:
    served = {task: runs[task] for task in ("language", "chat")}
    with TestClient(Server(served).app, base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize("path", ROUTES)
def test_every_parameter_of_the_client_is_known(path: str) -> None:
    form, _, parameters = ROUTES[path]
    names = {name for kind in parameters for name in get_type_hints(kind)}
    assert names <= set(form.model_fields)
    assert set(form.neutral) <= names  # what is refused by name is one of theirs


@pytest.mark.sampled("every case asks a server of its own")
@pytest.mark.parametrize("path", ROUTES)
def test_what_is_not_supported_names_itself(client: TestClient, path: str) -> None:
    form, body, _ = ROUTES[path]
    for name in form.neutral:
        for value in UNUSUAL:
            answer = client.post(path, json={**body, name: value})
            assert answer.status_code == 400, (name, value)
            error = answer.json()["error"]
            assert (error["param"], error["message"]) == (name, f"{name}: this parameter is not supported")
    usual = {name: values[-1] for name, values in form.neutral.items()}
    assert client.post(path, json={**body, **usual}).status_code == 200
    for name, values in form.neutral.items():
        for value in values:
            form(**{**body, name: value}).check_supported()
    unknown = client.post(path, json={**body, "what": 1}).json()["error"]
    assert (unknown["param"], unknown["code"]) == ("what", "unknown_parameter")


def test_true_is_not_one(client: TestClient) -> None:
    body = {"model": "language", "prompt": "The cat", "max_tokens": 1}
    assert client.post("/v1/completions", json={**body, "best_of": 1}).status_code == 200
    assert client.post("/v1/completions", json={**body, "best_of": True}).status_code == 400


def test_stream_options_need_a_stream(client: TestClient) -> None:
    body = {"model": "language", "prompt": "The cat", "stream_options": {"include_usage": True}}
    assert client.post("/v1/completions", json=body).json()["error"]["param"] == "stream_options"


class Listening:
    """What the engines of this process read and wrote."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_read = self.n_written = 0
        step = Engine.step

        def counting(engine: Engine) -> Any:
            over = step(engine)
            for ticket in over:
                self.n_read += len(ticket.search.prompt)
                self.n_written += sum(len(best.tokens) for best in ticket.hypotheses or [])
            return over

        monkeypatch.setattr(Engine, "step", counting)


def events_of(answer: Any) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n")[:-2]]


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": 5},
        {"max_tokens": 7, "prompt": ["The cat", "a"]},
        {"max_tokens": 4, "n": 3, "temperature": 1.2, "seed": 3},
        {"max_tokens": 6, "stream": True, "stream_options": {"include_usage": True}},
        {"max_tokens": 3, "prompt": "the cat says meow " * 40},  # longer than the model reads
    ],
)
def test_completions_count_what_the_model_read_and_wrote(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    heard = Listening(monkeypatch)
    answer = client.post("/v1/completions", json={"model": "language", "prompt": "The cat", **more})
    last = events_of(answer)[-1] if "stream" in more else answer.json()
    usage = last["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (heard.n_read, heard.n_written)
    assert usage["total_tokens"] == heard.n_read + heard.n_written
    n_texts = more.get("n", 1) * (2 if isinstance(more.get("prompt"), list) else 1)
    assert 0 < usage["completion_tokens"] <= n_texts * more["max_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_chats_count_their_template(
    client: TestClient, runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    heard = Listening(monkeypatch)
    body = {"model": "chat", "messages": CHAT, "max_tokens": 5, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    answer = client.post("/v1/chat/completions", json=body)
    usage = (events_of(answer)[-1] if stream else answer.json())["usage"]
    (ids,) = template_of(runs["chat"].tokenizer).prompts([read_messages(CHAT)])
    assert usage["prompt_tokens"] == len(ids) == heard.n_read
    assert usage["completion_tokens"] == heard.n_written
    reason = (events_of(answer)[-2] if stream else answer.json())["choices"][0]["finish_reason"]
    assert reason == ("length" if heard.n_written == 5 else "stop")


def test_a_text_that_ends_says_so(client: TestClient, runs: dict[str, Run]) -> None:
    """A stop string ends the search: what would follow is neither written nor counted."""
    whole = runs["language"].generate("The cat", 12)[0].text
    body = {"model": "language", "prompt": "The cat", "max_tokens": 12, "stop": whole[:1]}
    answer = client.post("/v1/completions", json=body).json()
    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == ("", "stop")
    assert answer["usage"]["completion_tokens"] < 12
    streamed = client.post("/v1/completions", json={**body, "stream": True})
    assert events_of(streamed)[-1]["choices"][0]["finish_reason"] == "stop"


def test_chat_ends_before_a_stop_string_also_in_a_stream(client: TestClient, runs: dict[str, Run]) -> None:
    messages = [{"role": "user", "content": "the dog"}]
    whole = runs["chat"].chat(messages, 12).text
    stop = whole[2:4]
    body = {"model": "chat", "messages": messages, "max_tokens": 12, "stop": stop}
    answer = client.post("/v1/chat/completions", json=body).json()
    choice = answer["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (whole[: whole.index(stop)], "stop")
    assert answer["usage"]["completion_tokens"] < 12
    events = events_of(client.post("/v1/chat/completions", json={**body, "stream": True}))
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == whole[: whole.index(stop)]
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert runs["chat"].chat(messages, 12, stop=[stop]).text == whole[: whole.index(stop)]


def test_an_answer_can_be_sent_back_as_it_came(client: TestClient) -> None:
    body = {"model": "chat", "messages": CHAT, "max_tokens": 4}
    said = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    body["messages"] = [*CHAT, {**said, "tool_calls": None, "annotations": []}, *CHAT]
    assert client.post("/v1/chat/completions", json=body).status_code == 200
    body["messages"] = [{**said, "tool_calls": [{"id": "zanzibar"}]}]
    refused = client.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400 and "zanzibar" not in refused.text


def test_embeddings_count_what_is_read(client: TestClient, runs: dict[str, Run]) -> None:
    run, texts = runs["language"], ["The cat", "the cat says meow " * 40]
    usage = client.post("/v1/embeddings", json={"model": "language", "input": texts}).json()["usage"]
    read: list[int] = []
    features = type(run.model).features

    def counting(model: Any, tokens: Any, *others: Any) -> Any:
        read.append(tokens.numel())
        return features(model, tokens, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(run.model), "features", counting)
        run.embed(texts)
    assert usage == {"prompt_tokens": sum(read), "total_tokens": sum(read)} and sum(read) > 160


def test_greedy_where_temperature_is_0_or_a_beam_meets_a_stop_string(runs: dict[str, Run]) -> None:
    base = replace(runs["language"].recipe.decoding, beam=4)
    form = CompletionForm(model="language", prompt="a", temperature=0)
    assert form.decoding(base, Limits()).beam == 1
    assert CompletionForm(model="language", prompt="a", stop="x").decoding(base, Limits()).beam == 1
    assert CompletionForm(model="language", prompt="a").decoding(base, Limits()) == base
