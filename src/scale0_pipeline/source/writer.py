"""Rows as tasks: `df.write.format("scale0")` and `df.writeStream.format("scale0")`.

Each row is a task for one service; its result is not kept, and a write is done when every task has ended. What makes
this safe under Spark's retries is told in `scale0_pipeline.calls.asking`. Of a stream, a batch that is run again after
a restart asks under the same ids, too, for they are made of the query's id, which is in its checkpoint.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from scale0.errors import Scale0Error
from scale0_pipeline.calls.asking import Asker, Order, work_of
from scale0_pipeline.calls.call import IN_FLIGHT
from scale0_pipeline.calls.terms import check_repeatable
from scale0_pipeline.errors import PipelineError
from scale0_pipeline.source import options as told

TIMEOUT_S: Final = 60.0

_log = logging.getLogger("scale0.pipeline")


@dataclass
class Done(WriterCommitMessage):
    """What became of one partition."""

    tasks: int = 0
    failed: int = 0
    first_error: str = ""


class _Tasks:
    """What both writers do: read the options, ask the service, sum up."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        told.check(options, told.WRITING)
        service = told.need(options, "service", "resize")
        names = schema.fieldNames()
        self.order = Order(
            service=service,
            brokers=tuple(told.need(options, "broker", "tcp://127.0.0.1:5555").split(",")),
            label=f"{service}/{hashlib.blake2b(schema.json().encode(), digest_size=8).hexdigest()}",
            run=secrets.token_hex(8),
            in_flight=told.whole(options, "in_flight", IN_FLIGHT),
            timeout_s=told.seconds(options, "timeout", TIMEOUT_S),
            allow_repeats=told.choice(options, "allow_repeats", "false", "true") == "true",
        )
        self.is_json = told.choice(options, "encoding", "arguments", "json") == "json"
        self.must_fail = told.choice(options, "errors", "fail", "ignore") == "fail"
        if not names:
            raise PipelineError("there is no column to send", "select at least one")
        if not self.order.allow_repeats:
            check_repeatable(self.order.brokers, service)

    def send(self, batches: Iterable[Any]) -> Done:
        done = Done()
        with Asker(self.order, work_of(self.order, TaskContext.get())) as asker:
            for batch in batches:
                for answer in asker.ask(list(self._rows(batch))):
                    done.tasks += 1
                    if isinstance(answer, Scale0Error):
                        if self.must_fail:
                            raise answer
                        done.failed += 1
                        done.first_error = done.first_error or str(answer)
        return done

    def _rows(self, batch: Any) -> Iterator[tuple[Any, ...]]:
        """The arguments of each task."""
        if self.is_json:
            return ((msgspec.json.encode(row),) for row in batch.to_pylist())
        return zip(*(column.to_pylist() for column in batch.columns), strict=True)


class TaskWriter(_Tasks, DataSourceArrowWriter):
    """`df.write`."""

    def write(self, iterator: Iterator[Any]) -> Done:
        return self.send(iterator)

    def commit(self, messages: list[Any]) -> None:
        tell(self.order.service, messages)

    def abort(self, messages: list[Any]) -> None:
        """What was sent cannot be taken back; the error says what went wrong."""


class TaskStreamWriter(_Tasks, DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def write(self, iterator: Iterator[Any]) -> Done:
        return self.send(iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        tell(self.order.service, messages)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """What was sent cannot be taken back; the batch is run again under the same ids."""


def tell(service: str, messages: list[Any]) -> None:
    """Failed tasks that were to be ignored are in the log."""
    failed = [done for done in messages if isinstance(done, Done) and done.failed]
    if failed:
        count = sum(done.failed for done in failed)
        _log.warning("%s: %s tasks failed, the first with: %s", service, f"{count:,}", failed[0].first_error)
