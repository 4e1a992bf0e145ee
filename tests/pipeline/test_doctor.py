"""Each check says how something is and how to mend it; that all of them together find a running Spark is seen once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment
from scale0_pipeline import doctor
from scale0_pipeline.doctor import Check
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.tables.lease import Lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def look(place: Path | str, master: str = "local[1]") -> dict[str, Check]:
    return {one.name: one for one in doctor.check(str(place), master=master, is_starting=False)}


@pytest.mark.parametrize(
    ("version", "state"), [("2.2.0", "ok"), ("2.3.3", "ok"), ("3.0.1", "bad"), ("2.1.4", "bad"), (None, "bad")]
)
def test_a_package_is_well_from_one_version_up_to_another(version: str | None, state: str) -> None:
    found = doctor.package_check("pandas", version, (2, 2), (3,))
    assert found.state == state
    assert ("pip install" in found.cure) is (state == "bad")


@pytest.mark.parametrize(("free_gib", "state"), [(100, "ok"), (5, "warn"), (0.5, "bad")])
def test_little_room_is_told_and_less_is_bad(free_gib: float, state: str) -> None:
    assert doctor.space_check(int(free_gib * 1024**3)).state == state


def test_an_empty_place_is_well_and_says_what_comes_next(tmp_path: Path) -> None:
    found = look(tmp_path / "not there" / "data")
    assert found["data"].state == "ok"
    assert found["events"].state == "warn"
    assert "generate" in found["events"].cure
    assert not (tmp_path / "not there").exists(), "whoever only looks makes nothing"


def test_a_place_with_events_is_counted_and_left_as_it_was(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    write_segment(place, pa.table({"seq": [1], "ts_us": [5], "kind": ["boot"]}), "eu-1", "boot", "generate")
    assert look(tmp_path)["events"].text == "1 segments of 1 brokers"
    assert look(tmp_path)["data"].state == "ok"
    assert not list((tmp_path / "pipeline").iterdir())


def test_the_lease_tells_who_writes(tmp_path: Path) -> None:
    assert look(tmp_path)["lease"].text == "nobody writes the tables now"
    with Lease(Place(str(tmp_path))):
        assert "writes the tables now" in look(tmp_path)["lease"].text
    assert look(tmp_path)["lease"].text == "nobody writes the tables now"


def test_stores_that_need_jars_and_masters_that_were_not_tried_are_named() -> None:
    found = list(doctor._jars("s3a://bucket/data", "yarn"))
    assert [(one.name, one.state) for one in found] == [("jars", "bad"), ("master", "warn")]
    assert "hadoop-aws" in found[0].text
    assert not list(doctor._jars("/data", "spark://host:7077"))


def test_a_missing_java_is_bad_and_spark_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> None:
        raise PipelineError("there is no Java", "install one")

    monkeypatch.setattr(doctor, "find_java", find_none)
    monkeypatch.setattr(doctor, "_spark", lambda master: pytest.fail("it was started"))
    checks = doctor.check(str(tmp_path))
    assert Check("Java", "bad", "there is no Java", "install one") in checks
    shown = doctor.render(checks).splitlines()
    assert "✗ Java            there is no Java" in shown
    assert shown[shown.index("✗ Java            there is no Java") + 1].strip() == "install one"
    assert shown[-1].startswith("1 to mend before the pipeline can run")


def test_a_python_that_cannot_be_run_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", f"/no/such/python-{time.monotonic_ns()}")
    assert doctor._interpreter().state == "bad"


@pytest.mark.spark
def test_a_spark_that_runs_is_found_with_its_python(spark: SparkSession, tmp_path: Path) -> None:
    found = doctor.check(str(tmp_path), master="local[2]")[-1]
    assert (found.name, found.state) == ("Spark", "ok"), found
    assert spark.version in found.text
    assert pa.__version__ in found.text
