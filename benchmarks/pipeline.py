"""The data pipeline: how many events a second become tables, beside DuckDB on the same files; and how exact they are.

Days are generated (`scale0 pipeline generate`), with incidents and fail-overs in them. Then, in one Spark session on
all cores: both base facts of all events, which is the least that is made of them; and the same two aggregates by DuckDB
from the same segments, with as many threads. On one machine Spark does not win this: what it brings is the way to a
cluster and exactly-once streams, and the ratio says what that costs.

Everything, every table and silver included, is made by the commands that users type, each in a fresh process, the start
of Spark included: `scale0 pipeline run --once`, then `report`. A batch on top of ten times the history must not cost
more than on top of little: both are timed by the same stream. Percentiles of the day's table stand beside the exact
ones of all its tasks.
"""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import duckdb
import msgspec

from measure import median
from report import Bars, Options, Result, Table, Verdict, at_least, at_most, figure, thousands
from scale0_pipeline import gold as reading
from scale0_pipeline.generate import generate
from scale0_pipeline.jobs import run as jobs
from scale0_pipeline.session import running_session
from scale0_pipeline.transforms import bronze, facts

_UNTIL = date(2026, 3, 4)
_SEED = 7
_BASE_MIN, _ALL_MIN = 1.0e6, 0.4e6  # events a second
_REPORT_S_MAX, _REPORT_EVENTS = 60.0, 10_000_000
_GROWTH_MAX = 1.20
_ERROR_MAX = 0.012
_SHARES = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}


def run(options: Options) -> Result:
    events = options.pipeline_events
    place = options.directory / "pipeline"
    options.say(f"generating {events:,} events")
    made = generate(str(place), events, 2, _SEED, until=_UNTIL)
    base = _base_facts(place, made.rows, options)
    whole = _whole(place, options)
    exact = _errors(place)
    growth = _growth(options)
    return _result(events, made.rows, base, whole, exact, growth)


class Base(msgspec.Struct):
    """Seconds for the two base facts of all rows."""

    spark_s: float
    duckdb_s: float


class Whole(msgspec.Struct):
    """Seconds of the two commands, from segments and empty tables."""

    tables_s: float
    report_s: float


def _segments(place: Path) -> list[str]:
    return sorted(str(path) for path in (place / "segments").rglob("*.parquet"))


def _base_facts(place: Path, rows: int, options: Options) -> Base:
    paths = _segments(place)
    ours, theirs = [], []
    with running_session("local[*]") as spark:
        for repetition in range(options.repetitions + 1):  # the first one warms both up
            began = time.monotonic()
            events = bronze.read(spark, paths).selectExpr("*", "1L AS batch", "0L AS landed_us")
            for fact in (facts.minute, facts.hour):
                fact(events).write.format("noop").mode("overwrite").save()
            spark_s = time.monotonic() - began
            began = time.monotonic()
            _by_duckdb(paths)
            duckdb_s = time.monotonic() - began
            if repetition:
                ours.append(spark_s)
                theirs.append(duckdb_s)
            options.say(f"base facts of {rows:,} rows: Spark {spark_s:.1f} s, DuckDB {duckdb_s:.1f} s")
    return Base(median(ours), median(theirs))


def _by_duckdb(paths: list[str]) -> None:
    """The same keys and sums, straight from the segments."""
    files = "[" + ", ".join(f"'{path}'" for path in paths) + "]"
    common = "sum(ts_us - received_us), sum(coalesce(wait_us, 0) + coalesce(work_us, 0)), sum(request_bytes)"
    with duckdb.connect() as engine:
        engine.sql(
            f"""SELECT ts_us // 60000000, service, broker, code, outcome,
                       floor(log2(greatest(ts_us - received_us, 1)) * 32), count(*), {common}, max(ts_us - received_us)
                FROM read_parquet({files}) WHERE kind = 'task' AND role = 'origin' GROUP BY ALL"""
        ).fetchall()
        engine.sql(
            f"""SELECT ts_us // 3600000000, worker, via, client, service, role, broker, config_version, worker_version,
                       count(*), {common}, sum(worker_offset_us), sum(wait_us), sum(work_us)
                FROM read_parquet({files}) WHERE kind = 'task' GROUP BY ALL"""
        ).fetchall()


def _whole(place: Path, options: Options) -> Whole:
    began = time.monotonic()
    _command("pipeline", "run", "--once", "--data", place)
    tables_s = time.monotonic() - began
    options.say(f"every table, Spark's start included: {tables_s:.1f} s")
    began = time.monotonic()
    _command("pipeline", "report", "--data", place, "--out", options.directory / "report.html")
    report_s = time.monotonic() - began
    options.say(f"report: {report_s:.1f} s")
    return Whole(tables_s, report_s)


def _command(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "scale0", *map(str, arguments), "--json"], check=True, capture_output=True)


def _errors(place: Path) -> dict[str, float]:
    """How far the day's percentiles are from the exact ones: the worst service and day, for each share."""
    days = reading.Gold(str(place)).rows("gold/service_1d")
    files = "[" + ", ".join(f"'{path}'" for path in _segments(place)) + "]"
    quantiles = ", ".join(f"quantile_disc(ts_us - received_us, {share})" for share in _SHARES.values())
    with duckdb.connect() as engine:
        exact = engine.sql(
            f"""SELECT ts_us // 86400000000, service, count(*), {quantiles}
                FROM (SELECT DISTINCT ON (broker, boot, seq) * FROM read_parquet({files}))
                WHERE kind = 'task' AND role = 'origin' AND outcome != 'refused' GROUP BY ALL"""
        ).fetchall()
    known = {(day, service): values for day, service, _count, *values in exact}
    worst = dict.fromkeys(_SHARES, 0.0)
    for row in days.to_pylist():
        number = (row["day"] - date(1970, 1, 1)).days
        values = known.get((number, row["service"]))
        for name, value in zip(_SHARES, values or (), strict=False):
            if value and row["count"] >= 10_000:
                worst[name] = max(worst[name], abs(row[name] / value - 1))
    return worst


def _growth(options: Options) -> float:
    """The cost of a batch on ten days of history over its cost on one."""
    seconds = {}
    for days in (1, 10):
        place = options.directory / f"history-{days}"
        generate(str(place), options.pipeline_events * days // 20, days, _SEED, until=_UNTIL)
        with running_session("local[*]"):
            jobs.once(str(place))
            times = []
            for repetition in range(options.repetitions + 1):
                generate(str(place), options.pipeline_events // 100, 1, 100 + repetition, until=_UNTIL)
                began = time.monotonic()
                jobs.once(str(place))
                times.append(time.monotonic() - began)
        seconds[days] = median(times[1:])
        options.say(f"a batch on top of {days} days: {seconds[days]:.1f} s")
    return seconds[10] / seconds[1]


def _result(events: int, rows: int, base: Base, whole: Whole, errors: dict[str, float], growth: float) -> Result:
    table = Table(
        f"Data pipeline, {events:,} events ({rows:,} rows)",
        ["what", "seconds", "events/s", "beside it"],
        [
            ["both base facts, Spark", figure(base.spark_s), thousands(events / base.spark_s), "–"],
            [
                "the same by DuckDB",
                figure(base.duckdb_s),
                thousands(events / base.duckdb_s),
                f"Spark takes {base.spark_s / base.duckdb_s:.1f} ×",
            ],
            ["every table, a fresh process", figure(whole.tables_s), thousands(events / whole.tables_s), "–"],
            ["report", figure(whole.report_s), "–", "–"],
            ["a batch: ten days of history ÷ one", "–", "–", f"{growth:.2f} ×"],
            *([f"{name[:-3]}, worst error", "–", "–", f"{error:.2%}"] for name, error in errors.items()),
        ],
    )
    report_s_max = _REPORT_S_MAX * max(1.0, events / _REPORT_EVENTS)
    verdicts: list[Verdict] = [
        at_least("both base facts, events/s", events / base.spark_s, _BASE_MIN),
        at_least("every table and silver, events/s", events / whole.tables_s, _ALL_MIN),
        at_most(f"report of {events:,} events from segments", whole.tables_s + whole.report_s, report_s_max, " s"),
        at_most("a batch on ten times the history", growth, _GROWTH_MAX, " ×"),
        *(
            at_most(f"{name[:-3]} of a day, error", error * 100, _ERROR_MAX * 100, " %")
            for name, error in errors.items()
        ),
    ]
    speeds = {"Spark": events / base.spark_s / 1e6, "DuckDB": events / base.duckdb_s / 1e6}
    return Result("pipeline", [table], verdicts, [Bars("both base facts", "M events/s", speeds, _BASE_MIN / 1e6)])
