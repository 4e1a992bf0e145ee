"""A real Spark Connect server on loopback: a JVM of its own, on a free port."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.pipeline.cluster.standalone import Daemon

SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """The server's address, as `sc://…`. The JVM ends with the block."""
    settings = [word for key, value in SETTINGS.items() for word in ("--conf", f"{key}={value}")]
    options = ["--master", "local[2]", *settings]
    program = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log, awaits = folder / "server.log", r"(?<=Spark Connect server started at: )127[\d.:]+"
    server = Daemon("SparkSubmit", *options, *program, log=log, awaits=awaits, memory="1g")
    try:
        yield f"sc://{server.wait()}"
    finally:
        server.end()
