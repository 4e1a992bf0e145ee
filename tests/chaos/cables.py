"""A proxy in front of a broker that can be cut in one direction alone, or for other brokers alone.

Everybody who comes to a broker comes through its cable: peers, workers and clients. `hush("in")` lets nothing pass to
the broker and everything from it, `hush("out")` the other way round, `hush("peers")` holds what other brokers say and
are told; and nobody is informed. As with packets that are lost, TCP loses nothing: what was held comes late, when the
cable is mended.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from scale0.protocol.dialects import PEER
from tests.integration.proxies import CHUNK_BYTES, Proxy

Way = Literal["in", "out", "peers"]


class Cable(Proxy):
    """A `Proxy` with more gates. Its other verbs are `cut`, `stall` and `mend`."""

    def __init__(self) -> None:
        self._gates: dict[Way, asyncio.Event] = {
            "in": asyncio.Event(),
            "out": asyncio.Event(),
            "peers": asyncio.Event(),
        }
        self._open_gates()
        super().__init__()

    def hush(self, way: Way) -> None:
        self._do(self._gates[way].clear)

    def mend(self) -> None:
        self._do(self._open_gates)
        super().mend()

    def _open_gates(self) -> None:
        for gate in self._gates.values():
            gate.set()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        is_peer = asyncio.Event()  # of this connection: another broker has spoken on it
        ways = [
            asyncio.ensure_future(self._pass_on(reader, far_writer, self._gates["in"], is_peer)),
            asyncio.ensure_future(self._pass_on(far_reader, writer, self._gates["out"], is_peer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event, is_peer: asyncio.Event
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if PEER.header in data:
                is_peer.set()
            await self._flows.wait()
            await gate.wait()
            if is_peer.is_set():
                await self._gates["peers"].wait()
            writer.write(data)
            await writer.drain()
