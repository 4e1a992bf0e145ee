"""What the tests of links and sessions share: settings, brokers' words, and chance that can be foretold."""

from __future__ import annotations

from typing import Any, TypeVar

from scale0.core.client_session import ClientSession
from scale0.core.link import LinkSettings
from scale0.core.participant import ParticipantEffect, Transmit
from scale0.core.worker_session import WorkerSession
from scale0.protocol import documents
from scale0.protocol.messages import (
    NO_VERSION,
    Config,
    ConfigAck,
    ConfigVersion,
    Message,
    ReadyOk,
    ServiceOffer,
    Task,
    TaskId,
    TaskReply,
)
from scale0.protocol.network import GroupBroker, GroupConfig, Part

HOME = "tcp://home:5555"
SPARE = "tcp://spare:5555"
THIRD = "tcp://third:5555"
WALL_S = 1_000_000.0  # wall clock less monotonic clock, in these tests

T = TypeVar("T")


class Dice:
    """Always the same throw."""

    def __init__(self, throw: float = 0.5) -> None:
        self.throw = throw

    def random(self) -> float:
        return self.throw


def settings(*endpoints: str, **changes: Any) -> LinkSettings:
    return LinkSettings(endpoints=list(endpoints or (HOME,)), identity="me", nonce=b"noncenon", **changes)


def version(number: int) -> bytes:
    return ConfigVersion(1, number, b"hashhash").pack()


def ack(**changes: Any) -> ConfigAck:
    """CONFIGACK: the broker took the session."""
    given: dict[str, Any] = {"epoch": 1, "heartbeat_interval_ms": 2500, "liveness": 3}
    return ConfigAck(**({"config_version": NO_VERSION} | given | changes))


def document(*groups: dict[str, str], preferred: str = "", config_type: str = "JSON") -> bytes:
    """A config of these groups: the identity of each broker, and its endpoint."""
    listed = [
        GroupConfig(
            name=f"group-{number}",
            brokers=[GroupBroker(identity=identity, endpoints=[endpoint]) for identity, endpoint in group.items()],
        )
        for number, group in enumerate(groups)
    ]
    return documents.encode(Part(identity="me", preferred_broker=preferred, group_config=listed), config_type)


def config(number: int, document: bytes = b"{}", **changes: Any) -> Config:
    given: dict[str, Any] = {"config_type": "JSON", "config_version": version(number), "config": document, "epoch": 1}
    return Config(**(given | changes))


def ready_ok(capacity: int = 1, **changes: Any) -> ReadyOk:
    given: dict[str, Any] = {"heartbeat_interval_ms": 2500, "time_us": 0, "capacity": capacity, "epoch": 1}
    return ReadyOk(**(given | changes))


def sent(effects: list[ParticipantEffect], kind: type[T]) -> list[T]:
    """The messages of one kind that are to be transmitted."""
    return [effect.message for effect in effects if isinstance(effect, Transmit) and isinstance(effect.message, kind)]


def all_sent(effects: list[ParticipantEffect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Transmit)]


def of(effects: list[ParticipantEffect], kind: type[T]) -> list[T]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def client(*endpoints: str, up_at: float | None = 0.0, dice: Dice | None = None, **changes: Any) -> ClientSession:
    """A client that a broker has taken at `up_at`, or one that has only started."""
    limits = {name: changes.pop(name) for name in ("grace_s", "open_max", "open_bytes_max") if name in changes}
    session = ClientSession(settings(*endpoints, **changes), dice or Dice(), **limits)
    session.start(0.0, WALL_S)
    if up_at is not None:
        session.receive(ack(), up_at)
    return session


def worker(*endpoints: str, capacity: int = 2, dice: Dice | None = None, **changes: Any) -> WorkerSession:
    """A worker of `echo` that a broker has taken, and that is ready."""
    options = ("heartbeat", "adapt", "backlog_bound_s", "kept_max", "kept_bytes_max")
    given = {name: changes.pop(name) for name in options if name in changes}
    session = WorkerSession(
        settings(*endpoints, **changes), dice or Dice(), capacity=capacity, offers=[ServiceOffer("echo")], **given
    )
    session.start(0.0, WALL_S)
    session.receive(ack(), 0.0)
    session.receive(ready_ok(capacity), 0.0)
    return session


def task(name: bytes = b"one", *, service: str = "echo", remaining_ms: int = 1000, attempt: int = 1) -> Task:
    """A task as a broker sends it to a worker."""
    return Task(TaskId(b"clientclient." + name), service, (b"body",), remaining_ms, attempt)


def final(task_id: TaskId, body: bytes = b"reply", part: int = 0) -> TaskReply:
    return TaskReply(task_id, (body,), part=part)


def part(task_id: TaskId, number: int) -> TaskReply:
    return TaskReply(task_id, (b"part",), part=number, final=False)
