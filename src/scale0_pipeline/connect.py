"""Sessions over Spark Connect: a thin client here, and Spark, its Java and its settings at a server.

A client needs no Java, but some packages that Spark alone does not bring: `scale0[connect]` has them. The source and
`call_service` run at the server, so its Python needs our code, and `scale0_pipeline.session.ship_code` can send it.
"""

from __future__ import annotations

import importlib
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from scale0_pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME: Final = "sc://"
PORT: Final = 15002  # Spark's own default
PROBE_S: Final = 10.0
INSTALL: Final = 'run: pip install "scale0[connect]"'
START: Final = "start one where Spark is: $SPARK_HOME/sbin/start-connect-server.sh"


def connect(url: str, app: str) -> SparkSession:
    """A session of the server at `url`, in UTC. Raises `PipelineError` if packages are missing, or nobody is there."""
    _look_for_packages()
    _probe(url)
    try:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(url).appName(app).getOrCreate()
        spark.conf.set("spark.sql.session.timeZone", "UTC")  # the first word is what connects
    except Exception as error:
        raise PipelineError(f"no Spark Connect server at {url}: {_first_line(error)}", START) from error
    return spark


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a server's: it has no `sparkContext`."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _look_for_packages() -> None:
    try:
        importlib.import_module("pyspark.sql.connect.session")  # which looks for all that a client needs
    except ImportError as error:
        raise PipelineError(f"Spark Connect is not installed here: {_first_line(error)}", INSTALL) from error


def _probe(url: str) -> None:
    """A client that finds nobody tries for minutes before it says so: this asks once."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or PORT), PROBE_S).close()
    except (OSError, ValueError) as error:
        raise PipelineError(f"no Spark Connect server at {url}: {error}", START) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
