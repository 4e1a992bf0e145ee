"""One task's life, told from its rows: when what happened, how well that is known, and why it ended as it did.

Times are seconds since the broker received the task, by that broker's clock, which needs no correction. Times of other
machines are moved by their measured offset, and carry its error. A broker that ran the task for another has a clock of
its own: what it recorded must lie between dispatch and outcome, so it is placed in the middle of that room, known to
within half of what is left of it. Where nothing bounds a time it is unknown, and stands as a dash.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from scale0_pipeline import task_times, words
from scale0_pipeline.units import MINUTE_US
from scale0_pipeline.why.cause import Share, cause, had_room, shares, whom
from scale0_pipeline.why.find import Found, Row

WHOLE: Final = 0.999


class Step(msgspec.Struct, frozen=True):
    """Something that happened. `at_us` counts from the receipt; null if nobody knows. `error_us`: known to within."""

    at_us: int | None
    error_us: int | None
    broker: str
    text: str


class Life(msgspec.Struct):
    """What is known of one task."""

    task_id: str
    service: str
    client: str
    broker: str
    outcome: str
    code: int
    latency_us: int
    received_us: int
    settled_us: int
    cause: str
    steps: list[Step]
    shares: list[Share]
    free: int | None  # workers with room for it when it was last dispatched
    queued: int | None
    workers: int | None
    settlements: int
    completeness: float | None  # of the record of its brokers in its hours
    missing: list[str]  # what should be there and is not
    rows: list[Row]

    @property
    def is_good(self) -> bool:
        return self.outcome == "replied"

    @property
    def record(self) -> str:
        """How far the record can be trusted, in words."""
        if self.missing:
            return f"record incomplete: {'; '.join(self.missing)}"
        if self.completeness is None:
            return "completeness not known"
        return (
            "record complete"
            if self.completeness >= WHOLE
            else f"{words.percent(self.completeness)} recorded around it"
        )


def tell(found: Found, completeness: float | None) -> Life:
    """The life of the task that these rows are of."""
    origins = [row for row in found.rows if row["role"] != "relay"]
    relays = [row for row in found.rows if row["role"] == "relay"]
    main = origins[0] if origins else relays[0]
    received = _received(main)
    steps = _steps(main, relays if origins else [], found.notes)
    for again in origins[1:]:
        text = f"settled again by {words.name(again['broker'])} as {_outcome(again)}; the client keeps the first"
        steps.append(Step(again["ts_us"] - received, None, again["broker"], text))
    steps.sort(key=lambda step: (step.at_us is None, step.at_us or 0))
    steps = [*_sending(main), *steps]
    return Life(
        task_id=found.task_id,
        service=main["service"] or "",
        client=main["client"] or "",
        broker=main["broker"],
        outcome=main["outcome"] or "",
        code=main["code"] or 0,
        latency_us=task_times.latency_us(main),
        received_us=received,
        settled_us=main["ts_us"],
        cause=cause(main, relays),
        steps=steps,
        shares=shares(main, relays),
        free=main["free"],
        queued=main["queued"],
        workers=main["workers"],
        settlements=max(1, len(origins)),
        completeness=completeness,
        missing=_missing(main, origins, relays, found.notes),
        rows=found.rows,
    )


def _received(row: Row) -> int:
    return int(row["received_us"] if row["received_us"] is not None else row["ts_us"])


def _outcome(row: Row) -> str:
    return f"{row['code']} {row['outcome']}"


def _sending(main: Row) -> list[Step]:
    """When its client sent it, which comes first, whatever clocks say."""
    if main["sent_us"] is None:
        return []
    client, sent = words.name(main["client"]), task_times.sent(main)
    if sent is None:
        return [Step(None, None, main["broker"], f"sent by {client}, whose clock was not measured")]
    return [Step(sent.at_us - _received(main), sent.error_us, main["broker"], f"sent by {client}")]


def _steps(main: Row, relays: list[Row], notes: list[Row]) -> list[Step]:
    """What happened to it at the broker that settled it, and what others told of that."""
    broker, received = main["broker"], _received(main)
    steps: list[Step] = []
    hops = f", after {words.plural(main['hops'], 'hop')}" if main["hops"] else ""
    is_refused = main["outcome"] == "refused"
    steps.append(Step(0, 0, broker, f"{'refused' if is_refused else 'received'} by {words.name(broker)}{hops}"))
    earlier = main["attempts"] or []
    for number, attempt in enumerate(earlier, 1):
        steps += _attempt_steps(main, attempt, number, notes)
    if main["dispatched_us"] is not None:
        text = f"attempt {len(earlier) + 1} → {whom(main)}{had_room(main)}"
        steps.append(Step(main["dispatched_us"] - received, 0, broker, text))
        steps += _work(main, received, 0)
    for relay in relays:
        steps += _relay_steps(main, relay, received)
    if not is_refused:
        steps.append(Step(main["ts_us"] - received, 0, broker, _ending(main)))
    return steps


def _attempt_steps(main: Row, attempt: Row, number: int, notes: list[Row]) -> list[Step]:
    received, broker = _received(main), main["broker"]
    steps = [Step(attempt["dispatched_us"] - received, 0, broker, f"attempt {number} → {whom(attempt)}")]
    if attempt["ended_us"] is not None:
        verb = {"lost": "lost", "returned": "gave it back", "unsent": "could not be reached"}
        text = f"{whom(attempt)} {verb.get(attempt['outcome'], attempt['outcome'])}{_why(attempt, broker, notes)}"
        steps.append(Step(attempt["ended_us"] - received, 0, broker, text))
    return steps


def _why(attempt: Row, broker: str, notes: list[Row]) -> str:
    """What the broker noted about the worker's session nearest to the attempt's end."""
    about = [
        note
        for note in notes
        if note["kind"] == "session"
        and note["broker"] == broker
        and note["subject"] == attempt["worker"]
        and note["what"] in ("lost", "closed", "moved")
    ]
    if not about:
        return ""
    nearest = min(about, key=lambda note: abs(note["ts_us"] - attempt["ended_us"]))
    try:
        why = json.loads(nearest["detail"] or "{}").get("why")
    except (ValueError, AttributeError):
        return ""
    return f": {words.visible(why)}" if why else ""


def _work(row: Row, received: int, shift_us: int, error_us: int | None = 0) -> list[Step]:
    """When the handler began and the worker replied, by the worker's clock, corrected."""
    replied = task_times.worker_replied(row)
    if replied is None or row["worker"] is None:
        return []
    within = replied.error_us + error_us if replied.error_us is not None and error_us is not None else None
    at_us = replied.at_us + shift_us - received
    steps = [Step(at_us, within, row["broker"], f"{words.name(row['worker'])} replied")]
    if row["work_us"] is not None:
        waited = f" after {words.duration(row['wait_us'])} in its own queue" if row["wait_us"] else ""
        steps.insert(
            0, Step(at_us - row["work_us"], within, row["broker"], f"{words.name(row['worker'])} began{waited}")
        )
    return steps


def _relay_steps(main: Row, relay: Row, received: int) -> list[Step]:
    """What another broker did for this one, placed in the room that dispatch and outcome leave for it."""
    window = _window(main, relay["broker"])
    name = words.name(relay["broker"])
    took = task_times.latency_us(relay)
    slack = window[1] - window[0] - took if window is not None else -1
    if window is None or slack < 0:
        return [Step(None, None, relay["broker"], f"{name} ran it as {_outcome(relay)} in {words.duration(took)}")]
    shift = window[0] + slack // 2 - _received(relay)
    error = -(-slack // 2)
    steps = [Step(_received(relay) + shift - received, error, relay["broker"], f"received by {name}")]
    if relay["dispatched_us"] is not None:
        text = f"{name} → {whom(relay)}{had_room(relay)}"
        steps.append(Step(relay["dispatched_us"] + shift - received, error, relay["broker"], text))
        steps += _work(relay, received, shift, error)
    steps.append(
        Step(relay["ts_us"] + shift - received, error, relay["broker"], f"{name} settled it: {_outcome(relay)}")
    )
    return steps


def _window(main: Row, broker: str) -> tuple[int, int] | None:
    """Between which times a broker had it, by the clock of the one that forwarded it."""
    if main["via"] == broker and main["dispatched_us"] is not None:
        return main["dispatched_us"], main["ts_us"]
    for attempt in main["attempts"] or ():
        if attempt["via"] == broker and attempt["ended_us"] is not None:
            return attempt["dispatched_us"], attempt["ended_us"]
    return None


def _ending(row: Row) -> str:
    endings = {
        200: "replied",
        500: "failed: the handler raised",
        408: "deadline, still waiting",
        504: "deadline, in flight",
        502: "given up: its worker is lost",
        499: "cancelled by its client",
    }
    return endings.get(row["code"], f"ended with {row['code']}")


def _missing(main: Row, origins: list[Row], relays: list[Row], notes: list[Row]) -> list[str]:
    """What should be in the record and is not."""
    found = []
    if not origins:
        found.append("the broker that settled it has not told yet, or its rows are lost")
    there = {relay["broker"] for relay in relays}
    asked = {main["via"], *(attempt["via"] for attempt in main["attempts"] or ())} - {None, ""}
    if main["role"] != "relay":
        found += [f"no row of {words.name(via)}, which ran it" for via in sorted(asked - there)]
    begun = _received(main)
    for note in notes:
        if note["kind"] == "dropped" and begun - MINUTE_US <= note["ts_us"] <= main["ts_us"] + MINUTE_US:
            found.append(
                f"the recorder of {words.name(note['broker'])} lost {words.plural(note['value'] or 0, 'row')} then"
            )
    return found
