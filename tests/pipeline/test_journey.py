"""From a task to the page that tells of it, as users do it: a broker that records, `scale0 pipeline`, `scale0 why`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import scale0.testing
from scale0 import Client, RemoteError, ServiceNotFound, Worker
from scale0.cli.main import main
from scale0_pipeline.gold import Gold
from scale0_pipeline.jobs import run as jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every table is made: minutes where the machine has other work.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

TASKS = 200


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker recorded of some tasks that went well, one that failed, and one that nobody serves."""
    telemetry = tmp_path_factory.mktemp("telemetry")
    with scale0.testing.broker(telemetry=telemetry) as broker:
        worker = Worker(broker.endpoint, identity="w-1", capacity=4)
        worker.add_service("double", lambda number: 2 * number)
        worker.add_service("fail", lambda: 1 / 0)
        with worker.start(), Client(broker.endpoint, identity="ann") as client:
            assert list(client.map("double", range(TASKS))) == [2 * number for number in range(TASKS)]
            with pytest.raises(RemoteError):
                client.call("fail")
            with pytest.raises(ServiceNotFound):
                client.call("dubble", 1)
    return telemetry / "data"


@pytest.fixture(scope="module")
def tables(place: Path, spark: SparkSession) -> Path:
    """The same, with all tables made."""
    assert jobs.once(str(place)).batches >= 1
    return place


def test_every_task_is_in_the_tables_once_and_the_record_is_complete(tables: Path) -> None:
    days = Gold(str(tables)).rows("gold/service_1d").to_pylist()
    # Rule 4: soon after a broker's start an unknown service waits for workers, and its 404 is an error, not a refusal.
    counted = {
        row["service"]: (row["count"], row["replied"], row["failed"], row["errors"] + row["refused"]) for row in days
    }
    assert counted == {"double": (TASKS, TASKS, 0, 0), "fail": (1, 0, 1, 0), "dubble": (1, 0, 0, 1)}
    assert {row["completeness"] for row in days} == {1.0}


def test_second_run_finds_nothing_to_do(tables: Path) -> None:
    again = jobs.once(str(tables))
    assert (again.batches, again.rows, again.derived) == (0, 0, 0)


def test_report_tells_of_it_on_one_page(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert main(["pipeline", "report", "--data", str(tables), "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    page = out.read_text()
    assert "double" in page
    assert len(page.encode()) < 500_000


def test_why_tells_the_life_of_the_task_that_failed(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = Gold(str(tables)).rows("silver/tasks", columns=["task_id", "service"]).to_pylist()
    task_id = next(row["task_id"] for row in tasks if row["service"] == "fail")
    assert main(["why", task_id, "--data", str(tables)]) == 0
    told = capsys.readouterr().out
    assert "fail" in told
    assert "w-1" in told
