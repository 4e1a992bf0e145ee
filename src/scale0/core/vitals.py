"""How a broker does: its history of the last quarter of an hour, errors by family, who comes often, who presses.

A point of the history is made every 5 s, on a tick, of what the ledger and the services' meters count anyway: a task
costs nothing here. Only errors are counted one by one, and sessions as they begin; both are rare. All of it is of this
process, bounded, and forgotten with it; what is to be kept is recorded (`recording`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scale0.core.meters import FAILED, FAMILIES, family_of, merged, percentiles

if TYPE_CHECKING:
    from scale0.core.services import Service
    from scale0.core.sessions import Session
    from scale0.core.state import State

POINT_S: Final = 5.0
POINTS: Final = 180  # 15 minutes
RATE_POINTS: Final = 6  # rates are of the last 30 s
MINUTE_POINTS: Final = 12
SAMPLES: Final = 2_048  # latencies that are looked at for one point, over all services
PACED: Final = 2_000  # clients whose pace is noted at one point; the others have their turn at the next
HOUR_S: Final = 3600.0
COMINGS: Final = 60  # that are remembered of one worker
COMERS: Final = 20_000  # workers whose comings are remembered; the longest away is forgotten
TROUBLE_S: Final = 30.0
TROUBLE_SLOTS: Final = 10
UNCOUNTED: Final = 2**63  # a sequence that no client reaches by counting


class Totals(msgspec.Struct):
    """Cumulative counts, at one moment."""

    at_s: float
    accepted: int = 0
    replied: int = 0
    errors: dict[str, int] = {}


class Point(msgspec.Struct):
    """What happened in 5 s."""

    at_us: int  # UTC, of its end
    accepted: int
    replied: int
    errors: dict[str, int]
    p50_us: int | None = None
    p90_us: int | None = None
    p99_us: int | None = None


class Vitals:
    """What is kept of the last minutes."""

    def __init__(self, now: float) -> None:
        self.ends_s = now + POINT_S  # of the present point
        self.errors = dict.fromkeys((*FAMILIES, FAILED), 0)  # cumulative
        self.points: deque[Point] = deque(maxlen=POINTS)
        self.marks: deque[Totals] = deque([Totals(now)], maxlen=RATE_POINTS + 1)  # where the last points ended
        self.latencies: deque[dict[int, int]] = deque(maxlen=MINUTE_POINTS)
        self.comings: OrderedDict[str, tuple[float, ...]] = OrderedDict()  # workers, and when their sessions began
        self.to_pace: Iterator[Session] = iter(())


# --- what is noted as it happens ----------------------------------------------------------------------------------


def note_error(state: State, service: Service | None, client: Session, code: int) -> None:
    """A task ended in this error, or was refused with it."""
    _note(state, service, client, family_of(code))


def note_failure(state: State, service: Service, client: Session) -> None:
    """A handler's reply says that it failed."""
    _note(state, service, client, FAILED)


def _note(state: State, service: Service | None, client: Session, family: str) -> None:
    state.vitals.errors[family] += 1
    if service is not None:
        service.meter.note_error(state.now, family)
    slot = int(state.now // TROUBLE_S)
    if client.troubles and client.troubles[-1][0] == slot:
        client.troubles[-1] = (slot, client.troubles[-1][1] + 1)
    else:
        client.troubles.append((slot, 1))
        del client.troubles[: -TROUBLE_SLOTS - 1]


def note_coming(state: State, identity: str) -> None:
    """A worker's session began, or came back on another connection."""
    comings = state.vitals.comings
    comings[identity] = (*comings.get(identity, ())[1 - COMINGS :], state.now)
    comings.move_to_end(identity)
    if len(comings) > COMERS:
        comings.popitem(last=False)


# --- what is made of it on a tick ---------------------------------------------------------------------------------


def tick(state: State) -> None:
    """When 5 s are over: a point. Those that were missed, since nothing happened, are empty."""
    vitals = state.vitals
    if state.now < vitals.ends_s:
        return
    missed = int((state.now - vitals.ends_s) // POINT_S)
    latencies = _take_latencies(state)
    totals, before = totals_now(state), vitals.marks[-1]
    wall_us = state.wall_us() - round((state.now - vitals.ends_s) * 1e6)
    for number in range(max(0, missed - POINTS), missed):
        vitals.points.append(Point(wall_us + round(number * POINT_S * 1e6), 0, 0, {}))
        vitals.latencies.append({})
        vitals.marks.append(msgspec.structs.replace(before, at_s=vitals.ends_s + number * POINT_S))
    p50_us, p90_us, p99_us = percentiles(latencies, 0.5, 0.9, 0.99)
    errors = {family: count - before.errors.get(family, 0) for family, count in totals.errors.items()}
    # The ledger forgets what another broker of the pair goes on with, so a count may fall.
    accepted, replied = max(0, totals.accepted - before.accepted), max(0, totals.replied - before.replied)
    at_us = wall_us + round(missed * POINT_S * 1e6)
    vitals.points.append(Point(at_us, accepted, replied, errors, p50_us, p90_us, p99_us))
    vitals.latencies.append(latencies)
    vitals.marks.append(totals)
    vitals.ends_s += (missed + 1) * POINT_S
    _note_paces(state)


def totals_now(state: State) -> Totals:
    return Totals(state.now, state.ledger.accepted, state.ledger.replied, dict(state.vitals.errors))


def _take_latencies(state: State) -> dict[int, int]:
    """Of all services since the last point. The busy ones are sampled, so that all together cost little."""
    noted = [service.meter for service in state.services.by_name.values() if service.meter.noted]
    samples = max(1, SAMPLES // len(noted)) if noted else 1
    for meter in noted:
        meter.sum_up(state.now, samples)
    tally = state.services.tally
    taken, tally.latencies = tally.latencies, {}
    return taken


def _note_paces(state: State) -> None:
    """How far each client has counted; many clients have their turns one after another."""
    vitals = state.vitals
    due = list(islice(vitals.to_pace, PACED))
    if len(due) < PACED:
        vitals.to_pace = iter([one for one in state.sessions.by_identity.values() if one.worker is None])
        due += islice(vitals.to_pace, PACED - len(due))
    for session in due:
        session.paces = (*session.paces[-1:], (state.now, max(session.highest, session.made)))


# --- what is read -------------------------------------------------------------------------------------------------


def comings_per_h(state: State, identity: str) -> int:
    times = state.vitals.comings.get(identity, ())
    since_s = state.now - HOUR_S
    return len(times) if times and times[0] > since_s else sum(1 for time_s in times if time_s > since_s)


def errors_5m(state: State, client: Session) -> int:
    since = int(state.now // TROUBLE_S) - TROUBLE_SLOTS
    return sum(count for slot, count in client.troubles if slot > since)


def pace(state: State, client: Session) -> float | None:
    """Tasks a second that it submits, over the last 5 to 10 s; longer ago where there are thousands of clients."""
    counted = max(client.highest, client.made)
    is_paced = client.paces and client.paces[0][0] < state.now
    since_s, then = client.paces[0] if is_paced else (client.connected_s, 0)
    if counted >= UNCOUNTED or then >= UNCOUNTED or state.now <= since_s:
        return None
    return round((counted - then) / (state.now - since_s), 3)


def figures(state: State) -> dict[str, Any]:
    """Rates of the last 30 s, latencies and errors of the last minute."""
    vitals, totals, since = state.vitals, totals_now(state), state.vitals.marks[0]
    passed_s = max(totals.at_s - since.at_s, 1e-3)
    p50_us, p99_us = percentiles(merged((*vitals.latencies, state.services.tally.latencies)), 0.5, 0.99)
    last = islice(vitals.points, max(0, len(vitals.points) - MINUTE_POINTS), None)
    # What has happened since the last point has no point yet.
    errors = sum(sum(point.errors.values()) for point in last)
    errors += sum(totals.errors.values()) - sum(vitals.marks[-1].errors.values())
    return {
        "tasks_per_s": round(max(0, totals.accepted - since.accepted) / passed_s, 3),
        "replies_per_s": round(max(0, totals.replied - since.replied) / passed_s, 3),
        "p50_us": p50_us,
        "p99_us": p99_us,
        "errors_per_min": errors,
    }


def history(state: State) -> dict[str, Any]:
    """The points as columns, the oldest first."""
    points = state.vitals.points
    return {
        "point_us": round(POINT_S * 1e6),
        "at_us": [point.at_us for point in points],
        "accepted": [point.accepted for point in points],
        "replied": [point.replied for point in points],
        "p50_us": [point.p50_us for point in points],
        "p90_us": [point.p90_us for point in points],
        "p99_us": [point.p99_us for point in points],
        "errors": {family: [point.errors.get(family, 0) for point in points] for family in FAMILIES},
        FAILED: [point.errors.get(FAILED, 0) for point in points],
    }
