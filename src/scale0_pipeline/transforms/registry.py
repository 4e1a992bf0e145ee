"""Every table and the function that makes it, in an order in which each stands after what it is made of.

Appended tables grow by what each batch brings: partial sums that add up, or, copied, the events themselves. Derived
tables are made from others, and whole days of them are replaced; a snapshot is replaced as a whole. `refresh_s` is how
old a derived table may grow in a stream: what somebody watches is made in every batch, what is asked now and then is
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from scale0_pipeline import capacity
from scale0_pipeline.hints import tables as hints
from scale0_pipeline.transforms import facts, fail_overs, sessions, silver
from scale0_pipeline.transforms.gold import completeness, drifts, participants, services, slo
from scale0_pipeline.transforms.window import Window

__all__ = ["APPENDED", "DERIVED", "Appended", "Copied", "Derived", "Growing", "Window", "derived"]

Inputs = Mapping[str, DataFrame]


class Appended(msgspec.Struct, frozen=True):
    """A table that grows by `make` of a batch's new events.

    `merge`, if there is one, adds up rows with equal keys: then the table may be made smaller and says the same.
    """

    name: str
    make: Callable[[DataFrame], DataFrame]
    merge: Callable[[DataFrame], DataFrame] | None = None


class Copied(msgspec.Struct, frozen=True):
    """A table that grows by `make` of the rows of each new segment: nothing in it needs more than its own row."""

    name: str
    make: Callable[[pa.Table], pa.Table]
    merge: None = None


class Derived(msgspec.Struct, frozen=True):
    """A table of which `make` gives all rows of a window's days; its inputs reach `lookback_days` further back."""

    name: str
    inputs: tuple[str, ...]
    make: Callable[[Inputs, Window], DataFrame]
    lookback_days: int = 0
    is_snapshot: bool = False
    refresh_s: int = 0


Growing = Appended | Copied

APPENDED: Final[tuple[Growing, ...]] = (
    Copied("silver/tasks", silver.tasks),
    Appended("silver/notes", silver.notes),
    Appended("facts/minute", facts.minute, facts.merge_minute),
    Appended("facts/hour", facts.hour, facts.merge_hour),
    Appended("facts/split", facts.split, facts.merge_split),
    Appended("facts/recorded", facts.recorded, facts.merge_recorded),
)
SELDOM_S: Final = 60
"""How often in a stream what nobody watches is made anew."""


def derived(objectives: Mapping[str, float] | None = None) -> tuple[Derived, ...]:
    """All derived tables; `objectives` are services' shares of good tasks, where they differ from `slo.OBJECTIVE`."""
    notes = ("silver/notes",)
    return (
        Derived("silver/doubled", ("silver/tasks", *notes), fail_overs.doubled, fail_overs.LOOKBACK_DAYS),
        Derived("silver/worker_sessions", notes, sessions.worker_sessions, sessions.LOOKBACK_DAYS, refresh_s=SELDOM_S),
        Derived("silver/config_applied", notes, sessions.config_applied, refresh_s=SELDOM_S),
        Derived(
            "silver/gaps", ("facts/recorded", *notes), completeness.gaps, completeness.LOOKBACK_DAYS, refresh_s=SELDOM_S
        ),
        Derived("gold/completeness_1h", ("facts/recorded",), completeness.completeness_1h, completeness.LOOKBACK_DAYS),
        Derived("gold/service_1m", services.INPUTS, services.service_1m),
        Derived("gold/service_1h", services.ROLLED_UP_INPUTS, services.service_1h),
        Derived("gold/service_1d", services.ROLLED_UP_INPUTS, services.service_1d, refresh_s=SELDOM_S),
        Derived("gold/slo_burn", slo.INPUTS, slo.with_objectives(objectives or {}), slo.LOOKBACK_DAYS),
        Derived("gold/worker_1h", participants.WORKER_INPUTS, participants.worker_1h, refresh_s=SELDOM_S),
        Derived("gold/edges_1h", participants.INPUTS, participants.edges_1h, refresh_s=SELDOM_S),
        Derived("gold/cost_1d", participants.INPUTS, participants.cost_1d, refresh_s=SELDOM_S),
        Derived("gold/flaps", drifts.FLAP_INPUTS, drifts.flaps, drifts.FLAP_LOOKBACK_DAYS, refresh_s=SELDOM_S),
        Derived("gold/clock_drift", drifts.CLOCK_INPUTS, drifts.clock_drift, refresh_s=SELDOM_S),
        Derived("gold/config_drift", drifts.CONFIG_INPUTS, drifts.config_drift, refresh_s=SELDOM_S),
        Derived(
            "gold/failovers",
            ("silver/tasks", "silver/doubled", *notes),
            fail_overs.failovers,
            fail_overs.LOOKBACK_DAYS,
            refresh_s=SELDOM_S,
        ),
        Derived(
            "gold/capacity",
            capacity.INPUTS,
            capacity.capacity,
            capacity.LOOKBACK_DAYS,
            is_snapshot=True,
            refresh_s=10 * SELDOM_S,
        ),
        Derived("gold/hints", hints.HINT_INPUTS, hints.hints, hints.HINT_LOOKBACK_DAYS, refresh_s=SELDOM_S),
        Derived(
            "gold/hint_scores",
            hints.SCORE_INPUTS,
            hints.hint_scores,
            hints.SCORE_LOOKBACK_DAYS,
            refresh_s=10 * SELDOM_S,
        ),
    )


DERIVED: Final[tuple[Derived, ...]] = derived()
