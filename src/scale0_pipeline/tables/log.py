"""The log of batches: each plan, added before any table is touched; a Delta table at `pipeline/batches`.

Adding a plan is the one decision of a batch. Delta's commit makes it, on every store, a thing that exactly one writer
can do: the commit fails if another came first, and before it the fence and the last batch's number are checked on the
same version. So no number has two plans, and a writer whose lease was taken adds none. Spark's checkpoint may be lost,
old or ahead; where the pipeline stands is what the last plan says.

What is covered is told in full by every 64th plan and for the boots that it touched by every other: whoever starts
reads at most 64 plans, however long the history is.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from scale0.telemetry.catalogue import Position
from scale0.telemetry.place import Place
from scale0_pipeline.errors import LeaseLost, PipelineError
from scale0_pipeline.tables.covered import Covered
from scale0_pipeline.tables.delta import COMMIT_TRIES_MAX, create, fence_app
from scale0_pipeline.tables.plans import WHOLE_EVERY, Plan

PLANS: Final = "plans"  # the application id of plans
GOOD_BYTES: Final = 4 * 1024**2  # a file of this size is not merged
PIPELINE: Final = "pipeline"  # the stream's lease
SCHEMA: Final = pa.schema(
    [("batch", pa.int64()), ("fence", pa.int64()), ("made_us", pa.int64()), ("rows", pa.int64()), ("plan", pa.string())]
)


class State(msgspec.Struct):
    """Where the pipeline stands after its last plan."""

    batch: int
    position: Position
    covered: Covered


class BatchLog:
    """The plans of a data place."""

    def __init__(self, place: Place) -> None:
        self.uri = place.uri("pipeline", "batches")
        self._delta: DeltaTable | None = None
        self._state: State | None = None

    def last(self) -> int:
        """The number of the last plan; 0 if there is none."""
        delta = self._open()
        return (delta.transaction_version(PLANS) or 0) if delta is not None else 0

    def state(self) -> State:
        """What the last plan left behind. Read once; `add` keeps it."""
        last = self.last()
        if self._state is None or self._state.batch != last:
            covered, position = Covered(), Position()
            for plan in self.plans(last - last % WHOLE_EVERY, last):
                covered.update(plan.covered)
                position = plan.position
            self._state = State(last, position, covered)
        return self._state

    def plans(self, lo: int, hi: int) -> list[Plan]:
        """The plans from number `lo` to number `hi`, in order."""
        delta = self._open()
        if delta is None or lo > hi:
            return []
        rows = delta.to_pyarrow_table(columns=["plan"], filters=[("batch", ">=", lo), ("batch", "<=", hi)])
        plans = [msgspec.json.decode(text, type=Plan) for text in rows["plan"].to_pylist()]
        return sorted(plans, key=lambda plan: plan.batch)

    def add(self, plan: Plan) -> None:
        """Decide a batch. Raises LeaseLost if another writer may do that now, and this one no more."""
        state = self.state()
        row = pa.table([[plan.batch], [plan.fence], [plan.made_us], [plan.rows], [_text(plan)]], schema=SCHEMA)
        for _ in range(COMMIT_TRIES_MAX):
            delta = self._ready()
            # A writer whose lease was taken by another one decides nothing more.
            if (delta.transaction_version(fence_app(PIPELINE)) or 0) > plan.fence:
                raise LeaseLost("another pipeline has taken the lease", "this one ends; its work is done by the other")
            # Batches have no holes, and no number has two plans.
            if (delta.transaction_version(PLANS) or 0) != plan.batch - 1:
                raise LeaseLost(f"batch {plan.batch} was planned by another pipeline", "start this one again")
            properties = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(PLANS, plan.batch)])
            try:
                write_deltalake(delta, row, mode="append", commit_properties=properties)
            except CommitFailedError:
                continue
            covered = Covered(plan.covered) if plan.is_whole else state.covered
            covered.update(plan.covered)
            self._state = State(plan.batch, plan.position, covered)
            return
        raise PipelineError("the log of batches is busy", "look who else writes pipeline/batches")

    def fence(self, lease: str) -> int:
        """The highest fence that was ever given out for a lease."""
        delta = self._open()
        return (delta.transaction_version(fence_app(lease)) or 0) if delta is not None else 0

    def raise_fence(self, lease: str, fence: int) -> bool:
        """Give out the next fence of a lease; False if another was quicker."""
        for _ in range(COMMIT_TRIES_MAX):
            delta = self._ready()
            if (delta.transaction_version(fence_app(lease)) or 0) != fence - 1:
                return False
            properties = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(fence_app(lease), fence)])
            try:
                delta.create_write_transaction([], "append", delta.schema(), [], commit_properties=properties)
            except CommitFailedError:
                continue
            return True
        return False

    def compact(self) -> None:
        """Few files instead of one a batch. The rows stay."""
        delta = self._open()
        if delta is None:
            return
        sizes = pa.table(delta.get_add_actions(flatten=True))["size_bytes"].to_pylist()
        if sum(size < GOOD_BYTES for size in sizes) > WHOLE_EVERY:
            delta.optimize.compact(target_size=GOOD_BYTES)

    def _open(self) -> DeltaTable | None:
        try:
            if self._delta is None:
                self._delta = DeltaTable(self.uri)
            else:
                self._delta.update_incremental()
        except TableNotFoundError:
            self._delta = None
        return self._delta

    def _ready(self) -> DeltaTable:
        delta = self._open()
        if delta is None:
            create(self.uri, SCHEMA, [])
            delta = self._open()
            assert delta is not None
        return delta


def _text(plan: Plan) -> Any:
    return msgspec.json.encode(plan).decode()
