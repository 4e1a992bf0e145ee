"""The active broker's end of the state stream: when it is told, and what waits for the fallback's word.

Rule 31 and the promise: a task of a service that is not idempotent runs at most once, also across a takeover. So such a
TASK leaves for its worker only when the fallback has acknowledged that it does: a fallback that has not heard of it may
dispatch it itself. All else goes its way at once, for the fallback finds out: from workers, which say what they hold,
and from clients, which ask again.

A follower that is gone keeps such tasks waiting no longer than its copy could be used: it is void as soon as its
process has ended or has said so, and in any case `STALE_TAKEOVERS` × takeover_timeout after its last word, for a
fallback does not trust its copy either for longer than that (`trusted_until_s`).
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Final

from scale0.core import afar, changes, routing
from scale0.core.effects import Send
from scale0.core.ledger import Entry
from scale0.core.star import Event
from scale0.core.state import State
from scale0.core.stream import TOGETHER_BYTES_MAX, TOGETHER_MAX, UNACKED_MAX, Held, Outgoing, Reset, Sent
from scale0.core.workers import Worker, release
from scale0.protocol.dialects import CLIENT, PEER, WORKER
from scale0.protocol.messages import StreamAck, Task, TaskId

STALE_TAKEOVERS: Final = 2  # a copy that is older than so many takeover_timeouts is not trusted
_NATIVE: Final = (CLIENT, WORKER)

# --- the stream itself --------------------------------------------------------------------------------------------


def begin(state: State) -> None:
    """The partner asks for a copy: all there is, and from then on every change."""
    assert state.pair is not None, "only one of a pair is followed"
    before = state.stream
    held = before.held if before is not None else None
    stream = state.stream = Outgoing(state.now, state.pair.partner)
    if before is not None:  # numbers go on: what is acknowledged of the last copy says nothing of this one
        stream.seq = stream.acked = before.seq
    state.counters["copies_begun"] += 1
    stream.changes.append(Reset(int(state.now * 1000)))
    for session in state.sessions.by_identity.values():
        if session.dialect in _NATIVE:
            changes.opened(state, session)
            flush_if_full(state)
    for worker in _workers_in_order(state):
        changes.announced(state, worker)
        flush_if_full(state)
    for entry in _entries_in_order(state):
        changes.accepted(state, entry)
        flush_if_full(state)
    for session in state.sessions.by_identity.values():
        for sequence, outcome in session.kept.items() if session.dialect is CLIENT else ():
            changes.kept(state, outcome, session.prefix + sequence.to_bytes(8, "big"))
            flush_if_full(state)
    flush(state)
    for one in held.values() if held else ():  # the copy says that they were sent: now they wait for its arrival
        stream.held[one.entry.id] = Held(stream.seq, one.send, one.entry, one.worker, one.attempt)


def _workers_in_order(state: State) -> list[Worker]:
    """Least recently used first: a worker stands in all its LRU queues in the same order."""
    listed = {worker: None for service in state.services.by_name.values() for worker in service.lru}
    workers = [s.worker for s in state.sessions.by_identity.values() if s.worker is not None and s.dialect is WORKER]
    return [*(w for w in listed if w.session.dialect is WORKER), *(w for w in workers if w not in listed)]


def _entries_in_order(state: State) -> list[Entry]:
    """What is in flight; then what waits, each line in its order."""
    waiting = [entry for service in state.services.by_name.values() for entry in service.queue.entries()]
    return [*(entry for entry in state.ledger.entries.values() if not entry.is_queued), *waiting]


def flush_if_full(state: State) -> None:
    stream = state.stream
    if stream is not None and (len(stream.changes) >= TOGETHER_MAX or stream.bytes >= TOGETHER_BYTES_MAX):
        flush(state)


def flush(state: State) -> None:
    """The burst is over: what has changed leaves."""
    stream = state.stream
    if stream is None or not stream.changes or stream.is_lost:
        return
    peer = state.network.peers.get(state.pair.partner) if state.pair is not None else None
    if peer is None or peer.session is None or not peer.is_linked or peer.session.is_absent:
        lose(state)
        return
    state.post(peer.session.route, peer.session, stream.take(state.now))
    if stream.unacked_changes > UNACKED_MAX:
        state.alarm("fallback_behind", f"fallback {peer.identity} does not keep up: it gets a new copy")
        lose(state)


def acknowledged(state: State, message: StreamAck) -> None:
    """STREAMACK: what waited for it may go."""
    stream = state.stream
    if stream is not None and not stream.is_lost:
        stream.acknowledge(message.seq, state.now)
        release_held(state)


def lose(state: State) -> None:
    """Nobody follows any more. What is held waits until the copy is void, or too old to be used."""
    stream = state.stream
    if stream is not None and not stream.is_lost:
        stream.lose(state.now)
        state.network.is_dirty = True  # the partner hears that it is not followed
        state.counters["followers_lost"] += 1


def end(state: State) -> None:
    """The partner has no copy that it could use: it was started anew, has left, or says so."""
    stream = state.stream
    if stream is not None:
        lose(state)
        state.stream = None
        _release(state, list(stream.held.values()))


def tick(state: State) -> None:
    stream = state.stream
    if stream is None:
        return
    takeover_s = state.settings.takeover_s
    if not stream.is_lost and stream.unacked and state.now - stream.acked_s > takeover_s:
        state.alarm("fallback_behind", f"the fallback has acknowledged nothing for {takeover_s:g} s: it is left behind")
        lose(state)
    if stream.is_lost and state.now >= stream.lost_s + STALE_TAKEOVERS * takeover_s:
        end(state)


def next_s(state: State) -> float:
    stream = state.stream
    if stream is None:
        return math.inf
    if stream.is_lost:
        return stream.lost_s + STALE_TAKEOVERS * state.settings.takeover_s
    return stream.acked_s + state.settings.takeover_s + 1e-6 if stream.unacked else math.inf


def trusted_until_s(state: State, event: Event) -> float:
    """How long a follower that serves now may take what its copy lacks for not dispatched.

    A partner that is silent may live, and waits for the copy no longer than this. One that has said that it does not
    serve will do so in a new epoch only, of which its clients tell. Of what was done in a later epoch than the copy's,
    as by a process that was started anew and died, the copy knows nothing.
    """
    pair = state.pair
    assert pair is not None, "only one of a pair has a copy"
    stale_s = pair.synced_s + STALE_TAKEOVERS * state.settings.takeover_s
    if not pair.is_whole or pair.epoch_seen > pair.copied_epoch or state.now >= stale_s:
        return -math.inf
    return stale_s if event is Event.ASKED else math.inf


# --- what waits for the follower's word ---------------------------------------------------------------------------


def send(state: State, entry: Entry, effect: Send) -> None:
    """A TASK leaves while somebody follows: that is told, and it goes at once or when it is acknowledged."""
    stream = state.stream
    worker = entry.worker
    assert stream is not None, "somebody follows"
    assert worker is not None, "it was given to one"
    # Also what came when nobody followed any more waits: a copy that does not know it is taken as a sign that it has
    # not been dispatched, when its client asks for it again.
    is_copied = changes.is_streamed(entry)
    if is_copied and not stream.is_lost:
        session = worker.session
        to = session.identity if session.dialect is WORKER else ""
        stream.changes.append(Sent(entry.id, to, entry.attempt))
    if is_copied and not entry.service.idempotent:
        stream.held[entry.id] = Held(stream.seq + 1, effect, entry, worker, entry.attempt)
    else:
        state.effects.append(effect)


def release_held(state: State) -> None:
    """Send what the follower knows of; one in doubt sends nothing."""
    stream = state.stream
    if stream is None or state.mode not in routing.DISPATCHING:
        return
    acked = stream.acked
    ready = list(takewhile(lambda held: held.seq <= acked, stream.held.values()))
    for held in ready:
        del stream.held[held.entry.id]
    _release(state, ready)


def _release(state: State, ready: list[Held]) -> None:
    entries = state.ledger.entries
    for held in ready:
        entry, worker = held.entry, held.worker
        is_wanted = entry.worker is worker and entry.attempt == held.attempt and entries.get(entry.id) is entry
        # Meanwhile its worker may have gone, or taken room or credit back; and we may be in doubt.
        has_room = not worker.session.is_absent and not worker.is_paused and len(worker.slots) <= worker.capacity
        if is_wanted and has_room and state.mode in routing.DISPATCHING:
            _send_late(state, held)
        elif is_wanted:
            release(worker, entry.id, held.attempt)
            routing.take_back(state, entry)
        elif worker.slots.get(entry.id) == held.attempt:  # settled without it: it never started
            release(worker, entry.id, held.attempt)
            _feed(state, worker)


def _send_late(state: State, held: Held) -> None:
    """As of now: its worker may have moved, time has passed, and the config may have changed."""
    send, message = held.send, held.send.message
    send.route = held.worker.session.route
    if type(message) is Task:
        remaining_ms = int((held.entry.deadline_s - state.now) * 1000)
        message.remaining_ms = remaining_ms if remaining_ms > 0 else 1
        message.broker_time_us = state.wall_us()
        message.config_version = state.config.packed_version
    state.effects.append(send)


def recall(state: State, entry: Entry) -> bool:
    """If this attempt has not left, it is as if it had not been made, and it will never start."""
    worker = entry.worker
    if worker is None or not unhold(state, entry):
        return False
    release(worker, entry.id, entry.attempt)
    entry.worker = None
    entry.attempt -= 1
    _feed(state, worker)
    return True


def _feed(state: State, worker: Worker) -> None:
    if worker.session.dialect is not PEER:
        routing.feed(state, worker)
        return
    peer = state.network.peers.get(worker.session.identity)
    if peer is not None and worker in peer.workers.values():  # else it was let go meanwhile
        afar.feed(state, worker)


def is_held(state: State, task_id: TaskId) -> bool:
    """Whether it was given to somebody and has not left yet."""
    return state.stream is not None and task_id in state.stream.held


def may_run_yet(state: State, entry: Entry) -> bool:
    """Whether a fallback that takes over may find it in its copy and run it: nobody can say that it never ran."""
    return state.stream is not None and changes.is_streamed(entry) and not entry.service.idempotent


def unhold(state: State, entry: Entry) -> bool:
    """Whether this attempt has not left: then it does not leave any more."""
    stream = state.stream
    held = stream.held.get(entry.id) if stream is not None else None
    if stream is None or held is None or held.entry is not entry or held.attempt != entry.attempt:
        return False
    del stream.held[entry.id]
    return True


def take_all_back(state: State) -> None:
    """Another one will serve: what has not left waits again, and the follower hears it."""
    stream = state.stream
    while stream is not None and stream.held:
        _, held = stream.held.popitem(last=False)
        if state.ledger.entries.get(held.entry.id) is held.entry and held.entry.worker is held.worker:
            release(held.worker, held.entry.id, held.attempt)
            routing.take_back(state, held.entry)
