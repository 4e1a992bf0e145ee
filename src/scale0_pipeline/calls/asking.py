"""On an executor: the rows of one partition are asked of a service, many at a time, and safely under Spark's retries.

Spark runs a task again when its executor is lost, or when anything in its stage fails. The second run must not do the
work a second time. So a partition is a piece of work with a name: of the query and its batch, or of the call and its
stage, and the partition's number; all attempts have the same. Under that name the same row has the same task id
(`scale0.core.repeatable_session`), and the broker answers what it has settled, and goes on with what is under way.

A broker keeps such outcomes within limits. Of a large partition those of the first `TASKS_MAX` rows and of the rows
that are being asked are left at the broker; what is between is run again, and so is what a broker does not hold, for it
was restarted, or the retry came to another one. That is why services must be idempotent, unless repeats are allowed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from pyspark import TaskContext

from scale0.client.repeatable import TASKS_MAX, RepeatableClient
from scale0.errors import Scale0Error, SessionRefused, TaskError, Unreachable

QUERY: Final = "sql.streaming.queryId"  # Spark tells tasks of a stream which query they are of, and
BATCH: Final = "streaming.sql.batchId"  # which of its batches
USAGE: Final = 400  # the code of an error that was found before anything was sent
CONNECT_S: Final = 10.0


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked, of whom, and how. It travels to the executors."""

    service: str
    brokers: tuple[str, ...]
    label: str  # what distinguishes this call from others of the same query, also after a restart
    run: str  # of this call alone, whatever else runs
    in_flight: int = 64
    timeout_s: float = 60.0
    allow_repeats: bool = False


class Work(msgspec.Struct, frozen=True):
    """A partition's name, the same for all attempts; and whether an earlier attempt may have asked."""

    name: str
    partition: int
    is_later: bool


def work_of(order: Order, context: TaskContext | None) -> Work:
    """The name of the piece of work that this task of Spark's is."""
    if context is None:  # not in a task: somebody tries it out
        return Work(f"{order.run}/0", 0, False)
    query, batch = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
    partition = context.partitionId()
    if query and batch is not None:
        # A batch that is run again after a restart is not told from one that is run for the first time.
        return Work(f"{order.label}/{query}/{batch}/{partition}", partition, True)
    return Work(f"{order.run}/{context.stageId()}/{partition}", partition, context.attemptNumber() > 0)


class Asker:
    """Asks the rows of one partition, over one session after another, each with at most `TASKS_MAX` rows."""

    def __init__(self, order: Order, work: Work) -> None:
        self._order = order
        self._work = work
        self._client: RepeatableClient | None = None
        self._sessions = 0
        self._room = 0

    def ask(self, rows: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """The results, in order; a task's error stands in its place. Raises `Unreachable`: then Spark tries again."""
        start = 0
        while start < len(rows):
            client = self._connected()
            some = rows[start : start + self._room]
            start += len(some)
            self._room -= len(some)
            for result in client.map_rows(self._order.service, some, in_flight=self._order.in_flight):
                if isinstance(result, Unreachable):
                    raise result
                yield result

    def _connected(self) -> RepeatableClient:
        if self._client is not None and self._room:
            return self._client
        if self._client is not None and self._sessions > 1:
            self._client.finish()
        elif self._client is not None:
            self._client.close()
        self._sessions += 1
        self._room = TASKS_MAX
        name = f"{self._work.name}/{self._sessions}"
        digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
        self._client = RepeatableClient(
            self._order.brokers,
            identity=f"spark-{digest}-{self._work.partition}",
            work=name,
            is_later=self._work.is_later and not self._order.allow_repeats,
            timeout=self._order.timeout_s,
            connect_timeout=CONNECT_S,
        )
        return self._client.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close()


def code_and_text(error: Scale0Error) -> tuple[int, str]:
    """An error as a row shows it: codes are stable, texts may improve."""
    if isinstance(error, TaskError | SessionRefused):
        return error.code, str(error).removeprefix(f"{error.code} ")
    return USAGE, str(error)
