"""The data source itself: one name, `scale0`, and behind it the readers and writers of this package.

With the option `path` it reads recorded events, with `broker` and `table` a live table of a network; written to, each
row becomes a task. `pyspark_scale0` makes it known to every session of an interpreter that has this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from scale0_pipeline.errors import PipelineError


class Scale0Source(DataSource):
    """`format("scale0")`. What it leads to is imported when it is needed: registering it must be cheap."""

    @classmethod
    def name(cls) -> str:
        return "scale0"

    def schema(self) -> str:
        from scale0_pipeline.source import events, live

        return live.schema_of(self.options) if _is_live(self.options) else events.schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        if _is_live(self.options):
            from scale0_pipeline.source.live import LiveReader

            return LiveReader(self.options, schema)
        from scale0_pipeline.source.events import EventsReader

        return EventsReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if _is_live(self.options):
            raise PipelineError("a live table is what is now, and no stream", "read it with spark.read, each time anew")
        from scale0_pipeline.source.stream import EventsStreamReader

        return EventsStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from scale0_pipeline.source.writer import TaskWriter

        if overwrite:
            raise PipelineError("tasks cannot be overwritten", 'say: .mode("append")')
        return TaskWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from scale0_pipeline.source.writer import TaskStreamWriter

        return TaskStreamWriter(self.options, schema)


def _is_live(options: Mapping[str, str]) -> bool:
    return "broker" in options or "table" in options
