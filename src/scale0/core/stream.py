"""The state stream between the two brokers of a pair: what a change says, and how changes travel (rule 31).

What a successor needs is every native session, what each worker offers, every accepted task and where it is, and the
settled outcomes that clients have not acknowledged. Each change of these is one of the classes below. They leave
together, in numbered STREAM messages, at the end of each burst of the broker's work. A copy begins with `Reset` and
then says the changes that lead to the present state, so that there is one way of reading.

Majordomo and REQ participants are not in it: they register again by themselves.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from scale0.core.effects import Send
from scale0.core.ledger import Entry
from scale0.core.workers import Worker
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code
from scale0.protocol.limits import (
    ATTEMPTS_MAX,
    CAPACITY_MAX,
    ID_BYTES_MAX,
    ID_BYTES_MIN,
    MESSAGE_BYTES_MAX,
    NONCE_BYTES,
    PRIORITIES,
)
from scale0.protocol.messages import Body, Stream, TaskId

TOGETHER_MAX: Final = 128  # changes that leave in one STREAM, and sooner when the burst ends
TOGETHER_BYTES_MAX: Final = 512 * 1024  # of bodies in it
STREAMED_BYTES_MAX: Final = MESSAGE_BYTES_MAX - 128 * 1024  # a larger task or reply is not copied
UNACKED_MAX: Final = 200_000  # changes without STREAMACK; with more the follower is dropped
FRAME_BYTES: Final = 4 * 1024 * 1024  # a longer list of changes is cut

Id = Annotated[bytes, Meta(min_length=ID_BYTES_MIN, max_length=ID_BYTES_MAX)]
Count = Annotated[int, Meta(ge=0)]  # clients choose their sequences: all 64 bits
Attempt = Annotated[int, Meta(ge=0, le=ATTEMPTS_MAX)]
Seconds = Annotated[float, Meta(gt=0, le=2**53)]  # as in a document
Offer = tuple[str, bool, Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]]  # service, idempotent, max_attempts

# --- changes ------------------------------------------------------------------------------------------------------


class Change(msgspec.Struct, array_like=True, gc=False):
    """One change. It travels as a list: its number, then its fields in their order."""


class Reset(Change, tag=0):
    """All that was known is void."""

    told_ms: Count = 0  # when this was told, by a clock of the teller's own that is never set; 0: it does not say


class Opened(Change, tag=1):
    """A session began, or was renewed."""

    identity: str
    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    role: Literal["client", "worker"]
    interval_s: Seconds
    services: list[str]
    home: str
    config_type: Literal["JSON", "XML", "ZPL"]
    floor: Count
    highest: Count
    key: str = ""  # that it belongs to


class Closed(Change, tag=2):
    """A session ended, and its tasks before it."""

    identity: str


class Announced(Change, tag=3):
    """What a worker offers from now on."""

    identity: str
    offers: list[Offer]
    capacity: Annotated[int, Meta(ge=0, le=CAPACITY_MAX)]
    has_heartbeat: bool
    interval_s: Seconds


class Accepted(Change, tag=4):
    """A task was taken in: it waits."""

    id: Id
    service: str
    body: Body
    options: bytes
    priority: Annotated[int, Meta(ge=0, lt=PRIORITIES)]
    flags: Annotated[int, Meta(ge=0, le=127)]
    send_time_us: int
    remaining_ms: Annotated[int, Meta(ge=1)]
    waited_ms: Count
    attempt: Attempt = 0  # that it has had already
    told_ms: Count = 0  # as in Reset


class Sent(Change, tag=5):
    """It is with this worker; empty: with a peer, or with a worker that is not in the stream."""

    id: Id
    worker: str
    attempt: Attempt
    has_left: bool = False  # it may have left before this was told: when, the follower cannot know


class Returned(Change, tag=6):
    """It waits again, first in its line."""

    id: Id
    attempt: Attempt


class Parted(Change, tag=7):
    """So many parts of its reply have gone to the client."""

    id: Id
    parts: Count


class Replied(Change, tag=8):
    """A TASKREPLY settled it: its frames, as they came."""

    frames: Body


class Failed(Change, tag=9):
    """An ERROR settled it."""

    id: Id
    code: Annotated[int, Meta(ge=100, le=999)]
    text: str


class Dropped(Change, tag=10):
    """It was settled elsewhere, and no outcome is kept."""

    id: Id


class Cancelled(Change, tag=11):
    """Its client no longer wants it."""

    id: Id


class Forgotten(Change, tag=12):
    """The client has every outcome below this sequence."""

    identity: str
    floor: Count


AnyChange = (
    Reset
    | Opened
    | Closed
    | Announced
    | Accepted
    | Sent
    | Returned
    | Parted
    | Replied
    | Failed
    | Dropped
    | Cancelled
    | Forgotten
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[AnyChange]).decode


def packed(changes: list[AnyChange]) -> Body:
    """Changes as they travel: a list in msgpack, cut into frames where it is long."""
    data = _encode(changes)
    if len(data) <= FRAME_BYTES:
        return (data,)
    return tuple(data[start : start + FRAME_BYTES] for start in range(0, len(data), FRAME_BYTES))


def unpacked(frames: Body) -> list[AnyChange]:
    """The changes of one STREAM; whatever is no list of changes raises `ProtocolError`."""
    try:
        return _decode(frames[0] if len(frames) == 1 else b"".join(frames))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(Code.MALFORMED, f"STREAM: {error}") from None


# --- the sending end ----------------------------------------------------------------------------------------------


class Held(msgspec.Struct, eq=False, gc=False):
    """A TASK that leaves when the follower knows of it."""

    seq: int  # of the STREAM that tells it
    send: Send
    entry: Entry
    worker: Worker
    attempt: int


class Outgoing:
    """What has been said to a fallback that follows, what has not, and what waits for its word."""

    __slots__ = (
        "acked",
        "acked_s",
        "bytes",
        "changes",
        "follower",
        "held",
        "is_lost",
        "lost_s",
        "seq",
        "unacked",
        "unacked_changes",
    )

    def __init__(self, now: float, follower: str) -> None:
        self.follower = follower  # who has the copy, also when it is the partner no more
        self.changes: list[AnyChange] = []  # that have not left
        self.bytes = 0  # of the bodies in them
        self.seq = 0  # of the last STREAM that left
        self.acked = 0
        self.acked_s = now
        self.unacked: deque[tuple[int, int]] = deque()  # seq and number of changes
        self.unacked_changes = 0
        self.held: OrderedDict[TaskId, Held] = OrderedDict()  # oldest first
        self.is_lost = False  # nothing is streamed any more; what is held waits until the copy cannot be used
        self.lost_s = math.inf  # since when

    @property
    def is_in_sync(self) -> bool:
        """The follower knows everything that has happened."""
        return not self.is_lost and not self.changes and self.acked == self.seq

    def take(self, now: float) -> Stream:
        """What leaves now."""
        if not self.unacked:
            self.acked_s = now  # from now on an acknowledgement is waited for
        self.seq += 1
        self.unacked.append((self.seq, len(self.changes)))
        self.unacked_changes += len(self.changes)
        changes, self.changes, self.bytes = self.changes, [], 0
        return Stream(self.seq, packed(changes))

    def lose(self, now: float) -> None:
        """Nobody follows any more."""
        self.is_lost, self.lost_s = True, now
        self.changes.clear()
        self.unacked.clear()

    def acknowledge(self, seq: int, now: float) -> None:
        self.acked = max(self.acked, min(seq, self.seq))
        self.acked_s = now
        while self.unacked and self.unacked[0][0] <= seq:
            self.unacked_changes -= self.unacked.popleft()[1]
