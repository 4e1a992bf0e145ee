"""What happened: a digest of everything, and the last events in words for whoever must find out why.

The digest covers every frame and every fault with its virtual time, so equal digests mean equal runs. Words are made
only when somebody reads them.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import deque
from collections.abc import Sequence

from scale0.core.stream import unpacked
from scale0.errors import ProtocolError
from scale0.protocol import codec, ids
from scale0.protocol.messages import (
    Cancel,
    Config,
    ConfigVersion,
    Connect,
    Error,
    PeerStatus,
    Ping,
    Pong,
    Snapshot,
    Stream,
    Table,
    Task,
    TaskReply,
)
from scale0.simulator.schedule import START_S

UNHASHED_MAX = 4096  # frames that wait for the digest
_pack_time = struct.Struct(">d").pack


class Trace:
    def __init__(self, keep: int = 6000) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._unhashed: list[bytes] = []  # hashing many at once costs less
        self._recent: deque[tuple[float, str, str, Sequence[bytes]]] = deque(maxlen=keep)

    def message(self, now: float, sender: str, receiver: str, frames: Sequence[bytes]) -> None:
        """One message, when it arrives."""
        unhashed = self._unhashed
        unhashed += (_pack_time(now), *frames)
        self._recent.append((now, sender, receiver, frames))
        if len(unhashed) > UNHASHED_MAX:
            self._catch_up()

    def event(self, now: float, who: str, what: str) -> None:
        """Anything else: a fault, an outcome, a process that starts or ends."""
        self._unhashed += (_pack_time(now), who.encode(), what.encode())
        self._recent.append((now, who, what, ()))

    def digest(self) -> str:
        self._catch_up()
        return self._hash.hexdigest()

    def _catch_up(self) -> None:
        self._hash.update(b"".join(self._unhashed))
        self._unhashed.clear()

    def last(self, number: int, about: str = "") -> list[str]:
        """The last events, oldest first: those that name what `about` names, and the last `number` of all."""
        lines = [words(*entry) for entry in self._recent]
        names = re.findall(r"[\w.-]+\.[0-9a-f]{16}\.\d+|token-\d+", about)
        earlier = [line for line in lines[:-number] if any(re.search(rf"{name}\b", line) for name in names)]
        return [*earlier, "   ⋮", *lines[-number:]]


def words(now: float, sender: str, receiver: str, frames: Sequence[bytes]) -> str:
    at = f"{now - START_S:10.4f}"
    if not frames:
        return f"{at}  {sender}: {receiver}"
    return f"{at}  {sender} → {receiver}: {describe(frames)}"


def describe(frames: Sequence[bytes]) -> str:
    """A message in a line."""
    try:
        dialect, message = codec.decode(frames)
    except ProtocolError:
        return " | ".join(repr(bytes(frame[:24])) for frame in frames)
    name = f"{'REQ ' if dialect.is_req else ''}{type(message).__name__}"
    if isinstance(message, Task):
        resent = " resent" if message.flags else ""
        body = b" ".join(message.body)[:40]
        left = f"{message.remaining_ms} ms left"
        return f"{name} {ids.show_id(message.id)} attempt {message.attempt}{resent} {message.service} {left} {body!r}"
    if isinstance(message, TaskReply):
        last = "final" if message.final else f"part {message.part}"
        return f"{name} {ids.show_id(message.id)} attempt {message.attempt} status {message.status} {last}"
    if isinstance(message, Cancel):
        return f"{name} {ids.show_id(message.id)}"
    if isinstance(message, Error):
        of = f" {ids.show_id(message.id)}" if message.id else ""
        return f"{name} {message.code}{of} {message.text}"
    if isinstance(message, Ping):
        return f"{name} oldest unanswered {message.oldest_unanswered}"
    if isinstance(message, PeerStatus):
        offers = " ".join(f"{offer.name}:{offer.credit}/{offer.workers}q{offer.queued}" for offer in message.services)
        version = ConfigVersion.unpack(message.config_version)
        star = f" {message.star} in epoch {message.epoch}" if message.star else ""
        return f"{name} {message.state}{star} {version}{' all' if message.is_full else ''} {offers}".rstrip()
    if isinstance(message, Connect):
        joins = " joins" if message.is_joining else ""
        version = ConfigVersion.unpack(message.config_version)
        return f"{name} {message.identity}.{message.nonce.hex()}{joins} {version} holds {len(message.in_flight)}"
    if isinstance(message, Pong | Config | Table | Snapshot):
        return name
    if isinstance(message, Stream):
        told = " ".join(type(change).__name__ for change in unpacked(message.changes))
        return f"{name} {message.seq}: {told}"[:240]
    return f"{'REQ ' if dialect.is_req else ''}{message}"[:240]
