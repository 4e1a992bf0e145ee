"""Commits: each batch once, one after another, and whole for any reader."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from scale0.telemetry.place import Place
from scale0_pipeline.errors import LeaseLost, PipelineError
from scale0_pipeline.tables import delta
from scale0_pipeline.tables.delta import STREAM, Stamp, Table, nullable
from scale0_pipeline.tables.files import DataFile
from tests.pipeline.tables.parquet import MONDAY, SCHEMA, TUESDAY, values, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDER = SCHEMA.replace('"fields":[', '"fields":[{"name":"extra","type":"string","nullable":true,"metadata":{}},')


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(Place(tmp_path), "facts/numbers")


def stamp(version: int, *, fence: int = 1) -> Stamp:
    return Stamp(STREAM, version, "pipeline", fence, {"batch": version})


def test_a_batch_is_added_once(table: Table) -> None:
    assert table.append(write(table, {MONDAY: [1, 2]}, 1), stamp(1))
    assert not table.append(write(table, {MONDAY: [1, 2]}, 1), stamp(1))
    assert (values(table), table.version()) == ([1, 2], 1)


def test_a_batch_without_rows_counts_too(table: Table) -> None:
    assert table.append(write(table, {}, 1), stamp(1))
    assert (values(table), table.version()) == ([], 1)


def test_files_that_were_never_committed_are_seen_by_nobody(table: Table) -> None:
    table.append(write(table, {MONDAY: [1]}, 1), stamp(1))
    write(table, {MONDAY: [2]}, 2)
    assert values(table) == [1]


def test_writers_at_once_add_each_batch_once(table: Table) -> None:
    added: list[int] = []

    def add(number: int) -> None:
        own = Table(table.place, table.name)
        added.extend(batch for batch in range(1, 12) if own.append(write(own, {MONDAY: [batch]}, batch), stamp(batch)))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(table) == sorted(added)
    assert len(added) == len(set(added))
    assert table.version() == 11


def test_a_writer_with_an_older_fence_commits_no_more(table: Table) -> None:
    table.append(write(table, {MONDAY: [1]}, 1), stamp(1, fence=2))
    with pytest.raises(LeaseLost, match="taken the lease"):
        table.append(write(table, {MONDAY: [2]}, 2), stamp(2, fence=1))
    assert values(table) == [1]


def test_days_are_replaced_in_one_commit(table: Table) -> None:
    table.append(write(table, {MONDAY: [1], TUESDAY: [2]}, 1), stamp(1))
    table.replace_days(write(table, {MONDAY: [7, 8]}, 2), [MONDAY], stamp(2))
    assert values(table) == [2, 7, 8]
    assert [file.batch_hi for file in table.files([MONDAY])] == [2]


def test_a_day_that_was_made_from_more_is_left_alone(table: Table) -> None:
    table.append(write(table, {MONDAY: [1], TUESDAY: [2]}, 1), stamp(1))
    table.replace_days(write(table, {MONDAY: [9]}, 5), [MONDAY], Stamp(STREAM, 5))
    late = write(table, {MONDAY: [3], TUESDAY: [4]}, 4)
    table.replace_days(late, [MONDAY, TUESDAY], Stamp("backfill", 4), is_repeatable=True)
    assert values(table) == [4, 9]


def test_a_choice_that_gives_up_commits_nothing(table: Table) -> None:
    table.append(write(table, {MONDAY: [1]}, 1), stamp(1))

    def refuse(files: list[DataFile]) -> list[DataFile]:
        raise KeyError("they are gone")

    with pytest.raises(KeyError):
        table.commit(write(table, {MONDAY: [2]}, 2), refuse, stamp(2))
    assert (values(table), table.version()) == ([1], 1)


def test_a_table_gains_columns_and_old_files_have_none(table: Table) -> None:
    table.append(write(table, {MONDAY: [1]}, 1), stamp(1))
    table.append(write(table, {MONDAY: [2]}, 2, schema=WIDER), stamp(2))
    assert sorted(table.arrow().column_names) == ["day", "extra", "value"]
    assert table.arrow()["extra"].to_pylist() == [None, None]
    table.append(write(table, {MONDAY: [3]}, 3), stamp(3))
    assert values(table) == [1, 2, 3], "and who knows less adds to it as before"


def test_a_column_never_changes_its_type(table: Table) -> None:
    table.append(write(table, {MONDAY: [1]}, 1), stamp(1))
    with pytest.raises(PipelineError, match="value of facts/numbers is long and would become string"):
        table.append(write(table, {}, 2, schema=SCHEMA.replace("long", "string")), stamp(2))


def test_everything_in_a_schema_may_be_null() -> None:
    strict = SCHEMA.replace("true", "false").replace(
        '"long"', '{"type":"array","elementType":"long","containsNull":false}'
    )
    assert "false" not in nullable(strict)


def test_a_commit_tells_what_it_was_for(table: Table) -> None:
    table.append(write(table, {MONDAY: [1]}, 1), stamp(1))
    assert DeltaTable(table.uri).history(1)[0]["scale0"] == '{"batch":1}'


def test_readers_that_filter_find_their_rows(table: Table) -> None:
    table.append(write(table, {MONDAY: [1, 2], TUESDAY: [3]}, 1, schema=WIDER), stamp(1))
    assert sorted(table.arrow(["value"], [("value", ">", 1)])["value"].to_pylist()) == [2, 3]
    assert table.arrow(["value"], [("day", "=", MONDAY)])["value"].to_pylist() == [1, 2]


def test_a_table_that_is_not_there_says_which_command_comes_first(table: Table) -> None:
    assert (table.version(), table.files()) == (0, [])
    with pytest.raises(PipelineError, match="pipeline run --once"):
        table.arrow()


@pytest.mark.spark
def test_a_few_rows_are_read_by_one_task(table: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(write(table, {MONDAY: [1, 2], TUESDAY: [3]}, 1), stamp(1))
    tasks = {}
    for few in (3, 2):
        monkeypatch.setattr(delta, "FEW_ROWS", few)
        rows = table.frame(spark)
        assert sorted(row.value for row in rows.collect()) == [1, 2, 3]
        tasks[few] = rows.rdd.getNumPartitions()
    assert tasks == {3: 1, 2: 2}
