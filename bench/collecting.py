"""A translator behind a queue that collects batches, over HTTP: how CTranslate2 is usually served.

`python -m bench.collecting PLAN CONTENDER THREADS` prints its address, and serves until it is stopped.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import torch
import uvicorn

from bench.decoding import PLANS, one_translator
from bench.translators import Translate

LARGEST, WAIT = 64, 0.005  # sentences of a batch; seconds that the first of them waits for others

Ids = list[int]


class Collector:
    def __init__(self, translate: Translate) -> None:
        self.translate = translate
        self.waiting: asyncio.Queue[tuple[Ids, asyncio.Future[Ids]]] = asyncio.Queue()

    async def work(self) -> None:
        while True:
            batch = [await self.waiting.get()]
            await asyncio.sleep(WAIT)
            while len(batch) < LARGEST and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            outputs = await asyncio.to_thread(self.translate, [source for source, _ in batch])
            for (_, future), output in zip(batch, outputs, strict=True):
                future.set_result(output)

    async def ask(self, source: Ids) -> Ids:
        future: asyncio.Future[Ids] = asyncio.get_running_loop().create_future()
        await self.waiting.put((source, future))
        return await future

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            self.worker = asyncio.create_task(self.work())
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        answer = json.dumps({"ids": await self.ask(json.loads(body)["ids"])}).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": answer})


def main(plan: str, contender: str, n_threads: int) -> None:
    torch.set_num_threads(n_threads)
    collector = Collector(one_translator(PLANS[plan], contender, n_threads))
    with socket.create_server(("127.0.0.1", 0)) as place:
        place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as our server does
        print(f"serving {contender} on http://127.0.0.1:{place.getsockname()[1]} ", file=sys.stderr, flush=True)
        config = uvicorn.Config(collector, http="h11", log_level="warning", access_log=False)
        uvicorn.Server(config).run([place])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
