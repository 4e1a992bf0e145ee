"""Clients and workers that the benchmarks start as processes of their own: ours, nats-py's, and bare sockets.

Usage: participants.py ROLE ENDPOINT [PAGE IN_FLIGHT BODY_BYTES]
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

from measure import COMPLETED, ERRORS, READY, STOP, Page

CAPACITY = 64


def worker_sync(endpoint: str) -> None:
    from scale0 import Worker

    worker = Worker(endpoint, capacity=CAPACITY)

    @worker.service("echo")
    def echo(body: bytes) -> bytes:
        return body

    worker.run()


def worker_async(endpoint: str) -> None:
    from scale0 import Worker

    worker = Worker(endpoint, capacity=CAPACITY)

    @worker.service("echo")
    async def echo(body: bytes) -> bytes:
        return body

    worker.run()


def client(endpoint: str, page: Page, in_flight: int, body_bytes: int) -> None:
    from scale0 import Client

    body = b"x" * body_bytes
    bodies = itertools.takewhile(lambda _: not page.read(STOP), itertools.repeat(body))
    with Client(endpoint) as connected:
        page.write(READY, 1)
        for completed, reply in enumerate(connected.map("echo", bodies, in_flight=in_flight), 1):
            if reply != body:
                page.write(ERRORS, page.read(ERRORS) + 1)
            page.write(COMPLETED, completed)


def client_async(endpoint: str, page: Page, in_flight: int, body_bytes: int) -> None:
    async def main() -> None:
        from scale0 import AsyncClient

        body = b"x" * body_bytes
        bodies = itertools.takewhile(lambda _: not page.read(STOP), itertools.repeat(body))
        completed = 0
        async with AsyncClient(endpoint) as connected:
            page.write(READY, 1)
            async for reply in connected.map("echo", bodies, in_flight=in_flight):
                completed += 1
                if reply != body:
                    page.write(ERRORS, page.read(ERRORS) + 1)
                page.write(COMPLETED, completed)

    asyncio.run(main())


def nats_worker(endpoint: str) -> None:
    async def main() -> None:
        import nats
        from nats.aio.msg import Msg

        connected = await nats.connect(endpoint)

        async def echo(message: Msg) -> None:
            await message.respond(message.data)

        await connected.subscribe("echo", queue="group", cb=echo)
        await connected.flush()
        print("ready", flush=True)
        await asyncio.Event().wait()

    asyncio.run(main())


def nats_client(endpoint: str, page: Page, in_flight: int, body_bytes: int) -> None:
    async def main() -> None:
        import nats

        connected = await nats.connect(endpoint)
        body = b"x" * body_bytes
        completed = 0

        async def ask() -> None:
            nonlocal completed
            while not page.read(STOP):
                reply = await connected.request("echo", body, timeout=10)
                if reply.data != body:
                    page.write(ERRORS, page.read(ERRORS) + 1)
                completed += 1
                page.write(COMPLETED, completed)

        page.write(READY, 1)
        await asyncio.gather(*(ask() for _ in range(in_flight)))

    asyncio.run(main())


def bare_worker(endpoint: str) -> None:
    """A DEALER behind `zmq.proxy` that gives back what it gets."""
    import zmq

    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect(endpoint)
    print("ready", flush=True)
    while True:
        socket.send_multipart(socket.recv_multipart())


_WORKERS: dict[str, Callable[[str], None]] = {
    "worker-sync": worker_sync,
    "worker-async": worker_async,
    "nats-worker": nats_worker,
    "bare-worker": bare_worker,
}
_CLIENTS: dict[str, Callable[[str, Page, int, int], None]] = {
    "client": client,
    "client-async": client_async,
    "nats-client": nats_client,
}


def main(role: str, endpoint: str, *rest: str) -> None:
    if role in _WORKERS:
        _WORKERS[role](endpoint)
    else:
        page, in_flight, body_bytes = rest
        _CLIENTS[role](endpoint, Page(Path(page)), int(in_flight), int(body_bytes))


if __name__ == "__main__":
    main(*sys.argv[1:])
