"""What the tests of a pair of brokers share: a third broker, pauses, takeovers, and the comparison of two states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scale0.core.ledger import Entry
from scale0.core.state import State
from scale0.protocol.dialects import CLIENT, WORKER
from scale0.protocol.messages import Connect, Error, Ready, ServiceOffer, TaskReply
from tests.core.mesh import SETTLED_S, WORKER_NONCE, Mesh, Node, document_of

TAKEOVER_S = 7.5  # three intervals, the default
SHORTLY_S = 0.3
SEEN = {"prim": 1}  # what a participant of the primary's first epoch has seen


def pair_and_third(**document: Any) -> tuple[Mesh, Node, Node, Node]:
    """A primary, its fallback and another broker of the network; settled."""
    mesh = Mesh()
    written = document_of({"prim": {"fallback_broker": "back"}, "back": {}, "third": {}}, **document)
    primary, fallback, third = (mesh.add(name, document=written) for name in ("prim", "back", "third"))
    mesh.run(SETTLED_S)
    assert (primary.mode, fallback.mode, third.mode) == ("active", "passive", "active")
    mesh.passed.clear()
    return mesh, primary, fallback, third


def pause(mesh: Mesh, node: Node, seconds: float) -> None:
    """It stands still, as a stopped process does: what is sent to it waits, and arrives when it goes on."""
    others = [name for name in mesh.nodes if name != node.name]
    for name in others:
        mesh.cut(node.name, name)
    node.is_up = False
    mesh.run(seconds)
    node.is_up = True
    mesh.heal()


def die_and_be_asked_for(mesh: Mesh, dead: Node, successor: Node, client: str = "eve") -> None:
    """`dead` is killed without a word; when it has been silent for long enough somebody asks the other."""
    dead.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    successor.client(client, epochs=SEEN)
    assert successor.mode == "active"


def come_to(
    node: Node, name: str, *services: str, held: Sequence[bytes] = (), capacity: int = 1, idempotent: bool = False
) -> None:
    """A worker comes as its library does after a loss: CONNECT and READY name what it holds."""
    connect = Connect(
        identity=name, nonce=WORKER_NONCE, services=list(services), in_flight=list(held), epochs=dict(SEEN)
    )
    node.say(name, WORKER, connect)
    offers = [ServiceOffer(service, idempotent) for service in services]
    node.say(name, WORKER, Ready(services=offers, capacity=capacity, in_flight=list(held)))


def copy_of(state: State) -> dict[str, Any]:
    """All that a successor needs: what must be equal in an active broker and in the copy of it."""
    sessions = [one for one in state.sessions.by_identity.values() if one.dialect in (CLIENT, WORKER)]
    entries = [entry for entry in state.ledger.entries.values() if entry.client.dialect is CLIENT]
    return {
        "sessions": {
            one.identity: (one.nonce, one.role, one.interval_s, one.services, one.home, one.config_type)
            for one in sessions
        },
        "clients": {
            one.identity: (one.floor, {number: _said(kept) for number, kept in one.kept.items()})
            for one in sessions
            if one.dialect is CLIENT
        },
        "offers": {
            one.identity: {service.name: service.workers[one.worker] for service in one.worker.services}
            for one in sessions
            if one.worker is not None
        },
        "terms": {
            one.identity: (one.worker.capacity, one.worker.has_heartbeat) for one in sessions if one.worker is not None
        },
        "queues": {
            service.name: [entry.id for entry in service.queue.entries() if entry.client.dialect is CLIENT]
            for service in state.services.by_name.values()
            if any(entry.client.dialect is CLIENT for entry in service.queue.entries())
        },
        "in_flight": {entry.id: (_holder(entry), entry.attempt) for entry in entries if entry.worker is not None},
        "tasks": {entry.id: _task(entry) for entry in entries},
    }


def _said(outcome: TaskReply | Error) -> tuple[Any, ...]:
    if isinstance(outcome, TaskReply):
        return (outcome.body, outcome.attempt, outcome.status)
    return (outcome.code, outcome.text)


def _holder(entry: Entry) -> str:
    """The worker's name, if it is one that could come to the successor."""
    worker = entry.worker
    return worker.session.identity if worker is not None and worker.session.dialect is WORKER else ""


def _task(entry: Entry) -> tuple[Any, ...]:
    task = entry.task
    terms = (task.service, task.body, task.options, task.priority, task.flags, task.send_time_us)
    return (*terms, entry.attempt, entry.parts, entry.is_cancelled)
