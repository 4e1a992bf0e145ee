"""Every message of the native dialect, one class a command, named after it letter for letter.

Frequent messages (TASK, TASKREPLY, PING, PONG) travel as packed fields, all others as a msgpack map of their
parameters; `native.py` does both. Times on the wire are UTC in µs, durations are in ms or µs as their names say, and a
deadline travels as the time that remains, for no two clocks agree. Majordomo's own messages are in `majordomo.py`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NewType

import msgspec

TaskId = NewType("TaskId", bytes)
Body = tuple[bytes, ...]

UNKNOWN_US = -1  # a duration or offset that nobody measured; never guessed


class ConfigVersion(msgspec.Struct, frozen=True, order=True, gc=False):
    """(epoch, number, content hash), totally ordered. All zero: no config yet."""

    epoch: int = 0
    number: int = 0
    hash: bytes = bytes(8)

    def pack(self) -> bytes:
        return self.epoch.to_bytes(4, "big") + self.number.to_bytes(4, "big") + self.hash

    @classmethod
    def unpack(cls, packed: bytes) -> ConfigVersion:
        return cls(int.from_bytes(packed[:4], "big"), int.from_bytes(packed[4:8], "big"), packed[8:16])

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}.{self.hash.hex()[:8]}"


NO_VERSION = bytes(16)
"""A packed config version that says "none"."""


class Command(IntEnum):
    CONNECT = 1
    CONFIG = 2
    CONFIGACK = 3
    READY = 4
    READYOK = 5
    PING = 6
    PONG = 7
    TASK = 8
    TASKREPLY = 9
    CANCEL = 10
    NEEDBROKER = 11
    CHANGEBROKER = 12
    FORCENEGOTIATE = 13
    DISCONNECT = 14
    MANAGEMENTREQ = 15
    MANAGEMENTREP = 16
    ERROR = 17
    PEERSTATUS = 18
    TABLE = 19
    TABLEREQ = 20
    SNAPSHOT = 21
    SNAPSHOTREQ = 22
    STREAM = 23
    STREAMACK = 24
    CONFIGCHANGE = 25


class Status(IntEnum):
    OK = 0
    FAILED = 1  # the handler raised: the body says what
    RETURNED = 2  # never started: goes back to the front of the queue


class Flag(IntEnum):
    RESENT = 1  # the client has sent this id before and heard no outcome
    PARTLY_ANSWERED = 2  # with RESENT: parts of its reply have reached the client, so it is not repeatable
    SAME_PAIR = 4  # with RESENT: it was sent to the receiver's pair of brokers only


# --- frequent, packed ---------------------------------------------------------------------------------------------


class Task(msgspec.Struct, gc=False):
    """A request. The broker fills in `attempt`, its time and its config version on the way to the worker."""

    id: TaskId
    service: str
    body: Body
    remaining_ms: int
    attempt: int = 1
    priority: int = 1
    flags: int = 0
    send_time_us: int = 0
    behind: int = 0  # this task's sequence less the oldest one that is still unanswered
    broker_time_us: int = 0
    config_version: bytes = NO_VERSION
    options: bytes = b""  # a msgpack map, passed through


class TaskReply(msgspec.Struct, gc=False, eq=False):
    """An answer: parts are numbered from 0, and the last one is `final`. Never changed once it was made."""

    id: TaskId
    body: Body
    attempt: int = 1
    status: int = 0
    part: int = 0
    final: bool = True
    time_us: int = 0
    wait_us: int = UNKNOWN_US  # in the worker, before the handler ran
    work_us: int = UNKNOWN_US  # in the handler
    config_version: bytes = NO_VERSION
    received: bytes = b""  # the header frame that it came in, if it did; says nothing more

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskReply) and self._said() == other._said()

    __hash__ = None  # type: ignore[assignment]

    def _said(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name != "received")


class Ping(msgspec.Struct, gc=False):
    """Alive. Zero or `UNKNOWN` fields were not measured or do not apply to the sender's role."""

    time_us: int
    heartbeat_interval_ms: int = 0
    config_version: bytes = NO_VERSION
    offset_us: int = 0
    has_offset: bool = False
    oldest_unanswered: int = 0  # client: every sequence below it may be forgotten
    offset_bits: int = 0  # the offset is known to within 2**n µs; 0: not said


class Pong(msgspec.Struct, gc=False):
    time_us: int
    echo_us: int
    config_version: bytes = NO_VERSION
    epoch: int = 0


class Stream(msgspec.Struct, gc=False):
    """Changes of an active broker's state, for its fallback: a msgpack list, cut into frames where it is long."""

    seq: int
    changes: Body


# --- rare, a map of parameters ------------------------------------------------------------------------------------


class Rare(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A message whose parameters travel as a msgpack map."""


class Connect(Rare):
    """Starts or renews a session: the same identity and nonce move it to this connection."""

    identity: str
    nonce: bytes
    services: list[str] = []
    config_type: str = "JSON"
    config_version: bytes = NO_VERSION
    in_flight: list[bytes] = []
    covers_ms: int = 0  # worker: what it was sent within this time, and does not list, never reached it
    home: str = ""  # client, worker: the broker that it was first sent to, if it is another one than this
    process: str = ""  # worker: the process that it is, as host:number
    broker: dict[str, Any] = {}  # peer: its entry in the network's document, as it would like it to be
    network: str = ""  # peer: the network that it belongs to; empty: it has no config yet
    is_joining: bool = False  # peer: it asks to be entered into the document
    epochs: dict[str, int] = {}  # client, worker: the highest epoch that it has seen of each pair of brokers
    serial: int = 0  # each CONNECT of a process has a higher one; 0: it does not count
    bundles: bool = False  # it takes several messages in one


class Config(Rare):
    config_type: str
    config_version: bytes
    config: bytes
    epoch: int = 0
    pair: str = ""  # the primary of the pair whose epoch this is; empty: the broker has no fallback
    heartbeat_interval_ms: int = 0
    liveness: int = 0
    bundles: bool = False  # the broker takes several messages in one, and sends them


class ConfigAck(Rare):
    """The version is current. A publisher repeats it each interval, with its identity."""

    config_version: bytes
    epoch: int = 0
    pair: str = ""
    heartbeat_interval_ms: int = 0
    liveness: int = 0
    identity: str = ""
    bundles: bool = False


class ServiceOffer(msgspec.Struct, omit_defaults=True):
    name: str
    idempotent: bool = False
    max_attempts: int = 3


class Ready(Rare):
    """Enters the LRU queue; sent again, it changes services or capacity at run time. Capacity 0: leaving or pausing."""

    services: list[ServiceOffer]
    capacity: int = 1
    heartbeat: bool = True
    heartbeat_interval_ms: int = 0
    time_us: int = 0
    config_version: bytes = NO_VERSION
    in_flight: list[bytes] = []


class ReadyOk(Rare):
    heartbeat_interval_ms: int
    time_us: int
    capacity: int
    refused: dict[str, str] = {}  # service → why
    epoch: int = 0


class Cancel(Rare):
    id: bytes


class NeedBroker(Rare):
    identity: str
    services: list[str] = []
    tried: list[str] = []  # endpoints that did not answer


class ChangeBroker(Rare):
    """Go there. `endpoint` is one address that serves the receiver's role."""

    identity: str
    endpoints: list[str]
    public_key: str = ""
    reason: str = ""


class ForceNegotiate(Rare):
    reason: str


class Disconnect(Rare):
    reason: str = ""
    is_drained: bool = False  # peer: it holds nothing more; what it was sent and has not answered never started


class ManagementReq(Rare):
    """A command. Between peers there is no password, but the role that the user has at the sender."""

    auth_id: str
    auth_password: str
    seq: int
    command: str
    arguments: dict[str, Any] = {}
    command_id: str = ""
    brokers: list[str] | str = "own"  # whom it is for: who is asked, all of the network, or these
    role: str = ""

    def __repr__(self) -> str:
        return f"ManagementReq({self.auth_id!r}, {self.command!r}, seq={self.seq}, …)"


class ManagementRep(Rare):
    seq: int
    result: Any = None


class Error(Rare):
    """`id` when it answers TASK or CANCEL, `seq` when it answers MANAGEMENTREQ; `fatal` ends the session."""

    code: int
    text: str
    id: bytes = b""
    seq: int = 0
    fatal: bool = False
    detail: dict[str, Any] = {}


# --- between peers ------------------------------------------------------------------------------------------------


class PeerService(msgspec.Struct, omit_defaults=True):
    """What a broker can do for its peer in one service: `credit` tasks at once, those in flight included."""

    name: str
    workers: int = 0
    credit: int = 0
    queued: int = 0
    idempotent: bool = False
    max_attempts: int = 1


class PeerStatus(Rare):
    """Alive, and how. `services` lists those that changed since the last one, or all if `is_full`."""

    identity: str
    state: str
    epoch: int
    config_version: bytes
    heartbeat_interval_ms: int = 0
    workers: int = 0
    clients: int = 0
    is_full: bool = False
    services: list[PeerService] = []
    fallback: str = ""  # of an active broker with a fallback: how that is, in sync, behind or lost
    # between the two brokers of a pair
    star: str = ""  # what the sender is: primary, backup, active, passive or doubtful
    stream: int = 0  # the last STREAM that left for the receiver; 0: none leaves
    ask: int = 0  # answer this at once, with the same number as `echo`
    echo: int = 0
    # if the sender records: how much it has recorded, so that another's record bounds what its crash lost
    boot: str = ""
    accepted: int = 0
    settled: int = 0
    open_tasks: int = 0
    last_seq: int = 0


class TableReq(Rare):
    """Asks for the heartbeat table."""


class Table(Rare):
    """The heartbeat table, whole or what changed in it: a row a worker, one that is gone has only its identity."""

    seq: int
    is_full: bool = False
    rows: list[dict[str, Any]] = []


class SnapshotReq(Rare):
    """Asks for a state: `config`, the document with its history; `state`, everything, as STREAM."""

    what: str


class Snapshot(Rare):
    """`config`: a list of config records, the newest last. `lost`: records that lost against a newer one."""

    what: str
    seq: int
    state: bytes


class StreamAck(Rare):
    seq: int


class ConfigChange(Rare):
    """A change of the document for the sequencer; MANAGEMENTREP or ERROR with the same `seq` answers it."""

    seq: int
    base: bytes  # the version that it was made from
    document: bytes
    author: str = ""
    comment: str = ""


Message = (
    Task
    | TaskReply
    | Ping
    | Pong
    | Connect
    | Config
    | ConfigAck
    | Ready
    | ReadyOk
    | Cancel
    | NeedBroker
    | ChangeBroker
    | ForceNegotiate
    | Disconnect
    | ManagementReq
    | ManagementRep
    | Error
    | PeerStatus
    | TableReq
    | Table
    | SnapshotReq
    | Snapshot
    | Stream
    | StreamAck
    | ConfigChange
)
