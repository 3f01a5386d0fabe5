"""The queue: its turns, its limits, and that whoever leaves frees its place."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from threading import Event

import pytest

from regard.serving import admission
from regard.serving.admission import Admission
from regard.serving.limits import Limits
from regard.serving.metrics import ServerMetrics
from regard.serving.refusal import Refusal
from regard.serving.stepping import Gone


def run(check: Callable[[Admission], Awaitable[None]], **limits: float) -> None:
    async def checked() -> None:
        queue = Admission(Limits(**limits), ServerMetrics())  # type: ignore[arg-type]
        await check(queue)
        for _ in range(100):  # a thread that was told to end does so soon
            if not queue.turns:
                break
            await asyncio.sleep(0.01)
        assert not queue.turns and not queue.queue
        assert queue.metrics.registry.get_sample_value("regard_running") == 0
        queue.close()

    asyncio.run(checked())


async def never() -> None:
    await asyncio.Event().wait()


def until_gone(gone: Event) -> None:
    assert gone.wait(5)
    raise Gone


def test_answers_and_faults():
    async def check(queue: Admission) -> None:
        assert await queue.answer(lambda gone: 7, 1, never()) == 7
        with pytest.raises(ZeroDivisionError):
            await queue.answer(lambda gone: 1 // 0, 1, never())
        assert await queue.answer(lambda gone: 8, 1, never()) == 8  # a fault stays with its request

    run(check)


def test_a_full_queue_refuses_at_once():
    async def check(queue: Admission) -> None:
        let_go = Event()
        asked = [asyncio.ensure_future(queue.answer(lambda gone: let_go.wait(5), 1, never())) for _ in range(3)]
        await asyncio.sleep(0.02)
        assert (len(queue.turns), len(queue.queue)) == (1, 2)
        with pytest.raises(Refusal, match="the server's cap waiting") as refused:
            await queue.answer(lambda gone: True, 1, never())
        assert refused.value.status == 429 and refused.value.retry_after >= 1
        let_go.set()
        assert await asyncio.gather(*asked) == [True] * 3

    run(check, running=1, waiting=2)


def test_tokens_that_run_are_limited_and_large_requests_are_not_overtaken():
    async def check(queue: Admission) -> None:
        order: list[int] = []
        first = asyncio.ensure_future(queue.answer(lambda gone: time.sleep(0.05), 60, never()))
        await asyncio.sleep(0.01)
        others = [asyncio.ensure_future(queue.answer(lambda gone, n=n: order.append(n), n, never())) for n in (500, 10)]
        await asyncio.sleep(0.01)
        assert len(queue.turns) == 1  # 60 + 500 tokens are too many, and 10 waits behind 500
        await asyncio.gather(first, *others)
        assert order == [500, 10]

    run(check, tokens_running=100)


def test_memory(monkeypatch):
    async def check(queue: Admission) -> None:
        monkeypatch.setattr(admission, "free_memory", lambda: 10)
        let_go = Event()
        alone = asyncio.ensure_future(queue.answer(lambda gone: let_go.wait(5), 1, never()))  # nothing else runs
        await asyncio.sleep(0.02)
        with pytest.raises(Refusal, match="memory_reserve") as refused:
            await queue.answer(lambda gone: True, 1, never())
        assert refused.value.status == 503 and refused.value.retry_after >= 1
        let_go.set()
        await alone

    run(check)


def test_limits_of_time():
    async def check(queue: Admission) -> None:
        with pytest.raises(Refusal, match="answer_seconds") as refused:
            await queue.answer(until_gone, 1, never())
        assert refused.value.status == 408
        slow = asyncio.ensure_future(queue.answer(lambda gone: time.sleep(0.3), 1, never()))
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal, match="wait_seconds"):
            await queue.answer(lambda gone: True, 1, never())
        with pytest.raises(Refusal):
            await slow
        await asyncio.sleep(0.3)

    run(check, answer_seconds=0.1, wait_seconds=0.05, running=1)


def test_a_hundred_clients_leave():
    """Some while they wait, some while they are answered: all places are free again."""

    async def check(queue: Admission) -> None:
        async def leave(after: float) -> None:
            await asyncio.sleep(after)

        asked = [queue.answer(until_gone, 1, leave(0.001 * (i % 30))) for i in range(100)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, Gone) for answer in answers)
        assert await queue.answer(lambda gone: 7, 1, never()) == 7

    run(check, running=4, waiting=100)


def test_streams():
    ended: list[str] = []

    def count(gone: Event) -> Iterator[int]:
        try:
            for number in range(10**6):
                if gone.is_set():
                    raise Gone
                yield number
                time.sleep(0.001)
        finally:
            ended.append(threading.current_thread().name)

    async def check(queue: Admission) -> None:
        assert [n async for n in queue.stream(lambda gone: iter(range(5)), 1)] == [0, 1, 2, 3, 4]
        endless = queue.stream(count, 1)
        assert [await anext(endless) for _ in range(3)] == [0, 1, 2]
        await endless.aclose()  # the reader has gone
        await asyncio.sleep(0.1)
        assert len(ended) == 1
        broken = queue.stream(lambda gone: (1 // n for n in (1, 0)), 1)
        assert await anext(broken) == 1
        with pytest.raises(ZeroDivisionError):
            await anext(broken)
        slow = queue.stream(count, 1)
        with pytest.raises(Refusal, match="answer_seconds"):
            async for _ in slow:
                pass

    run(check, answer_seconds=0.3)


def test_the_end():
    """What runs may finish; what does not is given up after the stated time, and told so."""

    async def check(queue: Admission) -> None:
        quick = asyncio.ensure_future(queue.answer(lambda gone: time.sleep(0.05), 1, never()))
        endless = asyncio.ensure_future(queue.answer(until_gone, 1, never()))
        waiting = asyncio.ensure_future(queue.answer(lambda gone: 1, 1000, never()))
        await asyncio.sleep(0.01)
        stopping = asyncio.ensure_future(queue.stop())
        await asyncio.sleep(0.01)
        with pytest.raises(Refusal, match="the server is stopping"):
            await queue.answer(lambda gone: True, 1, never())
        await quick
        for given_up in (endless, waiting):
            with pytest.raises(Refusal, match="the server is stopping") as refused:
                await given_up
            assert refused.value.status == 503
        await stopping

    run(check, stop_seconds=0.2, tokens_running=10)
