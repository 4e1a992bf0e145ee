"""Jobs on a real standalone cluster, one master and two workers in separate JVMs, give what one machine gives."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from scale0_pipeline.generate import generate
from scale0_pipeline.jobs.run import once
from tests.pipeline.calls.posts import running_post
from tests.pipeline.cluster.standalone import LIMIT_S, running_cluster
from tests.pipeline.source.places import two_brokers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
OF_THE_RUN = {"landed_us", "made_us", "scored_us", "expires_us", "hint_id"}
"""Columns that tell when a row was made, and not what it is about."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def drive(**order: str) -> dict[str, Any]:
    """Run the driver's program with an order."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.cluster.driver", json.dumps(order)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_executors_read_events_and_call_services(cluster: str, tmp_path: Path) -> None:
    two_brokers(tmp_path)
    with running_post() as post:
        told = drive(master=cluster, place=str(tmp_path), broker=post.endpoint)
    assert told["master"] == cluster
    assert told["events"] == {"eu-1": 300, "us-1": 100}
    assert told["sum"] == sum(2 * number for number in range(500) if number != 13)
    assert told["failed"] == 1
    assert all("scale0-code.zip" in path for path in told["code"]), "it is the driver's code that executors run"


def tables(place: Path) -> dict[str, Path]:
    return {
        str(log.parent.relative_to(place / "tables")): log.parent
        for log in sorted((place / "tables").glob("*/*/_delta_log"))
    }


def rows_of(table: Path) -> list[dict[str, Any]]:
    """All rows in an order of their own, without what tells only of the run."""
    found: Any = pa.table(DeltaTable(str(table)).to_pyarrow_dataset().to_table())
    kept = [name for name in found.column_names if name not in OF_THE_RUN]
    return sorted(found.select(kept).to_pylist(), key=str)


def differences(here: Path, there: Path) -> list[str]:
    """What is not the same in two tables. Sums of fractions are made in any order, so their last digits may differ."""
    ours, theirs = rows_of(here), rows_of(there)
    if len(ours) != len(theirs):
        return [f"{len(ours)} rows and {len(theirs)}"]
    return [
        f"{name}: {left} and {right}"
        for one, other in zip(ours, theirs, strict=True)
        for name, left, right in ((name, one[name], other[name]) for name in one)
        if left != right and not (isinstance(left, float) and left == pytest.approx(right, rel=1e-9))
    ]


@pytest.mark.slow
@pytest.mark.timeout(1500)  # every table, twice: minutes where the machine has other work
def test_every_table_is_the_same_as_on_one_machine(cluster: str, spark: SparkSession, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        generate(str(place), events=5_000, days=1, seed=7)
    summary = once(str(here), master="local[2]")
    told = drive(master=cluster, tables=str(there))
    assert told["rows"] == summary.rows > 5_000
    assert tables(here).keys() == tables(there).keys()
    assert {"silver/tasks", "facts/minute", "gold/service_1h"} <= tables(here).keys()
    differing = {name: differences(table, tables(there)[name]) for name, table in tables(here).items()}
    assert not {name: found for name, found in differing.items() if found}
