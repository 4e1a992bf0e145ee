"""What operators do to single workers and tasks: send a worker away, cancel a task, try one again or for a test.

Workers are named by their identity, tasks as listings show them: `identity.nonce.sequence`, or the beginning of that as
long as it fits one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from scale0.core import broker_tasks, connections, routing
from scale0.core.effects import Send
from scale0.core.ledger import Entry
from scale0.core.outcomes import DeadLetter
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.errors import ProtocolError
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.protocol.ids import id_prefix, make_id, show_id
from scale0.protocol.majordomo import MdpDisconnect
from scale0.protocol.messages import Disconnect, ForceNegotiate

T = TypeVar("T")
Arguments = dict[str, Any]
BEGUN_AMONG: Final = 5_000  # open tasks among which one is looked for by the beginning of its id
REASON_MAX: Final = 200


def kick_worker(state: State, arguments: Arguments) -> Any:
    """Its session ends, and rule 9 holds for what it has: dispatched again if that may be, else 502.

    It is told DISCONNECT with the reason, and may come back at once: who is to stay away loses its key, or its process.
    """
    _must_serve(state)
    identity = text_of(arguments, "worker", "the identity of a worker")
    session = state.sessions.by_identity.get(identity)
    if session is None or session.worker is None:
        what = "is a client" if session is not None else "is not here"
        raise ProtocolError(Code.MALFORMED, f"worker: {identity!r} {what}; list workers shows who is")
    reason = text_of(arguments, "reason", "a reason", default="")[:REASON_MAX]
    author = str(arguments.get("author") or "an operator")
    why = f"sent away by {author}{f': {reason}' if reason else ''}"
    held = [entry for task_id in session.worker.slots if (entry := state.ledger.entries.get(task_id)) is not None]
    told = _farewell(session, why)
    connections.close(state, session, why)
    if told is not None:
        state.effects.append(told)
    state.counters["workers_kicked"] += 1
    lost = sum(state.ledger.entries.get(entry.id) is not entry for entry in held)
    return {"worker": identity, "tasks": len(held), "repeated": len(held) - lost, "lost": lost}


def _farewell(session: Session, why: str) -> Send | None:
    """DISCONNECT in its dialect. A REQ socket hears something only if it has asked; then it is to negotiate anew."""
    if session.is_absent:
        return None
    if session.dialect.majordomo:
        return Send(session.route, session.dialect, MdpDisconnect())
    if not session.dialect.is_req:
        return Send(session.route, session.dialect, Disconnect(reason=why))
    return Send(session.route, session.dialect, ForceNegotiate(reason=why)) if session.turn is not None else None


def cancel_task(state: State, arguments: Arguments) -> Any:
    """Its client hears 499 at once, whether it waits or runs; a worker that has it is told, and keeps its slot busy.

    A client's own CANCEL waits for the first final answer (rule 12); an operator cancels what gives none.
    """
    _must_serve(state)
    entry = _find_task(state, text_of(arguments, "task", "the id of a task that waits or runs"))
    author = str(arguments.get("author") or "an operator")
    told = {
        "task": show_id(entry.id),
        "service": entry.service.name,
        "client": entry.client.identity,
        "state": "queued" if entry.is_queued else "in_flight",
        "worker": entry.worker.session.identity if entry.worker is not None else None,
    }
    has_run = "" if entry.is_queued and not entry.attempt else "; it may have run"
    routing.abandon(state, entry, f"cancelled by {author}{has_run}")
    return told


def retry_dead_letter(state: State, arguments: Arguments) -> Any:
    """Its task once more, as a task of the broker itself; the letter goes if it succeeds. The answer comes later."""
    asked = text_of(arguments, "task", "the id of a dead letter")
    fitting = [letter for letter in state.dead_letters.letters if show_id(letter.task.id).startswith(asked)]
    exact = [letter for letter in fitting if show_id(letter.task.id) == asked]
    return broker_tasks.retry(state, _only(exact[-1:] or fitting, asked, "dead letter", _name_of_letter))


def test_task(state: State, arguments: Arguments) -> Any:
    """A task of the broker itself for a service, to see who answers and how soon. The answer comes later."""
    service = text_of(arguments, "service", "the name of a service")
    if len(service.encode()) > limits.SERVICE_BYTES_MAX:
        raise ProtocolError(Code.MALFORMED, f"service: a name has at most {limits.SERVICE_BYTES_MAX} bytes")
    body = text_of(arguments, "body", "JSON text", default="null")
    timeout_s = arguments.get("timeout_s", 5.0)
    longest_s = broker_tasks.TIMEOUT_S_MAX
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0.001 <= timeout_s <= longest_s:
        raise ProtocolError(Code.MALFORMED, f"timeout_s: from 0.001 to {longest_s:g} seconds, not {timeout_s!r}")
    return broker_tasks.test(state, service, body, float(timeout_s))


def _must_serve(state: State) -> None:
    """A standby's workers and tasks are a copy: what becomes of them is for the other one of the pair to say."""
    if state.mode == "passive":
        other = state.pair.partner if state.pair is not None else "the other one of its pair"
        raise ProtocolError(Code.NOT_ACCEPTING, f"this broker is passive, and what it knows is {other}'s: ask that one")


# --- arguments ----------------------------------------------------------------------------------------------------


def text_of(arguments: Arguments, name: str, what: str, *, default: str | None = None) -> str:
    """The argument of this name, if it is text; without a default it is needed."""
    value = arguments.get(name, default)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (not value and default is None) or not is_text(value):
        raise ProtocolError(Code.MALFORMED, f"{name}: {what} is needed, as text")
    return value


def is_text(value: str) -> bool:
    """Whether it can be written down: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_task(state: State, asked: str) -> Entry:
    entries = state.ledger.entries
    identity, _, rest = asked.rpartition(".")[0].rpartition(".")
    sequence = asked.rpartition(".")[2]
    if len(rest) == 2 * limits.NONCE_BYTES and sequence.isdecimal() and len(sequence) <= 20:
        try:
            found = entries.get(make_id(id_prefix(identity, bytes.fromhex(rest)), int(sequence)))
        except (ValueError, OverflowError):
            found = None
        if found is not None:
            return found
    if len(entries) > BEGUN_AMONG:
        text = f"no task {asked[:REASON_MAX]!r} is open, and with {len(entries):,} open ones the whole id is needed"
        raise ProtocolError(Code.MALFORMED, f"task: {text}; list tasks shows them")
    fitting = [entry for entry in entries.values() if show_id(entry.id).startswith(asked)]
    return _only(fitting, asked, "task that waits or runs", _name_of_entry)


def _only(fitting: list[T], asked: str, what: str, name: Callable[[T], str]) -> T:
    """The one that was meant."""
    if not fitting:
        raise ProtocolError(Code.MALFORMED, f"task: no {what} is {asked[:REASON_MAX]!r}; it may be settled by now")
    if len(fitting) > 1:
        some = ", ".join(map(name, fitting[:3]))
        text = f"task: {asked[:REASON_MAX]!r} fits {len(fitting)}, {some} among them; give more of the id"
        raise ProtocolError(Code.MALFORMED, text)
    return fitting[0]


def _name_of_entry(entry: Entry) -> str:
    return show_id(entry.id)


def _name_of_letter(letter: DeadLetter) -> str:
    return show_id(letter.task.id)
