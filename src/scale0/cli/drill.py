"""`scale0 drill`: break something on purpose, on a real network, and account for every task.

    before     the load runs, and must be well: what is broken already tells nothing
    fault      a process is killed or paused, or two brokers hear nothing of one another
    during     until everything is replied to again; what can be mended is, when its time is over
    after      a little longer, to see that it stays so

Then the load ends, what is open is waited for, and the ledger is drawn up. Whatever ends the drill early (a condition
of `--abort-if`, Ctrl-C, an error), the fault is mended first and the load stops.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from scale0.cli import drill_report, listings
from scale0.cli.drill_faults import Fault
from scale0.cli.drill_ledger import Ledger
from scale0.cli.drill_load import Ask, Load, Workers
from scale0.cli.drill_plan import SERVING, Plan, Survey, Watch, own_worker
from scale0.cli.drill_report import Report
from scale0.cli.drill_words import Condition
from scale0.core.open_tasks import GRACE_S
from scale0.errors import Scale0Error, UsageError

FRAME_S: Final = 0.1  # how often it is looked whether anything has happened
LOOK_S: Final = 0.1  # between two looks at what the brokers have noticed: as exact as that moment is known
READY_S: Final = 30.0  # the longest wait for the drill's own workers, and for the first reply
SETTLE_MARGIN_S: Final = 2.0
ILL_SHARE: Final = 0.05  # of the tasks before the fault: with more errors than that, nothing is struck
TASKS_MAX: Final = 1_000_000  # of one drill; each is kept in the ledger


class Terms(msgspec.Struct, frozen=True):
    """How a drill runs."""

    ask: Ask
    before_s: float = 3.0
    after_s: float = 3.0
    limit_s: float = 60.0  # for recovery, once what can be mended is
    conditions: Sequence[Condition] = ()
    workers: int = 2
    work_s: float = 0.05
    is_idempotent: bool = True

    def check(self, lasts_s: float) -> None:
        longest_s = self.before_s + lasts_s + self.limit_s + self.after_s
        if self.ask.rate_per_s * longest_s > TASKS_MAX:
            text = f"{self.ask.rate_per_s:g}/s for up to {longest_s:g} s are more than {TASKS_MAX:,} tasks"
            raise UsageError(f"{text}\nlower --rate, or the times")


class Moment(msgspec.Struct, frozen=True):
    """What is shown while it runs."""

    phase: str
    elapsed_s: float
    since_fault_s: float | None
    ledger: Ledger
    noticed_s: float | None


Show = Callable[[Moment], None]


class Drill:
    """One run. `show` gets each moment, ten times a second."""

    def __init__(
        self, survey: Survey, plan: Plan, terms: Terms, make_fault: Callable[[Plan], Fault], show: Show
    ) -> None:
        self.plan = plan
        self._survey = survey
        self._terms = terms
        self._make_fault = make_fault
        self._show = show
        self._ledger = Ledger(terms.ask.rate_per_s)
        self._began_s = time.monotonic()
        self._mended_s: float | None = None
        self._aborted_by = ""
        self._was_struck = False
        self._lookout: Lookout | None = None

    def run(self) -> Report:
        """From the first worker to the last outcome."""
        from scale0.client import Client

        with Workers() as workers:
            if self._terms.ask.has_echo:
                self._start_workers(workers)
            with Client(self.plan.addresses, timeout=self._terms.ask.timeout_s, retry_forever=True) as client:
                client.connect()
                load = Load(client, self._terms.ask, self._ledger, self._survey.names())
                with contextlib.suppress(KeyboardInterrupt):
                    self._run_with(load)
                self._settle(load)
            if load.error is not None:
                raise load.error
        return self._report()

    # --- the phases -----------------------------------------------------------------------------------------------

    def _run_with(self, load: Load) -> None:
        fault = self._make_fault(self.plan)
        self._terms.check(fault.lasts_s or 0.0)
        try:
            load.start()
            self._before(load)
            with self._looking():
                self._strike(fault)
                self._during(fault, load)
        except KeyboardInterrupt:
            self._aborted_by = "interrupted"
            raise
        finally:
            self._mend(fault)
            load.stop()

    def _before(self, load: Load) -> None:
        if not self._ledger.wait_until_replied(READY_S):
            raise Scale0Error(f"no reply within {READY_S:g} s, before any fault\nwho serves: scale0 services")
        end_s = time.monotonic() + self._terms.before_s
        while time.monotonic() < end_s:
            self._frame("before", load)
        kinds = [entry.is_good for entry in self._ledger.entries() if entry.outcome is not None]
        if kinds.count(False) > ILL_SHARE * len(kinds):
            bad = f"{kinds.count(False):,} of {len(kinds):,} tasks failed before any fault"
            raise Scale0Error(f"{bad}: nothing was struck\nwhat is wrong: scale0 network; scale0 services")

    def _strike(self, fault: Fault) -> None:
        assert self._lookout is not None, "somebody looks out before it strikes"
        now = time.monotonic()
        self._ledger.strike(now)
        fault.strike()
        self._was_struck = True
        self._lookout.begin()

    def _during(self, fault: Fault, load: Load) -> None:
        """Until it has recovered and stayed so, a condition is met, or the time is over."""
        terms, struck_s = self._terms, self._ledger.struck_s
        mend_at_s = struck_s + (fault.lasts_s or 0.0)
        while True:
            now = time.monotonic()
            if self._mended_s is None and fault.lasts_s is not None and now >= mend_at_s:
                self._mend(fault)
            self._ledger.look(now)
            recovered_s = self._ledger.recovered_s
            is_lasting = fault.lasts_s is not None and self._mended_s is None
            if recovered_s is not None and not is_lasting and now >= max(recovered_s, mend_at_s) + terms.after_s:
                return
            if recovered_s is None and now >= mend_at_s + terms.limit_s:
                return
            figures = self._ledger.figures(now)
            met = next((condition for condition in terms.conditions if condition.is_met(figures)), None)
            if met is not None:
                self._aborted_by = met.text
                return
            self._frame("during" if recovered_s is None else "after", load)

    def _mend(self, fault: Fault) -> None:
        if self._was_struck and fault.lasts_s is not None and self._mended_s is None:
            self._mended_s = time.monotonic()
        fault.mend()

    def _settle(self, load: Load) -> None:
        """What is open has its deadline and the client's grace; what has no outcome then is lost."""
        load.stop()
        with contextlib.suppress(KeyboardInterrupt):
            self._ledger.wait_until_settled(self._terms.ask.timeout_s + GRACE_S + SETTLE_MARGIN_S)

    def _frame(self, phase: str, load: Load) -> None:
        now = time.monotonic()
        if load.error is not None:
            raise load.error
        since_s = now - self._ledger.struck_s if self._was_struck else None
        noticed_s = self._lookout.noticed_s if self._lookout is not None else None
        self._show(Moment(phase, now - self._began_s, since_s, self._ledger, noticed_s))
        time.sleep(FRAME_S)

    # --- who takes part -------------------------------------------------------------------------------------------

    def _start_workers(self, workers: Workers) -> None:
        """The drill's own workers, and which of them it will be."""
        terms = self._terms
        workers.start(terms.workers, self.plan.addresses, terms.work_s, is_idempotent=terms.is_idempotent)
        ready = self._wait_for(workers)
        if not self.plan.victim:
            name = workers.names[0]
            self.plan = own_worker(self.plan, self._survey, name, ready[name], workers.process_of(name))

    def _wait_for(self, workers: Workers) -> dict[str, str]:
        """Each worker's broker, once all of them serve."""
        from scale0.client import Client

        end_s = time.monotonic() + READY_S
        with Client(self.plan.addresses, timeout=READY_S) as client:
            while time.monotonic() < end_s:
                rows = listings.parse(client.call("scale0.network_workers", returns=bytes)).rows
                ready = {str(row["identity"]): str(row["broker"]) for row in rows if row.get("state") in SERVING}
                if all(name in ready for name in workers.names):
                    return ready
                time.sleep(LOOK_S)
        raise Scale0Error(f"the drill's own workers were not ready within {READY_S:g} s\n{workers.last_words()}")

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        self._lookout = Lookout(self.plan.watch)
        try:
            yield
        finally:
            self._lookout.stop()

    def _report(self) -> Report:
        lookout = self._lookout
        return drill_report.make(
            self._ledger,
            drill=self.plan.kind,
            victim=self.plan.victim,
            noticed_s=lookout.noticed_s if lookout is not None else None,
            noticed_by=self.plan.watch.by,
            mended_s=self._mended_s,
            aborted_by=self._aborted_by,
            was_struck=self._was_struck,
        )


class Lookout:
    """Asks a broker again and again whether it has noticed the fault, in a thread of its own."""

    def __init__(self, watch: Watch) -> None:
        self.noticed_s: float | None = None
        self._watch = watch
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drill-lookout", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        from scale0.client import Client

        with Client(self._watch.addresses, timeout=LOOK_S * 10, retry_forever=True) as client:
            while self.noticed_s is None and not self._stopping.wait(LOOK_S):
                with contextlib.suppress(Scale0Error):
                    self._look(client)

    def _look(self, client: Any) -> None:
        rows = listings.parse(client.call(f"scale0.{self._watch.listing}", returns=bytes)).rows
        if self._watch.is_noticed(rows):
            self.noticed_s = time.monotonic()
