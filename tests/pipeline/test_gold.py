"""The tables, read without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from scale0.telemetry.place import Place
from scale0_pipeline import schema
from scale0_pipeline.errors import NothingRecorded
from scale0_pipeline.gold import Completeness, Gold, schema_of
from tests.pipeline.report.sample import DAY, START_US, write

DAY_US, HOUR_US, MINUTE_US = 86_400_000_000, 3_600_000_000, 60_000_000


def minute(at_us: int, service: str = "render") -> dict[str, object]:
    day = DAY + timedelta(days=(at_us - START_US) // DAY_US)
    return {"day": day, "minute_us": at_us, "service": service, "bucket": 400, "count": 1}


def test_every_table_of_the_contract_has_arrow_types() -> None:
    for name, contract in schema.TABLES.items():
        assert schema_of(name).names == list(contract.names)


def test_a_missing_table_is_empty_with_the_right_columns(tmp_path: Path) -> None:
    rows = Gold(str(tmp_path)).rows("gold/failovers")
    assert rows.num_rows == 0
    assert rows.column_names == list(schema.TABLES["gold/failovers"].names)


def test_a_period_is_cut_at_both_ends(tmp_path: Path) -> None:
    write(tmp_path, "facts/minute", [minute(START_US + n * MINUTE_US) for n in range(-5, 10)])
    gold = Gold(str(tmp_path))
    rows = gold.rows("facts/minute", START_US, START_US + 3 * MINUTE_US, ["minute_us"])
    assert sorted(rows["minute_us"].to_pylist()) == [START_US + n * MINUTE_US for n in range(3)]


def test_a_minute_that_has_begun_before_the_period_is_in_it(tmp_path: Path) -> None:
    write(tmp_path, "facts/minute", [minute(START_US)])
    assert Gold(str(tmp_path)).rows("facts/minute", START_US + 20_000_000).num_rows == 1


def test_files_of_other_days_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path, "facts/minute", [minute(START_US), minute(START_US + DAY_US)])
    first = next((tmp_path / "tables/facts/minute/day=2026-03-02").glob("*.parquet"))
    first.write_bytes(b"no parquet")
    assert Gold(str(tmp_path)).rows("facts/minute", START_US + DAY_US).num_rows == 1


def test_a_session_that_lasts_into_the_period_is_in_it(tmp_path: Path) -> None:
    spans = [(0, 5), (0, None), (20, None), (8, 12)]
    rows = [
        {"worker": f"w{n}", "opened_us": START_US + a, "closed_us": None if b is None else START_US + b}
        for n, (a, b) in enumerate(spans)
    ]
    yesterday = {"day": DAY - timedelta(days=1), "worker": "gone", "opened_us": START_US - 9, "closed_us": None}
    write(tmp_path, "silver/worker_sessions", [*rows, yesterday])
    found = Gold(str(tmp_path)).rows("silver/worker_sessions", START_US + 10, START_US + 20, ["worker"])
    assert sorted(found["worker"].to_pylist()) == ["w1", "w3"]


def test_advice_that_was_given_the_day_before_and_still_holds_is_in_the_period(tmp_path: Path) -> None:
    hint = {"evidence_from_us": START_US - 9, "expires_us": START_US + 9, "day": DAY - timedelta(days=1)}
    write(tmp_path, "gold/hints", [hint])
    assert Gold(str(tmp_path)).rows("gold/hints", START_US, START_US + 5).num_rows == 1
    assert Gold(str(tmp_path)).rows("gold/hints", START_US + 10).num_rows == 0


def test_a_column_that_an_older_table_lacks_reads_as_null(tmp_path: Path) -> None:
    old = pa.table({"day": pa.array([DAY]), "ts_us": pa.array([START_US], pa.int64()), "broker": ["eu-1"]})
    (tmp_path / "tables/gold").mkdir(parents=True)
    write_deltalake(str(tmp_path / "tables/gold/failovers"), old, partition_by=["day"])
    row = Gold(str(tmp_path)).rows("gold/failovers").to_pylist()[0]
    assert row["broker"] == "eu-1"
    assert row["outage_us"] is None


def test_statistics_of_some_columns_hide_no_rows_of_others(tmp_path: Path) -> None:
    write(tmp_path, "facts/minute", [minute(START_US), minute(START_US, "ocr")])
    log = tmp_path / "tables/facts/minute/_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            ends = {"minute_us": START_US}
            action["add"]["stats"] = json.dumps(
                {"numRecords": 2, "minValues": ends, "maxValues": ends, "nullCount": {}}
            )
    log.write_text("\n".join(json.dumps(action) for action in actions))
    found = Gold(str(tmp_path)).rows("facts/minute", START_US, where=pc.field("service") == "ocr")
    assert found.num_rows == 1


def test_the_extent_goes_from_the_first_minute_to_the_end_of_the_last(tmp_path: Path) -> None:
    assert Gold(str(tmp_path)).extent() is None
    write(tmp_path, "facts/minute", [minute(START_US + n * DAY_US + MINUTE_US) for n in range(4)])
    assert Gold(str(tmp_path)).extent() == (START_US + MINUTE_US, START_US + 3 * DAY_US + 2 * MINUTE_US)


def test_rows_can_be_filtered_by_any_column(tmp_path: Path) -> None:
    write(tmp_path, "facts/minute", [minute(START_US), minute(START_US, "ocr")])
    found = Gold(str(tmp_path)).rows("facts/minute", where=pc.field("service") == "ocr")
    assert found["service"].to_pylist() == ["ocr"]


def test_completeness_is_recorded_over_counted_and_never_above_one() -> None:
    assert Completeness(recorded=98, counted=100, unknown=0).share == 0.98
    assert Completeness(recorded=98, counted=100, unknown=0).lost == 2
    assert Completeness(recorded=101, counted=100, unknown=0).share == 1.0
    assert Completeness(recorded=0, counted=0, unknown=0).share is None


def test_completeness_of_a_period_adds_up_all_brokers(tmp_path: Path) -> None:
    hours = [
        {"day": DAY, "hour_us": START_US + n * HOUR_US, "broker": b, "recorded": r, "counted": 100, "unknown": 1}
        for n, b, r in ((0, "eu-1", 100), (0, "eu-2", 50), (1, "eu-1", 0))
    ]
    write(tmp_path, "gold/completeness_1h", hours)
    assert Gold(str(tmp_path)).completeness(START_US, START_US + HOUR_US) == Completeness(150, 200, 2)


def test_nothing_at_all_names_the_first_command(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded, match="scale0 broker --telemetry"):
        Gold(str(tmp_path / "nowhere")).check()
    Place(str(tmp_path)).write_atomic(("catalogue", "eu-1", "000000000001.json"), b"{}")
    with pytest.raises(NothingRecorded, match="scale0 pipeline run --once"):
        Gold(str(tmp_path)).check()


def test_reading_gold_needs_no_spark() -> None:
    code = (
        "import sys, scale0_pipeline.report, scale0_pipeline.why; print(sorted(m for m in sys.modules if 'spark' in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
