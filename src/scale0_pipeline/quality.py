"""Rules that each table keeps, looked at in the job.

A rule is a condition on one row, or that keys are unique. The rules of a table are looked at in one pass, over the rows
that a batch has written, and say how many rows break them and which, for example. A broken rule never stops the run:
the tables stay what the record makes them, and `quality/results` says what to doubt. Rules look at few columns; that
keys of single events are unique follows from the way they are read, and is not looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import Row

from scale0_pipeline.schema import TABLES

SAMPLE_CHARACTERS_MAX: Final = 200
UNIQUE: Final = "keys are unique"


class Rule(NamedTuple):
    """A rule: its name, and the condition in SQL of a row that breaks it; null breaks nothing."""

    name: str
    broken: str


DAY_OF: Final = "day <> date_from_unix_date(cast(floor({0} / 86400000000) as int))"
SERVICE_RULES: Final = (
    Rule("counts are not negative", "count < 0 or replied < 0 or failed < 0 or errors < 0 or refused < 0"),
    Rule("every task has one outcome", "replied + failed + errors + refused <> count"),
    Rule("percentiles rise", "p50_us > p90_us or p90_us > p99_us or p99_us > p999_us"),
    Rule("completeness is a share", "completeness < 0 or completeness > 1"),
)

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "silver/tasks": (
        Rule("it has a key", "broker is null or boot is null or seq is null"),
        Rule("the day is that of its time", f"not is_future and {DAY_OF.format('ts_us')}"),
        Rule("no time is ahead of the landing", "is_future"),
        Rule("latency is not negative", "latency_us < 0"),
        Rule("time in the queue is not negative", "queue_us < 0"),
        Rule(
            "time on the way is known where the worker told its own",
            "worker_us_total is not null and dispatched_us is not null and network_us is null",
        ),
        Rule("outcome and code agree", "(outcome = 'replied') <> (code = 200) or (outcome = 'failed') <> (code = 500)"),
        Rule("a task that was answered was dispatched", "outcome in ('replied', 'failed') and dispatched_us is null"),
    ),
    "silver/notes": (
        Rule("it has a key", "broker is null or boot is null or seq is null"),
        Rule("it has a kind", "kind is null"),
    ),
    "facts/minute": (
        Rule("counts are positive", "count <= 0"),
        Rule("the bucket fits the outcome", "(bucket = -3) <> (outcome = 'refused')"),
        Rule("no latency is negative", "bucket = -2"),
        Rule("network is known of no more tasks than there are", "network_count > count"),
    ),
    "facts/hour": (
        Rule("counts are positive", "count <= 0"),
        Rule("errors are among the tasks", "errors > count"),
        Rule("the first is not after the last", "first_us > last_us"),
    ),
    "facts/split": (Rule("counts are positive", "count <= 0"), Rule("no part is negative", "bucket = -2")),
    "facts/recorded": (Rule("tasks are among the rows", "tasks > rows"),),
    "gold/service_1m": SERVICE_RULES,
    "gold/service_1h": SERVICE_RULES,
    "gold/service_1d": SERVICE_RULES,
    "gold/completeness_1h": (
        Rule("completeness is a share", "completeness < 0 or completeness > 1"),
        Rule("nothing was recorded that was not counted", "recorded > counted"),
    ),
    "gold/worker_1h": (
        Rule("it is there for at most the whole hour", "available_share < 0 or available_share > 1"),
        Rule("it is not busier than its slots allow", "busy_share > 1.05"),
    ),
    "gold/failovers": (
        Rule("every task in flight has one fate", "replied + rerouted + retried + errored + lost <> in_flight"),
    ),
    "gold/cost_1d": (Rule("shares are shares", "share < 0 or share > 1"),),
    "gold/slo_burn": (Rule("rates are not negative", "burn_short < 0 or burn_long < 0"),),
}

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "silver/worker_sessions": ("day", "worker", "broker", "boot", "opened_us"),
    "gold/service_1m": ("minute_us", "service"),
    "gold/service_1h": ("hour_us", "service"),
    "gold/service_1d": ("day", "service"),
    "gold/worker_1h": ("hour_us", "worker", "service", "broker"),
    "gold/edges_1h": ("hour_us", "client", "service", "worker"),
    "gold/cost_1d": ("day", "service", "client"),
    "gold/flaps": ("hour_us", "worker"),
    "gold/clock_drift": ("hour_us", "participant"),
    "gold/config_drift": ("hour_us", "version"),
    "gold/completeness_1h": ("hour_us", "broker"),
    "gold/slo_burn": ("minute_us", "service", "window"),
}
"""What no two rows of a derived table share."""

SAMPLED: Final = ("broker", "boot", "seq", "minute_us", "hour_us", "ts_us", "service", "worker", "client", "bucket")
"""Columns that name a row to somebody who looks for it."""


def check(name: str, rows: DataFrame, batch: int, day: date) -> DataFrame | None:
    """quality/results of rows that a batch wrote to a table, filed under `day`; None if the table has no rules.

    `sample` is null. Rules hold nearly always, and naming a row costs more than looking at it: `sampled` does that.
    """
    rules, keys = RULES.get(name, ()), KEYS.get(name)
    if not rules and keys is None:
        return None
    names = [rule.name for rule in rules] + ([UNIQUE] if keys is not None else [])
    return _results(name, names, _seen(rows, rules, keys), batch, day)


def sampled(result: Row, rows: DataFrame) -> dict[str, Any]:
    """A row of quality/results; if its rule is broken, with one of the rows that break it."""
    found: dict[str, Any] = result.asDict()
    if not found["is_broken"]:
        return found
    if found["rule"] == UNIQUE:
        broken = _sizes(rows, KEYS[found["table"]]).where(F.col("size") > 1).drop("size")
    else:
        (rule,) = [rule for rule in RULES[found["table"]] if rule.name == found["rule"]]
        broken = rows.where(rule.broken).select(*[column for column in SAMPLED if column in rows.columns])
    (least,) = broken.agg(F.min(F.to_json(F.struct("*")))).collect()[0]
    return {**found, "sample": least[:SAMPLE_CHARACTERS_MAX] if least is not None else None}


def _seen(rows: DataFrame, rules: tuple[Rule, ...], keys: tuple[str, ...] | None) -> DataFrame:
    """How many rows there are, and how many break each rule and then the keys' own: all in one pass."""
    failed = {f"failed_{place}": F.count(F.when(F.expr(rule.broken), 1)) for place, rule in enumerate(rules)}
    counts = {"rows": F.count("*"), **failed}
    columns = [count.alias(column) for column, count in counts.items()]
    if keys is None:
        return rows.agg(*columns)
    totals = {column: F.sum(column) for column in counts}
    totals[f"failed_{len(rules)}"] = F.sum(F.when(F.col("rows") > 1, F.col("rows")))
    sums = [F.coalesce(total, F.lit(0).cast("long")).alias(column) for column, total in totals.items()]
    return rows.groupBy(*keys).agg(*columns).agg(*sums)


def _sizes(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    return rows.groupBy(*keys).agg(F.count("*").alias("size"))


def _results(name: str, rules: list[str], seen: DataFrame, batch: int, day: date) -> DataFrame:
    """A row for each rule."""
    each = F.array(
        *[
            F.struct(F.lit(rule).alias("rule"), F.col(f"failed_{place}").alias("failed"))
            for place, rule in enumerate(rules)
        ]
    )
    return (
        seen.select("rows", F.inline(each))
        .select(
            F.lit(day).alias("day"),
            F.lit(batch).cast("long").alias("batch"),
            F.lit(name).alias("table"),
            "rule",
            "rows",
            "failed",
            (F.col("failed") > 0).alias("is_broken"),
            F.lit(None).cast("string").alias("sample"),
        )
        .select(*TABLES["quality/results"].names)
    )
