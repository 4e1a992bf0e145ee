"""Partitions without the rights of an administrator: a TCP proxy in front of each broker.

The document names the proxies as the brokers' endpoints, so all that goes from broker to broker passes through them,
while tests ask each broker at its own port. A proxy can be cut (connections end, new ones are closed at once), stalled
(nothing is lost, nothing passes) or made to take nobody new; `mend` undoes all three.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.integration.networks import LIMIT_S, BrokerNetwork, document

CHUNK_BYTES = 64 * 1024
TAIL_BYTES = 64  # more than any pattern that is sought


class Proxy:
    """One port that leads to another. Its verbs may be called from any thread, and hold when they return.

    `count` says how often each of the patterns `sought` has passed, in either direction.
    """

    def __init__(self, target: str = "tcp://127.0.0.1:0", sought: Sequence[bytes] = ()) -> None:
        self.count: Counter[bytes] = Counter()
        self._sought = sought
        self.lead_to(target)
        self._takes_new = True
        self._pumps: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, args=(listener,), daemon=True)
        self._thread.start()

    def lead_to(self, endpoint: str) -> None:
        self._port = int(endpoint.rpartition(":")[2])

    def cut(self) -> None:
        """Every connection ends, as when a host refuses them."""
        self._do(self._cut)

    def stall(self) -> None:
        """Nothing passes, and nobody is told, as when packets are lost."""
        self._do(self._flows.clear)

    def close_door(self) -> None:
        """Connections stay; no new one is made."""
        self._takes_new = False

    def mend(self) -> None:
        self._takes_new = True
        self._do(self._flows.set)

    def end(self) -> None:
        self._do(self._cut)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)

    # --- in its own thread ------------------------------------------------------------------------------------------

    def _run(self, listener: socket.socket) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._loop.run_until_complete(asyncio.start_server(self._take, sock=listener))
        self._loop.run_forever()
        serving.close()
        for pump in asyncio.all_tasks(self._loop):
            pump.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _do(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(LIMIT_S), "the proxy's thread is gone"

    def _cut(self) -> None:
        self._takes_new = False
        for pump in self._pumps:
            pump.cancel()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pump = asyncio.current_task()
        assert pump is not None
        self._pumps.add(pump)
        try:
            if self._takes_new:
                await self._forward(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # the other end is gone, or the cut came
        finally:
            self._pumps.discard(pump)
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tail = b""  # a pattern may be cut in two by a read
        while data := await reader.read(CHUNK_BYTES):
            await self._flows.wait()
            for pattern in self._sought:
                self.count[pattern] += (tail[-len(pattern) + 1 :] + data).count(pattern)
            tail = (tail + data)[-TAIL_BYTES:]
            writer.write(data)
            await writer.drain()


class ProxiedNetwork(BrokerNetwork):
    """Brokers that reach one another through proxies, and so can be parted."""

    def __init__(self, directory: Path, identities: tuple[str, ...], group: str, keys: dict[str, Any]) -> None:
        self.proxies = {identity: Proxy() for identity in identities}
        listed = [
            {"identity": identity, "group": group, "endpoints": [proxy.endpoint]}
            for identity, proxy in self.proxies.items()
        ]
        super().__init__(directory, document(brokers=listed, **keys))

    def isolate(self, *, is_silent: bool = False) -> str:
        """Part the broker whose identity sorts lowest from all others. It dials nobody, so its links are its proxy's.

        The others' links stay; their proxies take nobody new, so that it cannot dial them in its need.
        """
        lowest = min(self.proxies)
        for identity, proxy in self.proxies.items():
            proxy.close_door()
            if identity == lowest:
                (proxy.stall if is_silent else proxy.cut)()
        return lowest

    def mend(self) -> None:
        for proxy in self.proxies.values():
            proxy.mend()

    def end(self) -> None:
        super().end()
        for proxy in self.proxies.values():
            proxy.end()


@contextlib.contextmanager
def proxy(target: str, sought: Sequence[bytes] = ()) -> Iterator[Proxy]:
    """A proxy in front of one broker, for those who connect there by it."""
    made = Proxy(target, sought)
    try:
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def proxied_network(directory: Path, *identities: str, group: str = "eu", **keys: Any) -> Iterator[ProxiedNetwork]:
    """These brokers, listed in one document, linked through proxies. `keys` are of the document."""
    made = ProxiedNetwork(directory, identities, group, keys)
    try:
        for identity in identities:
            made.add(identity, seeds=())
            made.proxies[identity].lead_to(made[identity].endpoint)
        for broker in made.running:
            broker.seeds = []
        made.await_complete()
        yield made
    finally:
        made.end()
