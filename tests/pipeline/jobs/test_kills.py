"""Thirty times `kill -9`, whenever it strikes, while segments come in and a reader looks on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from scale0.telemetry.place import Place
from scale0_pipeline.jobs import run
from scale0_pipeline.tables.log import BatchLog
from tests.pipeline.jobs.reader import Reader
from tests.pipeline.jobs.world import APPENDED, DERIVED, add_segment, all_at, totals

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

KILLS = 30
ROWS_EACH = 50

FOLLOWS = """
import sys, threading
from scale0_pipeline.jobs import run
from scale0_pipeline.session import spark_session
from tests.pipeline.jobs.world import APPENDED, DERIVED
spark_session("local[2]", is_test=True)
print("ready", flush=True)
run.follow(sys.argv[1], stop=threading.Event(), interval_s=0.2, appended=APPENDED, derived=DERIVED)
"""


def follow(place: Place) -> subprocess.Popen[bytes]:
    """A pipeline in a process of its own, once it has its session."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    process = subprocess.Popen(
        [sys.executable, "-c", FOLLOWS, place.url],
        env=environment,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("seed", [5])
def test_thirty_kills_lose_nothing_and_double_nothing(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    place, chance = Place(tmp_path), random.Random(seed)
    added = 0
    with Reader(place) as reader:
        for _ in range(KILLS):
            process = follow(place)
            try:
                for _ in range(chance.randint(1, 4)):
                    add_segment(place, "eu-1", added + 1, added + ROWS_EACH)
                    added += ROWS_EACH
                    with pytest.raises(subprocess.TimeoutExpired):
                        process.wait(chance.uniform(0.2, 4))
            finally:
                process.kill()
                process.communicate()
        run.once(place.url, appended=APPENDED, derived=DERIVED)
    assert totals(place) == all_at(added)
    assert BatchLog(place).last() > 0
    reader.check(ROWS_EACH, added)
