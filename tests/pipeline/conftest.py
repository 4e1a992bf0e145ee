"""The one Spark session of the suite. Who uses it stands in the xdist group "spark", so that there is one JVM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that carries the mark `spark` goes to the same process."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on this machine, made for small frames."""
    from scale0_pipeline.session import spark_session

    # A task that fails is run once more, as on a cluster: there are tests of what that does.
    session = spark_session("local[2,2]", app="scale0-tests", is_test=True)
    yield session
    session.stop()
