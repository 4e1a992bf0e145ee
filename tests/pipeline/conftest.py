"""The one Spark session of the suite, for the tests with the mark `spark`, which share a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on this machine, made for small frames."""
    from scale0_pipeline.session import spark_session

    # A task that fails is run once more, as on a cluster: there are tests of what that does.
    session = spark_session("local[2,2]", app="scale0-tests", is_test=True)
    yield session
    session.stop()
