"""OpenAI's routes: /v1/models, /v1/completions, /v1/chat/completions and /v1/embeddings, as its client uses them."""

import asyncio
import base64
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from regard.serving.bodies import body_of, received
from regard.serving.events import DONE, Events, event
from regard.serving.openai_forms import ChatForm, CompletionForm, EmbeddingForm
from regard.serving.refusal import NotFound
from regard.serving.service import Service
from regard.serving.usage import Usage, n_embedded
from regard.tasks.chat.verbs import Chat, ChatStream
from regard.tasks.language.verbs import Generate, StreamText, Written
from regard.tasks.request import Embed
from regard.text.tokenizer import Tokenizer

USUAL_LENGTH = 16  # max_tokens of /v1/completions, as OpenAI has it


def openai_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    began = int(time.time())

    def model_record(name: str) -> dict[str, object]:
        reads = "text" if service.runs[name].task.wire.is_text else service.runs[name].task.wire.meaning
        return {"id": name, "object": "model", "created": began, "owned_by": "regard", "reads": reads}

    @router.get("/models")
    async def models() -> Any:
        """The runs that are served, by name."""
        return {"object": "list", "data": [model_record(name) for name in service.runs]}

    @router.get("/models/{model}")
    async def model(model: str) -> Any:
        """One of the runs that are served."""
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
        head, usage = new_head("cmpl", "text_completion", name), Usage()
        if form.stream:
            ask = StreamText(form.prompts[0], length, decoding, form.stops)
            pieces = await service.stream(name, ask, usage)
            return Events(completion_events(pieces, head, usage, form.with_usage))
        n_likeliest = 0 if form.logprobs is None else max(1, form.logprobs)
        asked = Generate(form.prompts, length, decoding, form.stops, n_likeliest)
        groups = await service.ask(http, name, asked, usage)
        texts = [text for group in groups for text in group]
        choices = [
            {
                "index": index,
                "text": text.whole if form.echo else text.text,
                "finish_reason": reason(text.finished),
                "logprobs": None if form.logprobs is None else likelihoods(text, form.logprobs, run.tokenizer),
            }
            for index, text in enumerate(texts)
        ]
        return JSONResponse(head | {"choices": choices, "usage": usage.record()})

    @router.post("/chat/completions", openapi_extra=body_of(ChatForm))
    async def chat(http: Request) -> Response:
        """The assistant's next message."""
        form = await received(http, ChatForm)
        messages = form.check(service.limits)
        name = service.choose(form.model, Chat.name)
        decoding, usage = form.decoding(service.runs[name].recipe.decoding, service.limits), Usage()
        if form.stream:
            pieces = await service.stream(name, ChatStream(messages, form.length, decoding, form.stops), usage)
            head = new_head("chatcmpl", "chat.completion.chunk", name)
            return Events(chat_events(pieces, head, usage, form.with_usage))
        reply = await service.ask(http, name, Chat(messages, form.length, decoding, form.stops), usage)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": reply.text, "refusal": None},
            "finish_reason": reason(reply.finished),
            "logprobs": None,
        }
        head = new_head("chatcmpl", "chat.completion", name)
        return JSONResponse(head | {"choices": [choice], "usage": usage.record()})

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
        n_tokens = await asyncio.to_thread(n_embedded, service.runs[name], form.texts)
        usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
        return JSONResponse({"object": "list", "model": name, "data": data, "usage": usage})

    return router


def new_head(prefix: str, kind: str, model: str) -> dict[str, Any]:
    identity = f"{prefix}-{secrets.token_hex(12)}"
    return {"id": identity, "object": kind, "created": int(time.time()), "model": model}


def packed(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def reason(is_finished: bool) -> str:
    """Why a text ends."""
    return "stop" if is_finished else "length"


def likelihoods(text: Written, n: int, tokenizer: Tokenizer) -> dict[str, object]:
    """log P of each token that was written, and of the `n` likeliest in its place."""
    tokens = [tokenizer.token(place.token) for place in text.places]
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    others = [{tokenizer.token(token): log_prob for token, log_prob in place.best[:n]} for place in text.places]
    log_probs = [place.log_prob for place in text.places]
    return {"tokens": tokens, "token_logprobs": log_probs, "top_logprobs": others, "text_offset": offsets}


async def completion_events(
    pieces: AsyncGenerator[str, None], head: dict[str, Any], usage: Usage, with_usage: bool
) -> AsyncGenerator[str, None]:
    def chunk(text: str, reason: str | None) -> str:
        choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
        return event(head | {"choices": [choice]})

    async with aclosing(pieces):
        async for piece in pieces:
            yield chunk(piece, None)
    yield chunk("", reason(usage.finished))
    if with_usage:
        yield event(head | {"choices": [], "usage": usage.record()})
    yield DONE


async def chat_events(
    pieces: AsyncGenerator[str, None], head: dict[str, Any], usage: Usage, with_usage: bool
) -> AsyncGenerator[str, None]:
    def chunk(delta: dict[str, str], reason: str | None) -> str:
        return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]})

    yield chunk({"role": "assistant", "content": ""}, None)
    async with aclosing(pieces):
        async for piece in pieces:
            yield chunk({"content": piece}, None)
    yield chunk({}, reason(usage.finished))
    if with_usage:
        yield event(head | {"choices": [], "usage": usage.record()})
    yield DONE
