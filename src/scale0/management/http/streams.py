"""Live pages: server-sent events, from one beat a second for all of them.

Each second the beat asks for every topic that somebody looks at, once (`snapshots`), and lays the newest view into each
stream's mailbox, over one that was not read yet: a slow reader sees fewer moments, never older ones, and holds no
memory. What comes within a twentieth of a second leaves in one write. Who reads nothing for ten seconds is dropped;
that is looked for twice a second for all, so that no message needs a timer of its own. While no page is open nothing is
asked, but for one short look every five seconds, from which `/readyz` answers.

Events: `snapshot`, `alarms`, `event`, and `bye` with the reason why no more will come.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from scale0.errors import ProtocolError
from scale0.management.http.shapes import Refused
from scale0.management.http.snapshots import Snapshot, Snapshots, View, message

STREAMS_MAX: Final = 200
BEAT_S: Final = 1.0
JOIN_S: Final = 0.05  # snapshots of one beat that come within it leave together
WATCH_S: Final = 0.5
READY_LOOK_S: Final = 5.0
HEARTBEAT_S: Final = 10.0  # a comment, so that proxies and pages see that the stream lives
WRITE_WITHIN_S: Final = 10.0
EVENTS_KEPT_MAX: Final = 200  # that one stream has not read yet
RETRY_MS: Final = 2_000
OVERVIEW: Final = "overview"

log = logging.getLogger("scale0.page")


class Stream:
    """One open page: what it looks at, and what is there for it to read."""

    def __init__(self, topic: str, view: View, is_allowed: Callable[[], bool]) -> None:
        self.topic, self.view, self.is_allowed = topic, view, is_allowed
        self.topics = (OVERVIEW,) if topic == OVERVIEW else (OVERVIEW, topic)
        self.seen: dict[str, int] = {}  # by topic the number of the last snapshot
        self.abort: Callable[[], None] = lambda: None  # breaks its connection off
        self.said_s = time.monotonic()  # when it last had something to say
        self.writing_s: float | None = None  # since when its reader has not taken what was written
        self._newest: dict[str, bytes] = {}
        self._events: deque[bytes] = deque(maxlen=EVENTS_KEPT_MAX)
        self._wake = asyncio.Event()
        self._bye = ""

    def put(self, topic: str, message: bytes) -> None:
        """The newest of a topic, to be sent at the next `wake`; an older one that was not read is replaced."""
        self._newest[topic] = message

    def tell(self, message: bytes) -> None:
        """An event that must not be lost; the oldest are, if nobody reads."""
        self._events.append(message)
        self._wake.set()

    def wake(self) -> None:
        """Send what is there."""
        if self._newest:
            self._wake.set()

    def end(self, reason: str) -> None:
        self._bye = self._bye or reason
        self._wake.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """What to send, until the end."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._bye:
                yield message("bye", msgspec.json.encode({"reason": self._bye}))
                return
            ready = [*self._events, *self._newest.values()]
            self._events.clear()
            self._newest.clear()
            if ready:
                yield ready[0] if len(ready) == 1 else b"".join(ready)


class Streams:
    """All open pages and the beat that serves them."""

    def __init__(self, snapshots: Snapshots, sweep: Callable[[], None]) -> None:
        self._snapshots, self._sweep = snapshots, sweep
        self._open: set[Stream] = set()
        self._alarms = b""
        self._looked_s = -READY_LOOK_S
        self._is_waking = False
        self.looking: dict[str, asyncio.Task[None]] = {}  # by topic
        self.state = ""  # of the broker, at the last look; empty: it did not answer
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._open)

    async def add(self, stream: Stream) -> None:
        """Opens it, with the first snapshots in its mailbox. Raises if there are too many, or the view is wrong."""
        if len(self._open) >= STREAMS_MAX:
            raise Refused(503, f"{STREAMS_MAX} pages are open", "close some", {"Retry-After": "5"})
        self._open.add(stream)
        try:
            for topic in stream.topics:
                _lay(stream, await self._snapshots.get(topic), is_first=True)
            if not self._alarms:
                self._alarms = await self._listed_alarms()
        except BaseException:
            self._open.discard(stream)
            raise
        stream.tell(message("alarms", self._alarms))

    def remove(self, stream: Stream) -> None:
        self._open.discard(stream)

    def push(self, topic: str, payload: Any) -> None:
        """What the broker says unasked."""
        if topic == "alarms":
            self._alarms = msgspec.json.encode(payload)
        if topic in ("alarms", "event"):
            said = message(topic, msgspec.json.encode(payload))
            for stream in self._open:
                stream.tell(said)

    def end(self, reason: str) -> None:
        for stream in self._open:
            stream.end(reason)

    def check(self) -> None:
        """Ends the streams of those who may not look any more."""
        self._sweep()
        for stream in self._open:
            if not stream.is_allowed():
                stream.end("revoked")

    def attend(self, now: float) -> None:
        """Drops those who read nothing, and says to those who hear nothing that their stream lives."""
        for stream in list(self._open):
            if stream.writing_s is not None:
                if now - stream.writing_s >= WRITE_WITHIN_S:
                    self.dropped += 1
                    self.remove(stream)
                    stream.abort()
            elif now - stream.said_s >= HEARTBEAT_S:
                stream.tell(b": still here\n\n")

    async def watch(self) -> None:
        """For ever: whoever may not look any more, sees nothing more. A broker that is slow does not delay it."""
        while True:
            self.check()
            self.attend(time.monotonic())
            await asyncio.sleep(WATCH_S)

    async def beat(self) -> None:
        """For ever: a snapshot a second of each topic that somebody looks at; one that takes longer delays no other."""
        try:
            while True:
                begun_s = time.monotonic()
                self.look(begun_s)
                await asyncio.sleep(max(0.05, BEAT_S - (time.monotonic() - begun_s)))
        finally:
            for task in self.looking.values():
                task.cancel()

    def look(self, now: float) -> None:
        """Asks for what is looked at, and is not being asked for already."""
        topics = {topic for stream in self._open for topic in stream.topics}
        if not topics and now - self._looked_s >= READY_LOOK_S:
            topics = {"brokers"}
        for topic in sorted(topics - self.looking.keys()):
            self._looked_s = now
            self.looking[topic] = asyncio.create_task(self._bring(topic))
            self.looking[topic].add_done_callback(lambda done, topic=topic: self._brought(topic, done))  # type: ignore[misc]

    async def _bring(self, topic: str) -> None:
        """A snapshot, to all who look at its topic."""
        try:
            snapshot = await self._snapshots.get(topic, BEAT_S / 2)
        except ProtocolError:
            self.state = ""
            return
        self.state = snapshot.state
        for stream in list(self._open):
            if topic in stream.topics:
                _lay(stream, snapshot)
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_later(JOIN_S, self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for stream in self._open:
            stream.wake()

    def _brought(self, topic: str, task: asyncio.Task[None]) -> None:
        del self.looking[topic]
        if not task.cancelled() and task.exception() is not None:
            log.error("a snapshot of %s failed", topic, exc_info=task.exception())

    async def _listed_alarms(self) -> bytes:
        return msgspec.json.encode((await self._snapshots.get("alarms")).rows)


def _lay(stream: Stream, snapshot: Snapshot, *, is_first: bool = False) -> None:
    """The snapshot into the stream's mailbox, once. A filter that fits no column any more shows and ends nothing."""
    if stream.seen.get(snapshot.topic) == snapshot.seq:
        return
    view = View() if snapshot.topic == OVERVIEW and stream.topic != OVERVIEW else stream.view
    try:
        said = snapshot.event(view)
    except ProtocolError:
        if is_first:
            raise
        return
    stream.seen[snapshot.topic] = snapshot.seq
    stream.put(snapshot.topic, said)


class EventAnswer:
    """The answer that does not end: an ASGI app that sends a stream's messages while its reader reads."""

    def __init__(self, streams: Streams, stream: Stream, abort: Callable[[Scope], None]) -> None:
        self._streams, self._stream, self._abort = streams, stream, abort

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._stream.abort = lambda: self._abort(scope)
        kinds = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": kinds})
            gone = asyncio.create_task(_gone(receive))
            sending = asyncio.create_task(self._send(send))
            _, pending = await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            if sending.done() and not sending.cancelled():
                sending.result()
        finally:
            self._streams.remove(self._stream)

    async def _send(self, send: Send) -> None:
        stream = self._stream
        async for data in stream.messages():
            stream.said_s = stream.writing_s = time.monotonic()
            await send({"type": "http.response.body", "body": data, "more_body": True})
            stream.writing_s = None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
