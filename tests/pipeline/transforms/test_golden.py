"""Every table of a generated day against figures that were reckoned without Spark.

The day has late and repeated segments, dropped rows, a crash, forwarded tasks, a fail-over with doubled settlements, an
overload, retries, a flapping worker, a drifting clock and a change of the config.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from scale0.telemetry import catalogue
from scale0.telemetry.place import Place
from scale0_pipeline.buckets import SHARES
from scale0_pipeline.generate import Summary, generate
from scale0_pipeline.schema import TABLES
from tests.pipeline.transforms import golden
from tests.pipeline.transforms.frames import BATCH, DAY, DAY_US, HOUR_US, START_US, dicts
from tests.pipeline.transforms.golden import MINUTE_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVENTS = 6_000
TRIED_ELSEWHERE = {"gold/capacity", "gold/hints", "gold/hint_scores"}


class Made(NamedTuple):
    """A generated day: what was written, its rows, and the tables that were made of it."""

    summary: Summary
    rows: list[Row]
    tasks: list[Row]
    tables: dict[str, list[Row]]
    types: dict[str, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    from datetime import timedelta

    url: Path = tmp_path_factory.mktemp("golden")
    summary = generate(str(url), EVENTS, 1, seed=3, until=DAY + timedelta(1))
    place = Place(str(url))
    rows = golden.rows_of(place)
    frames = _make_all(spark, place)
    return Made(
        summary,
        rows,
        [row for row in rows if row["kind"] == "task"],
        {name: dicts(frame) for name, frame in frames.items() if name not in TRIED_ELSEWHERE},
        {
            name: [(field.name, field.dataType.simpleString()) for field in frame.schema]
            for name, frame in frames.items()
        },
    )


def _make_all(spark: SparkSession, place: Place) -> dict[str, Any]:
    from scale0_pipeline.transforms import bronze, registry

    entries = [entry for broker in catalogue.brokers(place) for entry in catalogue.read(place, broker)]
    read = bronze.read(spark, [place.uri(entry.path) for entry in entries])
    events = bronze.landed(read.dropDuplicates(["broker", "boot", "seq"]), BATCH, START_US + DAY_US)
    frames: dict[str, Any] = {}
    for table in registry.APPENDED:
        made = table.make(events.toArrow()) if isinstance(table, registry.Copied) else table.make(events).toArrow()
        frames[table.name] = spark.createDataFrame(made)
    window = registry.Window((DAY,), START_US + DAY_US)
    for derived in registry.DERIVED:
        made = derived.make({name: frames[name] for name in derived.inputs}, window)
        is_tried = derived.name not in TRIED_ELSEWHERE
        frames[derived.name] = spark.createDataFrame(made.toArrow(), made.schema) if is_tried else made
    return frames


def test_every_table_has_the_columns_of_its_contract(made: Made) -> None:
    for name, types in made.types.items():
        assert types == [(field.name, field.type) for field in TABLES[name].fields], name
    assert set(made.types) == {name for name in TABLES if not name.startswith("quality/")}


def test_silver_has_every_row_once(made: Made) -> None:
    keys = Counter(
        (row["broker"], row["boot"], row["seq"]) for name in ("tasks", "notes") for row in made.tables[f"silver/{name}"]
    )
    assert set(keys.values()) == {1}
    assert set(keys) == {(row["broker"], row["boot"], row["seq"]) for row in made.rows}
    assert made.summary.repeated > 0


def test_silver_knows_where_the_time_went(made: Made) -> None:
    by_key = {(row["broker"], row["boot"], row["seq"]): row for row in made.tasks}
    for row in made.tables["silver/tasks"]:
        told = by_key[row["broker"], row["boot"], row["seq"]]
        assert row["latency_us"] == told["ts_us"] - told["received_us"]
        assert row["queue_us"] == golden.queue_us(told)
        assert row["task_id"] == f"{told['client']}.{told['nonce']}.{told['sequence']}"
        assert row["client_network_us"] == told["received_us"] - told["sent_us"] + told["client_offset_us"]


@pytest.mark.parametrize(
    ("name", "column", "step_us"),
    [("service_1m", "minute_us", MINUTE_US), ("service_1h", "hour_us", HOUR_US), ("service_1d", None, DAY_US)],
)
def test_services_are_counted_rightly(made: Made, name: str, column: str | None, step_us: int) -> None:
    exact = golden.services(made.tasks, lambda row: row["ts_us"] // step_us * step_us)
    found = {(row[column] if column else START_US, row["service"]): row for row in made.tables[f"gold/{name}"]}
    assert set(found) == set(exact)
    for key, row in found.items():
        for figure, value in exact[key].items():
            if figure in row:
                assert row[figure] == value, (key, figure)
        for share_name, share in SHARES.items():
            _assert_close(row[f"{share_name}_us"], golden.exact_percentile(exact[key]["durations"], share))
        if "queue_p99_us" in row:
            _assert_close(row["queue_p99_us"], golden.exact_percentile(exact[key]["queues"], 0.99))
        assert row["revision"] == BATCH


def _assert_close(found: float | None, exact: int | None) -> None:
    if not exact:
        assert not found
    else:
        assert found is not None
        assert abs(found / exact - 1) < 0.012


def test_what_was_settled_twice_is_listed_and_counts_once(made: Made) -> None:
    doubled = made.tables["silver/doubled"]
    assert {(row["broker"], row["seq"]) for row in doubled} == {
        (row["broker"], row["seq"]) for row in golden.surplus(made.tasks)
    }
    assert len(doubled) == made.summary.doubled > 0
    in_facts = sum(row["count"] for row in made.tables["facts/minute"])
    in_gold = sum(row["count"] for row in made.tables["gold/service_1d"])
    assert in_facts - len(doubled) == in_gold


def test_edges_and_costs_add_up_to_the_tasks(made: Made) -> None:
    accepted = [row for row in golden.origins(made.tasks) if row["outcome"] != "refused"]
    exact = Counter(
        (row["ts_us"] // HOUR_US * HOUR_US, row["client"], row["service"], row["worker"] or row["via"])
        for row in accepted
    )
    edges = made.tables["gold/edges_1h"]
    assert {(row["hour_us"], row["client"], row["service"], row["worker"]): row["count"] for row in edges} == exact
    work: defaultdict[tuple[str, str], int] = defaultdict(int)
    for row in accepted:
        work[row["service"], row["client"]] += row["work_us"] or 0
    costs = made.tables["gold/cost_1d"]
    assert {(row["service"], row["client"]): row["work_us"] for row in costs} == work
    assert sum(row["share"] for row in costs) == pytest.approx(1.0)


def test_workers_are_counted_where_they_work(made: Made) -> None:
    exact = Counter(
        (row["ts_us"] // HOUR_US * HOUR_US, row["worker"], row["service"], row["broker"])
        for row in made.tasks
        if row["worker"] is not None
    )
    workers = made.tables["gold/worker_1h"]
    found = {(row["hour_us"], row["worker"], row["service"], row["broker"]): row for row in workers}
    assert {key: row["count"] for key, row in found.items()} == exact
    assert made.summary.relayed > 0
    assert all(0 < row["available_share"] <= 1 for row in workers)
    lost = [
        row["available_share"]
        for row in workers
        if row["worker"] == "search-eu-2" and row["hour_us"] == START_US + 6 * HOUR_US
    ]
    assert all(share < 1 for share in lost)


def test_losses_are_found_and_bounded(made: Made) -> None:
    gaps = {row["why"]: row for row in made.tables["silver/gaps"]}
    assert gaps["dropped"]["rows"] == made.summary.dropped
    assert gaps["crashed"]["rows"] == made.summary.crashed
    assert set(gaps) == {"dropped", "crashed"}
    hours = made.tables["gold/completeness_1h"]
    assert sum(row["recorded"] for row in hours) == sum(row["kind"] != "dropped" for row in made.rows)
    assert sum(row["counted"] - row["recorded"] for row in hours) == made.summary.dropped + made.summary.crashed
    assert sum(row["unknown"] for row in hours) == made.summary.crashed


def test_a_fail_over_tells_what_became_of_its_tasks(made: Made) -> None:
    ledger = {row["what"]: row for row in made.tables["gold/failovers"]}
    took_over = ledger["took_over"]
    exact = golden.in_flight(made.tasks, {"eu-1", "eu-2"}, took_over["ts_us"])
    assert {fate: took_over[fate] for fate in ("replied", "rerouted", "retried", "errored", "lost")} == {
        fate: exact[fate] for fate in ("replied", "rerouted", "retried", "errored", "lost")
    }
    assert took_over["in_flight"] == exact.total() > 0
    assert took_over["lost"] > 0
    assert took_over["retried"] > 0
    assert took_over["doubled"] == made.summary.doubled
    assert (took_over["partner"], took_over["epoch"]) == ("eu-1", 2)


def test_burn_rates_are_those_of_their_windows(made: Made) -> None:
    minutes = golden.services(made.tasks, lambda row: row["ts_us"] // MINUTE_US * MINUTE_US)
    lengths = {"5m·1h": (5, 60), "30m·6h": (30, 360), "6h·3d": (360, 4_320)}
    rows = made.tables["gold/slo_burn"]
    assert len(rows) == 3 * len(minutes)
    for row in rows[:: max(1, len(rows) // 60)]:
        short, long = lengths[row["window"]]
        for figure, length in (("burn_short", short), ("burn_long", long)):
            exact = golden.burn(minutes, row["service"], row["minute_us"], length * MINUTE_US, 0.001)
            assert row[figure] == pytest.approx(exact)
    assert {row["service"] for row in rows if row["is_alerting"]} >= {"resize"}


def test_sessions_flaps_and_clocks_tell_of_the_incidents(made: Made) -> None:
    opened = Counter(
        (row["subject"], row["ts_us"] // HOUR_US * HOUR_US)
        for row in made.rows
        if row["kind"] == "session" and row["what"] == "opened"
    )
    flaps = made.tables["gold/flaps"]
    assert {(row["worker"], row["hour_us"]): row["sessions"] for row in flaps} == opened
    assert {row["worker"] for row in flaps if row["is_flapping"]} == {"mail-us-4"}
    sessions = made.tables["silver/worker_sessions"]
    assert len(sessions) == opened.total()
    crashed = [row for row in sessions if row["why"] == "the broker crashed"]
    assert len({row["worker"] for row in crashed}) == len(crashed) > 0
    clocks = made.tables["gold/clock_drift"]
    drifting = {row["participant"] for row in clocks if row["is_drifting"]}
    assert drifting == {"search-us-1"}
    rates = [row["drift_ppm"] for row in clocks if row["participant"] == "search-us-1" and row["drift_ppm"] is not None]
    assert all(abs(rate - 240) < 5 for rate in rates)


def test_versions_of_the_config_are_followed(made: Made) -> None:
    accepted = [row for row in made.tasks if row["outcome"] != "refused"]
    exact = Counter((row["ts_us"] // HOUR_US * HOUR_US, row["config_version"]) for row in accepted)
    drift = made.tables["gold/config_drift"]
    assert {(row["hour_us"], row["version"]): row["tasks"] for row in drift if row["tasks"]} == exact
    last = max(row["hour_us"] for row in drift)
    assert [row["version"] for row in drift if row["hour_us"] == last and row["is_current"]] == ["1.2"]
    applied = made.tables["silver/config_applied"]
    assert {(row["broker"], row["version"]) for row in applied} >= {("eu-1", "1.2"), ("us-1", "1.2")}


def test_the_day_keeps_the_rules_of_quality(made: Made, spark: SparkSession) -> None:
    from scale0_pipeline import quality

    for name in ("silver/tasks", "facts/minute", "gold/service_1h", "gold/failovers", "gold/completeness_1h"):
        fields = ", ".join(f"`{field.name}` {field.type}" for field in TABLES[name].fields)
        checked = quality.check(
            name, spark.createDataFrame([tuple(row.values()) for row in made.tables[name]], fields), BATCH, DAY
        )
        assert checked is not None
        assert not [row for row in dicts(checked) if row["is_broken"]]
