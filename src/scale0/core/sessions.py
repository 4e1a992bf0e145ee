"""Sessions: what the broker knows of one client or worker, and where it can be reached now.

An identity travels in the message and never as the socket's routing id (rule 2): fixed routing ids lock a peer out
after a broken link or let another take its place. A session is an identity and the nonce of one process. When that
process comes back on a new connection the session moves there at once, with everything that belongs to it; queues and
tables name sessions, never connections.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scale0.core.effects import Route
from scale0.core.timers import Timetable
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.ids import id_prefix
from scale0.protocol.messages import NO_VERSION, Error, TaskReply

if TYPE_CHECKING:
    from scale0.core.permissions import Grant
    from scale0.core.workers import Worker

LIVENESS_RESOLUTION_S = 0.02
LATE_S = 0.1  # who looks at the silent later than that has stood still itself


@dataclass(slots=True, eq=False, kw_only=True)
class Presence:
    """What each message of a participant looks at: side by side in memory, for its session may be in no cache."""

    dialect: Dialect
    route: Route
    last_seen_s: float
    is_absent: bool = False  # nothing can be sent: the link broke, its pipe is full, or it fell silent
    takes_bundles: bool = False  # several messages in one, on the connection that it has now
    worker: Worker | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Session(Presence):
    """One participant. What only clients or only workers need stands last."""

    identity: str
    nonce: bytes
    prefix: bytes  # what the ids of its tasks begin with
    connected_s: float
    interval_s: float
    undelivered: list[TaskReply | Error] = field(default_factory=list)  # waits for it to speak again, oldest first
    undelivered_bytes: int = 0
    config_version: bytes = NO_VERSION  # the newest that it named
    config_pushed_s: float = 0.0
    warned_version: bytes = NO_VERSION  # the version for which it was told 426
    offset_us: int | None = None  # its clock less ours, as it measured
    offset_bits: int = 0  # to within 2**n µs; 0: it did not say
    name_no: int = 0  # of its identity, in the journal; 0: its part of rows is to be made anew
    row_part: bytes = b""  # of its tasks' rows, as their client or as who holds them
    skewed: int = 0  # measurements in a row beyond max_clock_skew
    turn: bytes | None = None  # REQ: the open request, b"" or a task's id; None when nothing may be sent
    turn_bucket: int = 0  # REQ: where the time of its PONG is filed
    config_type: str = "JSON"
    moved_s: float = -math.inf  # when it was last told to go elsewhere
    home: str = ""  # the broker that it was first sent to, if that is another one
    process: str = ""  # host:number, as it told
    serial: int = 0  # of its newest CONNECT
    key: str = ""  # the public key that it belongs to, if this broker asks for keys
    grant: Grant | None = None  # what that key may do
    copied_until_s: float = -math.inf  # until then the partner dispatches nothing that its copy, which we had, lacks
    # worker
    services: list[str] = field(default_factory=list)  # as CONNECT named them
    # client
    open_tasks: int = 0
    longest_timeout_s: float = 0.0
    settled_s: float = 0.0  # when one of its tasks was last settled
    highest: int = 0  # sequence that it has sent: a higher one is new
    is_doubted: bool = False  # what it sent before may have been dispatched, though nobody here knows of it
    floor: int = 1  # outcomes of lower sequences may be forgotten
    kept: dict[int, TaskReply | Error] = field(default_factory=dict)  # settled outcomes by sequence, oldest first
    heavy: dict[int, int] = field(default_factory=dict)  # bytes of the large ones among them
    made: int = 0  # Majordomo: sequences that the broker made for it
    paces: tuple[tuple[float, int], ...] = ()  # how far it had counted, and when: the last two looks (`vitals`)
    troubles: list[tuple[int, int]] = field(default_factory=list)  # its errors, by spans of time

    @property
    def role(self) -> Role:
        return self.dialect.role


class Sessions:
    """All sessions, by identity and by the connection on which each speaks now."""

    def __init__(self) -> None:
        self.by_identity: dict[str, Session] = {}
        self.by_route: dict[Route, Session] = {}  # peers too, who have no identity among the others'
        self.workers = 0
        self.clients = 0
        self.liveness: Timetable[str, Session] = Timetable(LIVENESS_RESOLUTION_S)
        self._buckets: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.by_identity)

    def open(
        self, identity: str, nonce: bytes, dialect: Dialect, route: Route, now: float, interval_s: float
    ) -> Session:
        """A new session. Its identity must be free."""
        assert identity not in self.by_identity, f"{identity} has a session"
        session = Session(
            identity=identity,
            nonce=nonce,
            dialect=dialect,
            route=route,
            prefix=id_prefix(identity, nonce),
            connected_s=now,
            last_seen_s=now,
            interval_s=interval_s,
        )
        self.by_identity[identity] = session
        if route:  # a copy of another broker's session cannot be reached yet
            self.by_route[route] = session
        self._count(session, 1)
        return session

    def move(self, session: Session, dialect: Dialect, route: Route) -> None:
        """The same process speaks on another connection; the old one no longer counts."""
        if self.by_route.get(session.route) is session:
            del self.by_route[session.route]
        session.route = route
        session.dialect = dialect
        session.name_no = 0
        self.by_route[route] = session

    def close(self, session: Session) -> None:
        del self.by_identity[session.identity]
        self._count(session, -1)
        if self.by_route.get(session.route) is session:
            del self.by_route[session.route]
        self.unwatch(session)

    def clear(self) -> None:
        """Forget all participants; peers stay."""
        for session in list(self.by_identity.values()):
            self.close(session)

    def _count(self, session: Session, change: int) -> None:
        if session.role is Role.WORKER:
            self.workers += change
        else:
            self.clients += change

    def watch(self, session: Session, at_s: float) -> None:
        """Look at its liveness at `at_s`. Traffic does not move that time: it is looked up when the time comes."""
        self.unwatch(session)
        self._buckets[session.identity] = self.liveness.add(session.identity, session, at_s)

    def unwatch(self, session: Session) -> None:
        bucket = self._buckets.pop(session.identity, None)
        if bucket is not None:
            self.liveness.remove(session.identity, bucket)

    def unheard(self, now: float) -> list[Session]:
        """Sessions whose time to be looked at has come."""
        due = self.liveness.due(now)
        for session in due:
            del self._buckets[session.identity]
        return due
