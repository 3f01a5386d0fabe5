"""Whose turn it is: a bounded queue before a few worker threads, with limits of memory and time."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeVar

from regard.memory import free_memory
from regard.serving.limits import Limits
from regard.serving.metrics import ServerMetrics
from regard.serving.refusal import Refusal
from regard.serving.stepping import Gone

T = TypeVar("T")
LOOK_AT_MEMORY = 0.25  # seconds for which what was free counts as free
LONGEST_RETRY = 60  # seconds that a client is told to stay away at most


@dataclass(eq=False)
class AdmittedRequest:
    """One request in the queue or at work."""

    cost: int  # tokens
    came: asyncio.Future[None]  # done when its turn has come
    gone: Event = field(default_factory=Event)  # set when nobody waits for the answer


class Admission:
    def __init__(self, limits: Limits, metrics: ServerMetrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.threads = ThreadPoolExecutor(limits.running, thread_name_prefix="regard-request")
        self.queue: deque[AdmittedRequest] = deque()
        self.turns: set[AdmittedRequest] = set()  # that are worked on; a turn ends when its thread is done
        self.is_stopping = False
        self.usual_seconds = 0.1  # of an answer: a moving mean
        self.looked, self.free = -math.inf, 0

    # Getting in.

    async def enter(self, cost: int) -> AdmittedRequest:
        """Wait for a turn, or be refused."""
        self.check_open()
        self.check_queue(cost)
        if self.turns and self.free_bytes() < self.limits.memory_reserve:
            raise self.full(503, "there is not enough free memory now", "memory_reserve")
        turn = AdmittedRequest(cost, asyncio.get_running_loop().create_future())
        self.queue.append(turn)
        self.call_next()
        try:
            async with asyncio.timeout(self.limits.wait_seconds):
                await turn.came
        except BaseException as error:  # it left, or waited too long
            if turn in self.turns:
                self.leave(turn)
            else:
                self.queue.remove(turn)
                self.count()
            if isinstance(error, TimeoutError):
                raise self.full(503, "the request waited too long for its turn", "wait_seconds") from None
            raise
        return turn

    def check_queue(self, cost: int = 0) -> None:
        """Refuse what could neither begin nor wait; without a cost, whatever it may be."""
        must_wait = bool(self.queue) or not self.has_room(cost)
        if must_wait and len(self.queue) >= self.limits.waiting:
            raise self.full(429, "too many requests wait already", "waiting")

    def check_open(self) -> None:
        if self.is_stopping:
            raise self.full(503, "the server is stopping", "stop_seconds")

    def full(self, status: int, message: str, cap: str) -> Refusal:
        wait = (len(self.queue) + len(self.turns)) * self.usual_seconds
        retry_after = min(LONGEST_RETRY, max(1, math.ceil(wait)))
        named = f"{message} (the server's cap {cap}); try again in {retry_after} s"
        return Refusal(status, named, code=cap, retry_after=retry_after)

    def free_bytes(self) -> int:
        if time.monotonic() - self.looked > LOOK_AT_MEMORY:
            self.looked, self.free = time.monotonic(), free_memory()
        return self.free

    def call_next(self) -> None:
        """First come, first served: a large request is not overtaken."""
        while self.queue and self.has_room(self.queue[0].cost):
            turn = self.queue.popleft()
            self.turns.add(turn)
            if not turn.came.done():
                turn.came.set_result(None)
        self.count()

    def has_room(self, cost: int) -> bool:
        """What is larger than all that may run together runs alone."""
        tokens = cost + sum(turn.cost for turn in self.turns)
        return len(self.turns) < self.limits.running and (not self.turns or tokens <= self.limits.tokens_running)

    def leave(self, turn: AdmittedRequest) -> None:
        self.turns.discard(turn)
        self.call_next()

    def count(self) -> None:
        self.metrics.running.set(len(self.turns))
        self.metrics.waiting.set(len(self.queue))

    # Work.

    def begin(self, turn: AdmittedRequest, work: Callable[[Event], T]) -> asyncio.Future[T]:
        """In a thread; the turn ends with it, whoever still waits."""
        began = time.monotonic()
        future = asyncio.get_running_loop().run_in_executor(self.threads, work, turn.gone)

        def end(done: asyncio.Future[T]) -> None:
            if not done.cancelled():
                done.exception()  # looked at, so that nobody complains about one that nobody waited for
            self.usual_seconds = 0.9 * self.usual_seconds + 0.1 * (time.monotonic() - began)
            self.leave(turn)

        future.add_done_callback(end)
        return future

    async def answer(self, work: Callable[[Event], T], cost: int, left: Awaitable[None]) -> T:
        """What `work` gives.  It is told when the client leaves (`left`), the time is up or the server stops."""
        leaving: asyncio.Future[Any] = asyncio.ensure_future(left)
        entering = asyncio.ensure_future(self.enter(cost))
        try:
            await asyncio.wait({entering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not entering.done():
                entering.cancel()
                with suppress(asyncio.CancelledError):
                    await entering
                raise Gone
            turn = entering.result()
            future = self.begin(turn, work)
            both: set[asyncio.Future[Any]] = {future, leaving}
            try:
                await asyncio.wait(both, timeout=self.limits.answer_seconds, return_when=asyncio.FIRST_COMPLETED)
                if future.done():
                    return self.result(future)
                if leaving.done():
                    raise Gone
                raise self.too_slow()
            finally:
                turn.gone.set()
        finally:
            leaving.cancel()
            entering.cancel()

    def result(self, future: asyncio.Future[T]) -> T:
        try:
            return future.result()
        except Gone:
            self.check_open()  # `stop` told it so
            raise

    def too_slow(self) -> Refusal:
        seconds = self.limits.answer_seconds
        return Refusal(408, f"the answer took longer than {seconds:g} s (the server's cap answer_seconds)")

    async def stream(self, work: Callable[[Event], Iterator[T]], cost: int) -> AsyncGenerator[T, None]:
        """What the iterator gives, as it comes; whoever stops listening ends the work.

        The pieces wait here and not in the thread, so a slow reader holds up nobody.
        """
        turn = await self.enter(cost)
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[list[T]] = asyncio.Queue()  # each a piece; an empty one: this was all

        def put(piece: list[T]) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def walk(gone: Event) -> None:
            try:
                for piece in work(gone):
                    put([piece])
            finally:
                put([])

        future = self.begin(turn, walk)
        deadline = loop.time() + self.limits.answer_seconds
        try:
            while piece := await asyncio.wait_for(pieces.get(), deadline - loop.time()):
                yield piece[0]
            await asyncio.wait({future})
            self.result(future)
        except TimeoutError:
            raise self.too_slow() from None
        finally:
            turn.gone.set()

    # The end.

    async def stop(self) -> None:
        """Take nothing more, let what runs finish in the stated time, then give up the rest."""
        self.is_stopping = True
        deadline = time.monotonic() + self.limits.stop_seconds
        while (self.turns or self.queue) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for turn in self.turns:
            turn.gone.set()
        for turn in self.queue:
            turn.came.set_exception(self.full(503, "the server is stopping", "stop_seconds"))

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
