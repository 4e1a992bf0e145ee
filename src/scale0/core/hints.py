"""Hints: advice from outside that a broker may follow, for a while and within bounds.

A document of hints names workers that flap and should be damped. It has its own version, apart from the config's, and a
mode: `off` forgets all hints; `shadow` counts what would have been done; `advise` tells people too; `enforce` does it.
A damped worker is asked last: a task goes to the least recently used worker that is not damped, and to a damped one if
no other is free. So a hint never takes capacity away, no task waits longer because of one, and a worker with a free
slot still never stands beside a waiting task. Without hints, and when they have expired, this is plain LRU.

Bounds hold whatever the document says: at most `HINTS_MAX` hints that live for at most a day; at most a fifth of the
slots of a service is damped, and at least two of its workers never are. Hints are of this process: they are not kept,
and a fallback broker that takes over has none until it is told.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scale0.core import recording
from scale0.errors import ProtocolError
from scale0.protocol.codes import Code

if TYPE_CHECKING:
    from scale0.core.services import Service
    from scale0.core.state import State
    from scale0.core.workers import Worker

HINTS_MAX: Final = 64
LIFE_S_MAX: Final = 24 * 3600.0
SHARE_MAX: Final = 0.2
SPARED: Final = 2
LOOK_S: Final = 1.0
TOLD_S: Final = 60.0
TEXT_MAX: Final = 200
MODES: Final = ("off", "shadow", "advise", "enforce")
KEY: Final = "hints"  # a manager of this name may bring hints, read lists, and do nothing else
KEY_MAY: Final = ("hints", "list")


class Hint(msgspec.Struct, frozen=True):
    """One piece of advice: `subject` is a worker. Keys that a newer pipeline adds are passed over."""

    hint_id: str
    subject: str
    expires_us: int
    kind: str = "damp"
    bound: float = SHARE_MAX
    service: str = ""
    reason: str = ""
    evidence_from_us: int = 0
    evidence_to_us: int = 0
    completeness: float | None = None


class HintDocument(msgspec.Struct, frozen=True):
    """All hints that hold from now on; those of an older version are forgotten."""

    version: int
    mode: str = "shadow"
    hints: list[Hint] = []


class Held(msgspec.Struct):
    """A hint in force, and how often its worker was passed over, or would have been."""

    hint: Hint
    expires_s: float
    passed: int = 0
    told: int = 0  # of them


class Hints:
    """What a broker holds of hints."""

    def __init__(self) -> None:
        self.version = 0
        self.mode = "off"
        self.by_worker: dict[str, Held] = {}  # the most pressing first
        self.look_at_s = 0.0
        self.tell_at_s = 0.0


def hear(state: State, arguments: dict[str, Any]) -> dict[str, Any]:
    """The command `hints`: a new document; a bad or old one is refused as a whole."""
    hints = state.hints
    try:
        document = _read(state, arguments)
    except ProtocolError as error:
        recording.note(state, "hint", "", "refused", None, why=error.text, author=str(arguments.get("author", "")))
        raise
    if document.version == hints.version:  # heard before
        return _describe(state, changed=False)
    _tell_all(state)
    hints.version, hints.mode = document.version, document.mode
    kept = document.hints if document.mode != "off" else []
    hints.by_worker = {hint.subject: Held(hint, _expires_s(state, hint)) for hint in kept}
    for hint in kept:
        detail = {"hint_id": hint.hint_id, "mode": hints.mode, "version": hints.version, "reason": hint.reason}
        recording.note(state, "hint", hint.subject, "heard", None, expires_us=hint.expires_us, **detail)
    if hints.mode == "advise" and kept:
        text = "; ".join(f"{hint.subject}: {hint.reason or 'it flaps'}" for hint in kept[:5])
        state.alarm("hint", f"{len(kept)} workers flap and should be looked at: {text}")
    hints.tell_at_s = state.now + TOLD_S
    _look(state)
    return _describe(state, changed=True)


def pick(state: State, lru: OrderedDict[Worker, None]) -> Worker:
    """The least recently used worker that is not damped; if all that are free are, the least recently used one.

    It looks at no more workers than there are hints, and one.
    """
    damped = state.damped
    first = next(iter(lru))
    held = damped.get(first.session.identity)
    if held is None:
        return first
    for worker in lru:
        if worker.session.identity not in damped:
            held.passed += 1
            return worker if state.hints.mode == "enforce" else first
    return first


def tick(state: State) -> None:
    """Time has passed: hints expire, and who is damped is settled anew."""
    hints = state.hints
    if state.now >= hints.tell_at_s:
        hints.tell_at_s = state.now + TOLD_S
        _tell_all(state)
    if state.now >= hints.look_at_s:
        _look(state)


def listing(state: State) -> list[dict[str, Any]]:
    """The hints in force, for people."""
    return [
        {
            "worker": worker,
            "kind": held.hint.kind,
            "mode": state.hints.mode,
            "is_damped": worker in state.damped and state.hints.mode == "enforce",
            "passed": held.passed,
            "expires_us": held.hint.expires_us,
            "reason": held.hint.reason,
            "hint_id": held.hint.hint_id,
            "version": state.hints.version,
        }
        for worker, held in state.hints.by_worker.items()
    ]


def _read(state: State, arguments: dict[str, Any]) -> HintDocument:
    try:
        document = msgspec.convert({**arguments}, HintDocument)
    except msgspec.ValidationError as error:
        raise ProtocolError(Code.MALFORMED, f"hints: {error}") from None
    if document.mode not in MODES:
        raise ProtocolError(Code.MALFORMED, f"mode: hints are {', '.join(MODES)}, not {document.mode!r}")
    if len(document.hints) > HINTS_MAX:
        raise ProtocolError(Code.TOO_LARGE, f"hints: at most {HINTS_MAX} at once")
    for hint in document.hints:
        _check(state, hint)
    if len({hint.subject for hint in document.hints}) < len(document.hints):
        raise ProtocolError(Code.MALFORMED, "hints: one for each worker")
    # Only a higher version is heard: a document that was delayed on its way changes nothing.
    if document.version < state.hints.version or document.version < 1:
        text = f"version: hints are at {state.hints.version} by now, this is {document.version}"
        raise ProtocolError(Code.IDENTITY_IN_USE, f"{text}; make them again: scale0 pipeline hints")
    return document


def _check(state: State, hint: Hint) -> None:
    if hint.kind != "damp":
        raise ProtocolError(Code.MALFORMED, f"kind: this broker knows damp, not {hint.kind[:TEXT_MAX]!r}")
    if not 0.0 <= hint.bound <= 1.0:
        raise ProtocolError(Code.MALFORMED, f"bound: a share from 0 to 1, not {hint.bound}")
    if not hint.subject or max(map(len, (hint.subject, hint.hint_id, hint.service, hint.reason))) > TEXT_MAX:
        raise ProtocolError(Code.MALFORMED, f"hints: a subject is needed, and texts have at most {TEXT_MAX} characters")
    if hint.expires_us - state.wall_us() > LIFE_S_MAX * 1e6:
        raise ProtocolError(Code.MALFORMED, f"expires_us: a hint lives for at most {LIFE_S_MAX / 3600:g} hours")


def _expires_s(state: State, hint: Hint) -> float:
    """By this broker's own clock from now on, which nobody sets."""
    return state.now + (hint.expires_us - state.wall_us()) / 1e6


def _look(state: State) -> None:
    """Forget what has expired, and settle who is damped: the most pressing first, as far as services can spare them."""
    hints = state.hints
    hints.look_at_s = state.now + LOOK_S
    for worker, held in list(hints.by_worker.items()):
        if state.now >= held.expires_s:
            _tell(state, held)
            recording.note(state, "hint", worker, "expired", held.passed, hint_id=held.hint.hint_id, mode=hints.mode)
            del hints.by_worker[worker]
    damped: dict[str, Held] = {}
    spent: dict[str, tuple[int, int]] = {}
    for name, held in hints.by_worker.items():
        session = state.sessions.by_identity.get(name)
        if session is None or session.worker is None:
            continue
        found = session.worker
        if found.services and all(_can_spare(service, found, held.hint, spent) for service in found.services):
            damped[name] = held
            for service in found.services:
                slots, workers = spent.get(service.name, (0, 0))
                spent[service.name] = slots + found.capacity, workers + 1
    state.damped = damped


def _can_spare(service: Service, worker: Worker, hint: Hint, spent: dict[str, tuple[int, int]]) -> bool:
    """Never more than a fifth of a service's slots, and never the last two of its workers."""
    slots, workers = spent.get(service.name, (0, 0))
    capacity = sum(other.capacity for other in service.workers)
    share = min(hint.bound, SHARE_MAX)
    return slots + worker.capacity <= share * capacity + 1e-9 and len(service.workers) - workers - 1 >= SPARED


def _tell_all(state: State) -> None:
    for held in state.hints.by_worker.values():
        _tell(state, held)


def _tell(state: State, held: Held) -> None:
    """Record how often the worker was passed over since this was last told; in shadow, how often it would have been."""
    if held.passed > held.told:
        detail = {"hint_id": held.hint.hint_id, "mode": state.hints.mode}
        recording.note(state, "hint", held.hint.subject, "applied", held.passed - held.told, **detail)
        held.told = held.passed


def _describe(state: State, *, changed: bool) -> dict[str, Any]:
    hints = state.hints
    return {
        "version": hints.version,
        "mode": hints.mode,
        "hints": len(hints.by_worker),
        "damped": sorted(state.damped),
        "changed": changed,
    }
