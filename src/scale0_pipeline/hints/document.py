"""The hints that hold now, as the document that a broker hears (`scale0.core.hints`), and as text.

A document is whole: it replaces the one before, and a worker that is not in it is not damped any more. So it is made
from the newest hour that the tables know, and from that alone; hints that are held out are not in it. Its version is
the time at which it was made, so that a later one is always higher.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow.compute as pc

from scale0_pipeline import words
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.gold import Gold
from scale0_pipeline.units import HOUR_US, WEEK_US

HINTS_MAX: Final = 64  # as many as a broker hears
MODES: Final = ("off", "shadow", "advise", "enforce")
CARRIED: Final = (
    "hint_id",
    "kind",
    "subject",
    "service",
    "bound",
    "reason",
    "evidence_from_us",
    "evidence_to_us",
    "completeness",
    "expires_us",
)


def current(place_url: str, *, now_us: int, mode: str = "shadow") -> dict[str, Any]:
    """The arguments of the command `hints`: what the tables advise at this time."""
    if mode not in MODES:
        raise PipelineError(f"no mode {mode!r}", f"choose one of {', '.join(MODES)}")
    gold = Gold(place_url)
    gold.check()
    made_us = _newest(gold, now_us)
    rows = gold.rows("gold/hints", now_us, now_us + 1).to_pylist() if made_us is not None and mode != "off" else []
    held = [row for row in rows if row["made_us"] == made_us and row["expires_us"] > now_us and not row["is_held_out"]]
    hints = [{name: row[name] for name in CARRIED} for row in sorted(held, key=lambda row: str(row["subject"]))]
    return {"version": now_us, "mode": mode, "hints": hints[:HINTS_MAX]}


def verdicts(place_url: str, *, now_us: int) -> dict[str, int]:
    """How the hints of the last week were judged, by verdict."""
    rows = Gold(place_url).rows("gold/hint_scores", now_us - WEEK_US, now_us, ["verdict"])
    return dict(Counter(str(verdict) for verdict in rows["verdict"].to_pylist()))


def render(document: dict[str, Any], judged: dict[str, int]) -> str:
    """For a terminal."""
    hints = document["hints"]
    told = ", ".join(f"{verdict} {number}" for verdict, number in sorted(judged.items()))
    lines = [
        f"{words.plural(len(hints), 'worker')} to be asked last, mode {document['mode']}",
        *(_line(hint) for hint in hints),
        f"last week's hints: {told or 'none was judged'}",
    ]
    return "\n".join(lines) + "\n"


def _line(hint: dict[str, Any]) -> str:
    who = f"{words.name(hint['subject'])} ({words.name(hint['service'])})"
    until = words.date_and_time(hint["expires_us"])
    whole = words.percent(hint["completeness"])
    return f"  {who}: {words.visible(hint['reason'])}; until {until} UTC, evidence {whole} complete"


def _newest(gold: Gold, now_us: int) -> int | None:
    """The end of the newest whole hour that the tables know; None if they know none of the last hours."""
    hours = gold.rows("gold/worker_1h", now_us - 3 * HOUR_US, now_us, ["hour_us"])["hour_us"]
    newest = pc.max(hours).as_py()
    return None if newest is None else min(newest + HOUR_US, now_us - now_us % HOUR_US)
