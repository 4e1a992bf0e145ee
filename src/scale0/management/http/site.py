"""What the routes of the app share: the door, who may come in, what is shown, and the name over it all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from starlette.types import Scope

from scale0.errors import ProtocolError
from scale0.management.channel import Token
from scale0.management.http.door import Door
from scale0.management.http.snapshots import Snapshots
from scale0.management.http.streams import Streams
from scale0.management.http.visitors import Visitors


class About(msgspec.Struct, frozen=True):
    """Which broker this is the door of, and how its page looks."""

    identity: str
    network: str
    version: str
    colour: str = ""
    data: str = ""  # the data place of its recorder; empty: it records nothing


class Site:
    """One broker's HTTP door, without its sockets."""

    def __init__(self, door: Door, visitors: Visitors, about: About) -> None:
        self.door, self.visitors, self.about = door, visitors, about
        self.snapshots = Snapshots(door)
        self.streams = Streams(self.snapshots, visitors.sweep)
        self.reading = asyncio.Semaphore(1)  # of recorded tables, which take memory and time
        self.abort: Callable[[Scope], None] = lambda scope: None  # breaks off a connection that takes nothing more

    def push(self, topic: str, payload: Any) -> None:
        """What the broker says unasked."""
        if topic == "token":
            self.visitors.add_token(msgspec.convert(payload, Token))
        else:
            self.streams.push(topic, payload)

    async def is_answered(self) -> bool:
        """Whether the broker answers; its state is noted."""
        try:
            self.streams.state = (await self.snapshots.get("brokers")).state
        except ProtocolError:
            self.streams.state = ""
        return bool(self.streams.state)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The beat, while the app runs."""
        tasks = [asyncio.create_task(self.streams.beat()), asyncio.create_task(self.streams.watch())]
        try:
            yield
        finally:
            self.streams.end("stopping")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
