"""Parts as they are made: a generator streams, and a client that has seen enough cancels. Needs a broker.

python examples/stream.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

from scale0 import AsyncClient, Worker

BROKER = os.environ.get("SCALE0_BROKER", "tcp://127.0.0.1:5555")

worker = Worker(BROKER, capacity=4)


@worker.service("count")
def count(to: int) -> Iterator[int]:
    yield from range(1, to + 1)


@worker.service("ticks")
async def ticks() -> AsyncIterator[str]:
    while True:  # ends when the client goes away or its deadline passes
        yield "tick"
        await asyncio.sleep(0.01)


async def watch() -> None:
    async with AsyncClient(BROKER) as client:
        async for number in client.stream("count", 3, timeout=10):
            print(number)
        seen = 0
        async for tick in client.stream("ticks", timeout=10):
            seen += 1
            if seen == 3:
                print(f"three times {tick}: enough")
                break


def main() -> None:
    with worker.start():
        asyncio.run(watch())


if __name__ == "__main__":
    main()
