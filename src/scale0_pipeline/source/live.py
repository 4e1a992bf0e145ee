"""Live tables: who is in the network right now, as `scale0 workers --json` and its like show it.

`spark.read.format("scale0").option("broker", "tcp://…").option("table", "workers")` asks a broker's built-in service
when the query runs, once. It is one small answer, so it is one partition. What a broker adds to its listings later does
not change the schema; what a column cannot hold is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from scale0.client import Client
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.source import options as told

TIMEOUT_S: Final = 10.0

TABLES: Final = {
    "workers": (
        "scale0.network_workers",
        "identity string, broker string, state string, services array<string>, busy int, capacity int,"
        " heard_us bigint, interval_us bigint, config_version string",
    ),
    "services": (
        "scale0.services",
        "name string, state string, workers int, free int, capacity int, queued bigint, oldest_us bigint,"
        " tasks_per_s double, p50_us bigint, p99_us bigint, errors_5m bigint, idempotent boolean, max_attempts int",
    ),
    "brokers": (
        "scale0.network",
        "identity string, `group` string, endpoints array<string>, state string, star string, epoch int,"
        " fallback string, config_version string, is_behind boolean, is_self boolean, is_sequencer boolean,"
        " workers int, clients int, queued bigint, services map<string,int>, link string, heard_us bigint,"
        " forwarded bigint, received bigint",
    ),
    "clients": (
        "scale0.clients",
        "identity string, open_tasks int, outcomes_kept int, is_absent boolean, heard_us bigint,"
        " config_version string, clock_offset_us bigint, dialect string",
    ),
}
"""Each table's built-in service, and its columns."""


def schema_of(options: Mapping[str, str]) -> str:
    return TABLES[_table(options)][1]


class LiveReader(DataSourceReader):
    """Asks once, when the query runs."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        told.check(options, told.READING)
        self.addresses = told.need(options, "broker", "tcp://127.0.0.1:5555").split(",")
        self.service = TABLES[_table(options)][0]
        self.timeout_s = told.seconds(options, "timeout", TIMEOUT_S)
        self.names = schema.fieldNames()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with Client(self.addresses, timeout=self.timeout_s, connect_timeout=self.timeout_s) as client:
            listing = client.call(self.service)
        if not listing["complete"]:
            raise PipelineError(
                f"{self.service} has more rows than a broker tells at once", "ask each broker of the network by itself"
            )
        for row in listing["rows"]:
            yield tuple(row.get(name) for name in self.names)


def _table(options: Mapping[str, str]) -> str:
    return told.choice(options, "table", *TABLES)
