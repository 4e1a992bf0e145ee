"""Another broker at a desk: a peer that speaks by hand, so that a test can say what a real one never would."""

from __future__ import annotations

from typing import Any, TypeVar

from scale0.core.effects import Alarm
from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import PEER
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import NO_VERSION, Connect, PeerService, PeerStatus, Task, TaskId, TaskReply
from tests.core.desk import NONCE, Desk, Sent

M = TypeVar("M")
ADDRESS = "tcp://10.0.0.2:5555"


def joining(identity: str = "b2", *, group: str = "", **more: Any) -> Connect:
    """CONNECT of a broker that asks to be entered into the document."""
    entry = {"identity": identity, "endpoints": [ADDRESS], "group": group}
    return Connect(**{"identity": identity, "nonce": NONCE, "is_joining": True, "broker": entry, **more})


def status(identity: str = "b2", *services: PeerService, **more: Any) -> PeerStatus:
    told = {"identity": identity, "state": "active", "epoch": 1, "config_version": NO_VERSION, **more}
    return PeerStatus(services=list(services), **told)


class Neighbour:
    """A broker that has joined the desk's and is linked with it."""

    def __init__(self, desk: Desk, identity: str = "b2", *, group: str = "") -> None:
        self.desk = desk
        self.identity = identity
        self.say(joining(identity, group=group))
        desk.pass_time(0.1)
        assert desk.broker.state.config.document.broker(identity) is not None, "it was entered"
        self.say(status(identity, is_full=True))

    def say(self, message: AnyMessage, route: str = "") -> Sent:
        return self.desk.say(route or self.identity, PEER, message)

    def offer(self, name: str, workers: int = 1, credit: int = 1, **more: Any) -> Sent:
        """PEERSTATUS with a word on one service."""
        return self.say(status(self.identity, PeerService(name, workers, credit, **more)))

    def is_linked(self) -> bool:
        return self.desk.broker.state.network.peers[self.identity].is_linked

    def reply(self, task: Task, body: bytes = b"done", **more: Any) -> Sent:
        return self.say(TaskReply(task.id, (body,), task.attempt, **more))

    def forward(self, sequence: int, service: str, timeout_s: float = 30.0, **more: Any) -> Sent:
        """A task of one of its own clients."""
        return self.say(Task(self.id(sequence), service, (b"body",), round(timeout_s * 1000), **more))

    def id(self, sequence: int) -> TaskId:
        return make_id(id_prefix("bob", NONCE), sequence)


def said(sent: Sent, kind: type[M], to: str = "") -> list[M]:
    """The messages of this kind, to anybody or to `to`."""
    return [message for name, message in sent if isinstance(message, kind) and to in ("", name)]


def alarms(desk: Desk) -> list[str]:
    """What the last verb raised."""
    return [effect.name for effect in desk.others if isinstance(effect, Alarm)]
