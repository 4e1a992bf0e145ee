"""A table that any Delta reader reads, and that gets each batch exactly once.

Spark writes Parquet files under new names; nobody counts them until one commit to the table's log says so, and that
is the only thing that a reader ever sees happen. The commit also stores who made it, as Delta's transaction ids: the
number of the last batch, and the fence of the writer's lease. Both are checked on the very version that the commit
replaces, and the commit fails if another came first. So a batch that is there is not added again, a writer that was
taken for dead adds nothing any more, and files to be removed are those that count at that moment.

The log is the truth. Files without a commit are orphans of attempts that failed; `compaction` sweeps them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import msgspec
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from scale0.telemetry.place import Place
from scale0_pipeline.errors import LeaseLost, PipelineError
from scale0_pipeline.tables.files import (
    DAY,
    DataFile,
    add_action,
    files_in,
    find_written,
    new_directory,
    remove_action,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM: Final = "scale0"  # the application id of the stream's batches
COMMIT_TRIES_MAX: Final = 100  # others' commits that may come before ours
CONFIGURATION: Final = {
    "delta.checkpointInterval": "32",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.logRetentionDuration": "interval 1 days",
}
SUMS: Final = (
    *("latency_us", "queue_us", "worker_us", "network_us", "work_us", "wait_us"),
    *("max_latency_us", "request_bytes", "reply_bytes"),
)
"""Columns of which hardly two rows are alike: a dictionary of them costs a fourth of all writing, and room."""
WRITE_OPTIONS: Final = {
    "compression": "zstd",
    "parquet.compression.codec.zstd.level": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    **{f"parquet.enable.dictionary#{name}": "false" for name in SUMS},
}

OPEN_FILES: Final = "spark.sql.maxConcurrentOutputFileWriters"
OPEN_FILES_MAX: Final = "8"  # days that a task writes side by side; rows of more days are sorted first, which is slow

FEW_ROWS: Final = 500_000
"""So many rows are read by one task: to begin another one takes longer than it would save."""

Choice = Callable[[list[DataFile]], list[DataFile]]
"""Of the files that count now, those that a commit removes."""


class Stamp(msgspec.Struct, frozen=True):
    """Who commits: batch `version` of the application `app`, under this fence of the lease `lease`."""

    app: str
    version: int
    lease: str = ""
    fence: int = 0
    metadata: dict[str, Any] = {}


class Written(msgspec.Struct, frozen=True):
    """What a job has written, before anybody counts it. `schema` is the table's, as Spark and Delta both spell it."""

    files: list[DataFile]
    schema: str


class Table:
    """One Delta table of a data place, such as `facts/minute`."""

    def __init__(self, place: Place, name: str, *, root: str = "tables", is_by_day: bool = True) -> None:
        self.place = place
        self.name = name
        self.path = f"{root}/{name}"
        self.uri = place.uri(self.path)
        self.is_by_day = is_by_day
        self._delta: DeltaTable | None = None
        self._lock = threading.RLock()  # of `_delta`, which several threads may ask

    # --- reading

    def delta(self) -> DeltaTable | None:
        """The table as it is now, or None if it was never written."""
        try:
            if self._delta is None:
                self._delta = DeltaTable(self.uri)
            else:
                self._delta.update_incremental()
        except TableNotFoundError:
            self._delta = None
        return self._delta

    def version(self, app: str = STREAM) -> int:
        """The last batch that the table has of this application; 0 if none."""
        with self._lock:
            delta = self.delta()
            return (delta.transaction_version(app) or 0) if delta is not None else 0

    def files(self, days: Iterable[date] | None = None) -> list[DataFile]:
        """The files that count now; with `days`, only those of these days."""
        with self._lock:
            delta = self.delta()
            found = files_in(delta.get_add_actions(flatten=True)) if delta is not None else []
        wanted = None if days is None or not self.is_by_day else set(days)
        return [file for file in found if wanted is None or file.day in wanted]

    def frame(self, spark: SparkSession, days: Iterable[date] | None = None) -> DataFrame:
        """The rows that count now, for Spark. `day` comes from the files' places."""
        return self.frame_of(spark, self.files(days))

    def frame_of(self, spark: SparkSession, files: list[DataFile]) -> DataFrame:
        """The rows of some of the table's files."""
        from pyspark.sql.types import StructType

        with self._lock:
            schema = StructType.fromJson(msgspec.json.decode(self._existing().schema().to_json()))
        if not files:
            return spark.createDataFrame([], schema)
        paths = [f"{self.uri}/{file.path}" for file in files]
        reader = spark.read.schema(schema).option("basePath", self.uri)
        rows = reader.parquet(*paths).select(*(f"`{name}`" for name in schema.names))
        return rows.coalesce(1) if sum(file.rows for file in files) <= FEW_ROWS else rows

    def arrow(self, columns: list[str] | None = None, filters: Any = None) -> Any:
        """The rows that count now, as a pyarrow table, without Spark."""
        with self._lock:
            return self._existing().to_pyarrow_table(columns=columns, filters=filters)

    def _existing(self) -> DeltaTable:
        delta = self.delta()
        if delta is None:
            raise PipelineError(f"there is no table {self.name} at {self.uri}", "run: scale0 pipeline run --once")
        return delta

    # --- writing

    def write(self, frame: DataFrame, batch_lo: int, batch_hi: int) -> Written:
        """Let Spark write the rows of some batches into files of their own. Nobody counts them yet."""
        directory = new_directory(batch_lo, batch_hi)
        frame.sparkSession.conf.set(OPEN_FILES, OPEN_FILES_MAX)
        writer = frame.write.options(**WRITE_OPTIONS)
        if self.is_by_day:
            writer = writer.partitionBy(DAY)
        writer.parquet(f"{self.uri}/{directory}")
        return Written(find_written(self.place, self.path, directory), nullable(frame.schema.json()))

    def append(self, written: Written, stamp: Stamp) -> bool:
        """Add what was written; False if the table has that batch already."""
        return self.commit(written, lambda files: [], stamp)

    def replace_days(
        self, written: Written, days: Iterable[date] | None, stamp: Stamp, *, is_repeatable: bool = False
    ) -> bool:
        """Put what was written in the place of all that these days hold; of None, in the place of everything.

        A day that was made from more batches than this is left alone: whoever made it knew more.
        """
        wanted = None if days is None or not self.is_by_day else set(days)

        def outdated(files: list[DataFile]) -> list[DataFile]:
            return [file for file in files if wanted is None or file.day in wanted]

        return self.commit(written, outdated, stamp, is_newest_kept=True, is_repeatable=is_repeatable)

    def commit(
        self,
        written: Written,
        choose: Choice,
        stamp: Stamp,
        *,
        is_change: bool = True,
        is_newest_kept: bool = False,
        is_repeatable: bool = False,
    ) -> bool:
        """Add files and remove those that `choose` names, in one step; False if that was done before.

        `choose` may raise to give up. `is_repeatable`: the stamp's version may be there already.
        """
        for _ in range(COMMIT_TRIES_MAX):
            with self._lock, contextlib.suppress(CommitFailedError):  # another commit came first: look again
                delta = self._ready(written.schema)
                known = delta.transaction_version(stamp.app) or 0
                # A batch that the table has is not added again.
                if known >= stamp.version and not is_repeatable:
                    return False
                self._check_fence(delta, stamp)
                removed, added = choose(files_in(delta.get_add_actions(flatten=True))), written.files
                if is_newest_kept:
                    removed, added = _without_newer_days(removed, added, stamp.version)
                actions: list[Any] = [remove_action(file, is_change=is_change) for file in removed]
                actions += [add_action(file, is_change=is_change) for file in added]
                self._commit(delta, actions, stamp, max(known, stamp.version))
                return True
        raise PipelineError(
            f"{COMMIT_TRIES_MAX} other commits came before ours to {self.name}", "look who else writes this table"
        )

    def _commit(self, delta: DeltaTable, actions: list[Any], stamp: Stamp, version: int) -> None:
        """One try, on exactly the version that was looked at."""
        transactions = [Transaction(stamp.app, version)]
        if stamp.lease:
            transactions.append(Transaction(fence_app(stamp.lease), stamp.fence))
        properties = CommitProperties(
            custom_metadata={"scale0": msgspec.json.encode(stamp.metadata).decode()} if stamp.metadata else None,
            max_commit_retries=0,
            app_transactions=transactions,
        )
        by = [DAY] if self.is_by_day else []
        delta.create_write_transaction(actions, "append", delta.schema(), by, commit_properties=properties)

    def _check_fence(self, delta: DeltaTable, stamp: Stamp) -> None:
        """A writer whose lease was taken by another one commits no more."""
        if stamp.lease and (delta.transaction_version(fence_app(stamp.lease)) or 0) > stamp.fence:
            raise LeaseLost(
                f"another pipeline has taken the lease; nothing was added to {self.name}",
                "this one ends; its work is done by the other",
            )

    def _ready(self, schema: str) -> DeltaTable:
        """The table, with at least these columns."""
        delta = self.delta()
        if delta is None:
            create(self.uri, Schema.from_json(schema), [DAY] if self.is_by_day else [])
            delta = self._existing()
        new = new_fields(delta.schema().to_json(), schema, self.name)
        if new:
            delta.alter.add_columns(new)
            delta = self._existing()
        return delta


def create(uri: str, schema: Any, partition_by: list[str]) -> None:
    """Make a table, unless it is there, or somebody makes it at the same moment."""
    with contextlib.suppress(CommitFailedError):
        DeltaTable.create(uri, schema, mode="ignore", partition_by=partition_by, configuration=CONFIGURATION)


def fence_app(lease: str) -> str:
    """The application id under which tables keep the fence of a lease."""
    return f"fence:{lease}"


def nullable(schema: str) -> str:
    """A schema in which everything may be null: a table may gain columns that older files do not have."""
    return msgspec.json.encode(_loosened(msgspec.json.decode(schema))).decode()


def _loosened(node: Any) -> Any:
    if isinstance(node, list):
        return [_loosened(one) for one in node]
    if not isinstance(node, dict):
        return node
    flags = ("nullable", "containsNull", "valueContainsNull")
    return {key: True if key in flags else _loosened(value) for key, value in node.items()}


def new_fields(known: str, wanted: str, table: str) -> list[Field]:
    """The columns that the table lacks. Types never change."""
    types: Mapping[str, Any] = {one["name"]: one["type"] for one in msgspec.json.decode(known)["fields"]}
    new = []
    for one in msgspec.json.decode(wanted)["fields"]:
        if one["name"] not in types:
            new.append(Field.from_json(msgspec.json.encode(one).decode()))
        elif types[one["name"]] != one["type"]:
            raise PipelineError(
                f"column {one['name']} of {table} is {types[one['name']]} and would become {one['type']}",
                "a column's type never changes: give what is new a new name",
            )
    return new


def _without_newer_days(
    removed: list[DataFile], added: list[DataFile], version: int
) -> tuple[list[DataFile], list[DataFile]]:
    newer = {file.day for file in removed if file.batch_hi > version}
    return [file for file in removed if file.day not in newer], [file for file in added if file.day not in newer]
