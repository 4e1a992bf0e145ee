"""What must hold between any two inputs: counts that add up, and tables that agree with one another.

The simulator and the tests call `check` after each step. It reads everything, so a serving broker never does.
"""

from __future__ import annotations

import msgspec

from scale0.core.broker_tasks import OWN_TASKS_MAX
from scale0.core.effects import Route
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.core.workers import NOTHING


class Census(msgspec.Struct):
    """Tasks, counted."""

    accepted: int
    replied: int
    errored: int
    queued: int
    in_flight: int


def census(state: State) -> Census:
    ledger = state.ledger
    return Census(ledger.accepted, ledger.replied, ledger.errored, ledger.queued, ledger.in_flight)


def check(state: State) -> None:
    """Raise AssertionError if the state contradicts itself."""
    _check_tasks(state)
    _check_workers(state)
    _check_limits(state)


def _check_tasks(state: State) -> None:
    count = census(state)
    # I11: accepted = replied + errored + queued + in flight.
    settled = count.replied + count.errored
    assert count.accepted == settled + count.queued + count.in_flight, f"the ledger does not add up: {count}"
    queues = [service.queue for service in state.services.by_name.values()]
    queued = {entry.id for queue in queues for entry in queue.entries()}
    assert len(queued) == count.queued == sum([queue.count for queue in queues])
    open_tasks: dict[Session, int] = {}
    for entry in state.ledger.entries.values():
        assert entry.is_queued == (entry.id in queued), f"{entry.id!r} is queued and is not"
        assert entry.is_queued == (entry.worker is None), f"{entry.id!r} is queued and with a worker"
        if entry.worker is not None:
            assert entry.worker.slots.get(entry.id) == entry.attempt, f"{entry.id!r} is in flight without a slot"
        assert not (entry.is_forwarded and entry.is_queued), f"{entry.id!r} waits here and not at its origin"
        open_tasks[entry.client] = open_tasks.get(entry.client, 0) + 1
    peers = [peer.session for peer in state.network.peers.values() if peer.session is not None]
    for session in (*state.sessions.by_identity.values(), *peers, state.own.session):
        assert session.open_tasks == open_tasks.pop(session, 0), f"{session.identity} miscounts"
    assert not open_tasks, f"tasks of sessions that are gone: {open_tasks}"
    assert state.ledger.bytes == sum(entry.size for entry in state.ledger.entries.values())


def check_session(state: State, route: Route) -> None:
    """The same for the one session at this route: cheap enough for each step."""
    session = state.sessions.by_route.get(route)
    if session is not None:
        assert session.route == route, f"{session.identity} is found by a route that it has left"
        _check_worker(state, session)


def _check_workers(state: State) -> None:
    """I3: a worker is in exactly one state, and stands in the LRU queues exactly when it can take a task."""
    for session in state.sessions.by_identity.values():
        is_copy = not session.route and session.is_absent  # of a session of the broker that this one follows
        assert is_copy or state.sessions.by_route.get(session.route) is session, (
            f"{session.identity} cannot be found by route"
        )
        _check_worker(state, session)
    _check_afar(state)
    members = {worker for service in state.services.by_name.values() for worker in service.workers}
    assert all(state.sessions.by_identity.get(worker.session.identity) is worker.session for worker in members)


def _check_worker(state: State, session: Session) -> None:
    worker = session.worker
    if worker is None:
        return
    for service in worker.services:
        assert worker in service.workers, f"{session.identity} is unknown to {service.name}"
        assert (worker in service.lru) == worker.is_listed, f"{session.identity} stands wrongly for {service.name}"
    if worker.is_listed:
        assert worker.is_open, f"{session.identity} stands in the LRU queue and cannot take a task"
        waiting = [service.name for service in worker.services if service.queue.count]
        assert not waiting or state.mode == "disabling", f"{session.identity} is free while {waiting} wait"
    assert worker.stuck <= worker.slots.keys()
    assert not NOTHING, "what is for all workers alike has been written to"


def _check_afar(state: State) -> None:
    """A peer as a worker stands in its service's list exactly when it can take a task, and nearby ones never wait."""
    for peer in state.network.peers.values():
        for name, worker in peer.workers.items():
            service = worker.services[0]
            assert worker.session is peer.session, f"{peer.identity} has a worker of another session"
            assert (worker in service.afar_lru) == worker.is_listed, f"{peer.identity} stands wrongly for {name}"
            assert not worker.is_listed or worker.is_open, f"{peer.identity} stands for {name} and cannot take a task"
            if worker.is_open and state.mode == "active":
                assert worker.is_listed, f"{peer.identity} can take a task of {name} and is not listed"
            if worker.is_listed and not worker.tier:
                assert not service.queue.count, f"{peer.identity} has room while {name} waits"
    listed = {worker for service in state.services.by_name.values() for worker in service.afar_lru}
    assert all(worker in state.network.peers[worker.session.identity].workers.values() for worker in listed)


def _check_limits(state: State) -> None:
    """I10: every queue stays within its cap."""
    limits = state.limits
    assert len(state.sessions) <= limits.sessions
    assert len(state.ledger.entries) <= limits.accepted
    assert state.ledger.bytes <= limits.accepted_bytes
    assert state.outcomes.count <= limits.outcomes
    assert state.outcomes.bytes <= limits.outcomes_bytes
    assert len(state.dead_letters.letters) <= limits.dead_letters
    assert len(state.error_clients.records) <= limits.error_clients
    assert len(state.strangers) <= limits.strangers
    assert len(state.own.asked) <= OWN_TASKS_MAX
    assert state.own.asked.keys() <= state.ledger.entries.keys()
    kept = sum(len(session.kept) for session in state.sessions.by_identity.values())
    assert kept == state.outcomes.count, f"{kept} outcomes are kept, {state.outcomes.count} are counted"
    for session in state.sessions.by_identity.values():
        assert session.undelivered_bytes <= limits.undelivered_bytes_per_client
