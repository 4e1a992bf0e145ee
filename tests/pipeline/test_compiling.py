"""What Java is told to leave as the first compiler made it. That a run starts so, every run that catches up shows."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scale0_pipeline import compiling
from scale0_pipeline.java import find_java


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))


def test_java_takes_the_rules_and_says_nothing_of_them() -> None:
    java = str(find_java().home / "bin" / "java")
    told = shlex.split(compiling.java_options())
    said = subprocess.run([java, *told, "-version"], capture_output=True, text=True, check=True)
    assert "directive" not in said.stdout + said.stderr
    loud = subprocess.run([java, *told[:-1], "-version"], capture_output=True, text=True, check=True)
    assert "1 compiler directives added" in loud.stdout + loud.stderr


def test_what_runs_for_each_row_is_compiled_well() -> None:
    for name in (
        "org/apache/spark/sql/catalyst/expressions/GeneratedClass$GeneratedIteratorForCodegenStage1",
        "org/apache/spark/unsafe/types/UTF8String",
        "org/apache/spark/sql/execution/datasources/parquet/VectorizedColumnReader",
        "java/util/HashMap",
    ):
        assert not name.startswith(compiling.PER_QUERY)


@pytest.mark.spark
def test_java_that_runs_takes_a_directive(spark: SparkSession) -> None:
    assert compiling.be_brief(spark), "its compilers are told while they run"
