"""Why a task ended as it did: one task's life, from all that brokers recorded of it.

`explain` finds its rows (`find`) and tells its life from them (`life`); `render` shows it on a terminal, `to_dict`
gives it to machines. Nothing here needs Spark, nor tables: what was recorded seconds ago is read from its segments.
"""

from __future__ import annotations

from scale0_pipeline.gold import Gold
from scale0_pipeline.units import HOUR_US
from scale0_pipeline.why.cause import Share
from scale0_pipeline.why.find import AmbiguousTask, Found, find
from scale0_pipeline.why.life import Life, Step, tell
from scale0_pipeline.why.render import render, to_dict


def explain(place_url: str, task_id: str) -> Life:
    """The life of a task, by its id or the beginning of it. Raises UnknownTask, AmbiguousTask or NothingRecorded."""
    gold = Gold(place_url)
    found = find(gold, task_id)
    return tell(found, _completeness(gold, found))


def _completeness(gold: Gold, found: Found) -> float | None:
    """Of the brokers that took part, in the hours in which they did; the worst of them, null if none is known."""
    begun = [row["received_us"] if row["received_us"] is not None else row["ts_us"] for row in found.rows]
    since, until = min(begun) // HOUR_US * HOUR_US, max(row["ts_us"] for row in found.rows) + 1
    brokers = {row["broker"] for row in found.rows}
    hours = gold.rows("gold/completeness_1h", since, until, ["hour_us", "broker", "completeness"]).to_pylist()
    known = [row["completeness"] for row in hours if row["broker"] in brokers and row["completeness"] is not None]
    return min(known, default=None)


__all__ = ["AmbiguousTask", "Life", "Share", "Step", "explain", "render", "to_dict"]
