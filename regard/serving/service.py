"""What all routes share: which run is meant, the way of a request through the queue to its run, and what fails."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from threading import Event
from typing import Any, TypeVar

from starlette.requests import Request as HttpRequest

from regard.decoding.config import DecodingConfig
from regard.errors import RegardError
from regard.memory import TooLarge, ran_out
from regard.runs.run import Run
from regard.serving.admission import Admission
from regard.serving.host import Host
from regard.serving.limits import Limits
from regard.serving.metrics import ServerMetrics
from regard.serving.refusal import NotFound, Refusal, told, words_in
from regard.serving.usage import Usage
from regard.tasks.request import AnyRequest
from regard.viewer.capture import Capture
from regard.viewer.looking import Focus

T = TypeVar("T")
MOST_PIECES = 36  # tokens of one character: some are written as 18 others (NFKC), and those as bytes


class Service:
    def __init__(self, host: Host, limits: Limits, metrics: ServerMetrics) -> None:
        self.host, self.limits, self.metrics = host, limits, metrics
        self.admission = Admission(limits, metrics)

    @property
    def runs(self) -> dict[str, Run]:
        return self.host.runs

    @property
    def is_working(self) -> bool:
        """Whether a thread works, even if nobody waits for it."""
        return bool(self.admission.turns) or self.host.stepper.thread.is_alive()

    def offering(self, verb: str) -> dict[str, Run]:
        return {name: run for name, run in self.runs.items() if verb in run.task.verbs}

    def choose(self, model: str | None, verb: str | None = None) -> str:
        """The run of this name, which must offer the verb; None: the only one that does."""
        able = self.runs if verb is None else self.offering(verb)
        if model is None:
            if len(able) != 1:
                raise Refusal(400, f"model: name a run; those that can do this are: {named(able)}", param="model")
            (model,) = able
        if model not in self.runs:
            raise NotFound(
                f"model: there is no such run here; there are: {named(self.runs)}", "model", "model_not_found"
            )
        if model not in able:
            raise Refusal(400, f"model: this run cannot do that; those that can are: {named(able)}", param="model")
        return model

    # Work.

    async def ask(self, http: HttpRequest, name: str, request: AnyRequest, usage: Usage | None = None) -> Any:
        """What the run answers: of the kind that the request's class names."""

        def work(gone: Event) -> Any:
            self.count_tokens(self.runs[name], request)
            return self.host.answer(name, request, gone, usage)

        return await self.answer(http, work, cost_of(request, self.runs[name], self.limits), vars(request))

    async def look(
        self,
        http: HttpRequest,
        name: str,
        source: Any,
        target: str | None,
        focus: Focus,
        show: Callable[[Capture], str],
    ) -> str:
        """Attention, as `show` writes it."""
        run = self.runs[name]
        texts = [text for text in (source, target) if isinstance(text, str)]

        def work(gone: Event) -> str:
            n_tokens = sum(map(len, run.tokenizer.encode_batch(texts)))
            self.limits.check(n_tokens, "attention_tokens", "input")
            capture = self.host.look(name, source, target, focus, gone)
            n_cells = sum(map.weights.size for map in capture.maps)
            self.limits.check(n_cells, "attention_cells", "layers and heads")
            return show(capture)

        return await self.answer(http, work, sum(map(len, texts)), texts)

    async def answer(self, http: HttpRequest, work: Callable[[Event], T], cost: int, sent: Any) -> T:
        try:
            return await self.admission.answer(work, cost, left(http))
        except Exception as error:
            raise as_refusal(error, sent) from error

    async def stream(self, name: str, request: AnyRequest, usage: Usage | None = None) -> AsyncGenerator[str, None]:
        """The pieces of a text.  The first is waited for: what cannot be streamed is refused before it begins."""

        def work(gone: Event) -> Iterator[str]:
            self.count_tokens(self.runs[name], request)
            return self.host.stream(name, request, gone, usage)

        pieces = self.admission.stream(work, cost_of(request, self.runs[name], self.limits))
        try:
            first = await anext(pieces, None)
        except Exception as error:
            raise as_refusal(error, vars(request)) from error
        return resumed(first, pieces)

    def count_tokens(self, run: Run, request: AnyRequest) -> None:
        if not run.task.wire.is_text:
            return
        texts = list(texts_in(vars(request)))
        if MOST_PIECES * sum(map(len, texts)) + len(texts) > self.limits.tokens:  # otherwise they cannot be too many
            self.limits.check(sum(map(len, run.tokenizer.encode_batch(texts))), "tokens", "the texts together")


async def resumed(first: str | None, pieces: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
    async with aclosing(pieces):
        if first is not None:
            yield first
            async for piece in pieces:
                yield piece


async def left(http: HttpRequest) -> None:
    """Done when the client has gone: all of its request was read before."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def named(runs: dict[str, Run]) -> str:
    return ", ".join(runs) or "none"


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from texts_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from texts_in(part)


def cost_of(request: AnyRequest, run: Run, limits: Limits) -> int:
    """About how many tokens are kept in memory for it: a character is at most a token or so."""
    values = vars(request)
    decoding = values.get("decoding") or run.recipe.decoding
    n_things = max((len(value) for value in values.values() if isinstance(value, list)), default=1)
    read = sum(len(text) for text in texts_in(values))
    written = n_things * min(limits.new_tokens, values.get("length") or decoding.extra_length)
    return (read + written) * copies(decoding)


def copies(decoding: DecodingConfig) -> int:
    return max(decoding.beam, decoding.n_best)


def as_refusal(error: Exception, sent: Any) -> Exception:
    """What a client is told: a mistake of its own, a lack of memory; anything else stays what it is, a fault."""
    if isinstance(error, TooLarge) or ran_out(error):
        return Refusal(503, "there is not enough memory for this request; ask for less", code="memory", retry_after=5)
    if isinstance(error, RegardError):
        return Refusal(400, told(error, list(words_in(sent))))
    return error
