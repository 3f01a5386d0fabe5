"""OpenAI's routes: /v1/models, /v1/completions, /v1/chat/completions and /v1/embeddings, as its client uses them."""

import base64
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.decoding.stopping import Stops
from regard.runs.run import Run
from regard.serving.bodies import body_of, received
from regard.serving.events import DONE, Events, event
from regard.serving.openai_forms import ChatForm, CompletionForm, EmbeddingForm
from regard.serving.refusal import NotFound
from regard.serving.service import Service
from regard.tasks.chat.verbs import Chat, ChatStream
from regard.tasks.language.verbs import Generate, StreamText, Written
from regard.tasks.request import Embed
from regard.text.tokenizer import Tokenizer

USUAL_LENGTH = 16  # max_tokens of /v1/completions, as OpenAI has it


def openai_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    began = int(time.time())

    def model_record(name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": began, "owned_by": "regard"}

    @router.get("/models")
    async def models() -> Any:
        """The runs that are served, by name."""
        return {"object": "list", "data": [model_record(name) for name in service.runs]}

    @router.get("/models/{model}")
    async def model(model: str) -> Any:
        if model not in service.runs:
            raise NotFound("there is no such run here; GET /v1/models lists them", "model", "model_not_found")
        return model_record(model)

    @router.post("/completions", openapi_extra=body_of(CompletionForm))
    async def completions(http: Request) -> Response:
        """Texts that go on from prompts."""
        form = await received(http, CompletionForm)
        form.check(service.limits)
        name = service.choose(form.model, Generate.name)
        run = service.runs[name]
        decoding = form.decoding(run.recipe.decoding, service.limits)
        length = form.max_tokens or min(USUAL_LENGTH, run.model.max_length)
        head = new_head("cmpl", "text_completion", name)
        if form.stream:
            ask = StreamText(form.prompts[0], length, decoding, form.stops)
            pieces = await service.stream(name, ask)
            return Events(completion_events(pieces, head, TokenCounts(run, form.prompts, length), form.with_usage))
        n_likeliest = 0 if form.logprobs is None else max(1, form.logprobs)
        groups = await service.ask(http, name, Generate(form.prompts, length, decoding, form.stops, n_likeliest))
        texts = [text for group in groups for text in group]
        choices = [
            {
                "index": index,
                "text": text.whole if form.echo else text.text,
                "finish_reason": "stop" if text.finished else "length",
                "logprobs": None if form.logprobs is None else likelihoods(text, form.logprobs, run.tokenizer),
            }
            for index, text in enumerate(texts)
        ]
        usage = TokenCounts(run, form.prompts, length).usage([text.text for text in texts])
        return JSONResponse(head | {"choices": choices, "usage": usage})

    @router.post("/chat/completions", openapi_extra=body_of(ChatForm))
    async def chat(http: Request) -> Response:
        """The assistant's next message."""
        form = await received(http, ChatForm)
        messages = form.check(service.limits)
        name = service.choose(form.model, Chat.name)
        run = service.runs[name]
        decoding = form.decoding(run.recipe.decoding, service.limits)
        said = [message["content"] for message in messages]
        stops = EndBefore(form.stops)
        if form.stream:
            pieces = stops.end(await service.stream(name, ChatStream(messages, form.length, decoding)))
            head = new_head("chatcmpl", "chat.completion.chunk", name)
            return Events(chat_events(pieces, head, TokenCounts(run, said, form.length), form.with_usage))
        reply = await service.ask(http, name, Chat(messages, form.length, decoding))
        text, was_cut = stops.cut(reply.text)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "finish_reason": "stop" if reply.finished or was_cut else "length",
            "logprobs": None,
        }
        usage = TokenCounts(run, said, form.length).usage([text])
        return JSONResponse(new_head("chatcmpl", "chat.completion", name) | {"choices": [choice], "usage": usage})

    @router.post("/embeddings", openapi_extra=body_of(EmbeddingForm))
    async def embeddings(http: Request) -> Response:
        """One vector for each text, the mean of the rows that the model makes of it."""
        form = await received(http, EmbeddingForm)
        form.check(service.limits)
        name = service.choose(form.model, Embed.name)
        vectors = await service.ask(http, name, Embed(form.texts))
        is_packed = form.encoding_format == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": packed(vector) if is_packed else vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        n_tokens = TokenCounts(service.runs[name], form.texts, None).n_prompt
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        return JSONResponse({"object": "list", "model": name, "data": data, "usage": usage})

    return router


def new_head(prefix: str, kind: str, model: str) -> dict[str, Any]:
    identity = f"{prefix}-{secrets.token_hex(12)}"
    return {"id": identity, "object": kind, "created": int(time.time()), "model": model}


def packed(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


class TokenCounts:
    """Tokens, as the tokenizer cuts the texts; the model may have written some of them in smaller pieces."""

    def __init__(self, run: Run, prompts: Sequence[str], length: int | None) -> None:
        self.tokenizer, self.length = run.tokenizer, length
        self.n_prompt = sum(map(len, self.tokenizer.encode_batch(list(prompts))))

    def usage(self, texts: list[str]) -> dict[str, int]:
        n_written = sum(map(len, self.tokenizer.encode_batch(texts)))
        total = self.n_prompt + n_written
        return {"prompt_tokens": self.n_prompt, "completion_tokens": n_written, "total_tokens": total}

    def reason(self, text: str) -> str:
        """Why a stream ended."""
        return (
            "length" if self.length is not None and self.usage([text])["completion_tokens"] >= self.length else "stop"
        )


class EndBefore:
    """A text that ends before the first of some strings, also while it is being written."""

    def __init__(self, stops: list[str]) -> None:
        self.stops = Stops(stops, lambda tokens: "")

    def cut(self, text: str) -> tuple[str, bool]:
        shorter = self.stops.cut(text)
        return shorter, len(shorter) < len(text)

    async def end(self, pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        text, shown = "", 0
        async with aclosing(pieces):
            async for piece in pieces:
                text += piece
                settled = self.stops.settled(text)
                if settled > shown:
                    yield text[shown:settled]
                    shown = settled
                if self.stops.place(text) >= 0:
                    return
        if text[shown:]:
            yield text[shown:]


def likelihoods(text: Written, n: int, tokenizer: Tokenizer) -> dict[str, object]:
    """log P of each token that was written, and of the `n` likeliest in its place."""
    tokens = [tokenizer.token(place.token) for place in text.places]
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    others = [{tokenizer.token(token): log_prob for token, log_prob in place.best[:n]} for place in text.places]
    log_probs = [place.log_prob for place in text.places]
    return {"tokens": tokens, "token_logprobs": log_probs, "top_logprobs": others, "text_offset": offsets}


async def completion_events(
    pieces: AsyncGenerator[str, None], head: dict[str, Any], counted: TokenCounts, with_usage: bool
) -> AsyncGenerator[str, None]:
    def chunk(text: str, reason: str | None) -> str:
        choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
        return event(head | {"choices": [choice]})

    text = ""
    async with aclosing(pieces):
        async for piece in pieces:
            text += piece
            yield chunk(piece, None)
    yield chunk("", counted.reason(text))
    if with_usage:
        yield event(head | {"choices": [], "usage": counted.usage([text])})
    yield DONE


async def chat_events(
    pieces: AsyncGenerator[str, None], head: dict[str, Any], counted: TokenCounts, with_usage: bool
) -> AsyncGenerator[str, None]:
    def chunk(delta: dict[str, str], reason: str | None) -> str:
        return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]})

    text = ""
    yield chunk({"role": "assistant", "content": ""}, None)
    async with aclosing(pieces):
        async for piece in pieces:
            text += piece
            yield chunk({"content": piece}, None)
    yield chunk({}, counted.reason(text))
    if with_usage:
        yield event(head | {"choices": [], "usage": counted.usage([text])})
    yield DONE
