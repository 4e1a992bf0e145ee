"""`scale0 demo`: the whole product in twenty seconds, on this machine, with real processes.

Two brokers in a group, six workers of three services, half of them at each broker, and a client's load at the first.
A worker is killed in mid-work, whose tasks others take over; then one whose task cannot be repeated; then the second
broker, whose workers go to the first. All are started again. At the end the books are balanced: see `demo_books.py`.
Both brokers record all the while, and Spark makes a report of it: see `demo_record.py`. The first one has a page for
operators: see `demo_page.py`. The exit code says whether all of it went well.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group
from rich.live import Live

from scale0.cli import demo_books, demo_page, demo_record, demo_view, listings, render
from scale0.cli.demo_load import KINDS, QUESTIONS, TASK_TIMEOUT_S, Ledger, Load
from scale0.cli.demo_processes import BROKERS, DemoFailed, Processes
from scale0.cli.demo_view import Snapshot
from scale0.cli.failures import Exit
from scale0.cli.render import Page
from scale0.cli.views import Row, count

WORKERS_PER_SERVICE = len(BROKERS)
RESTART_AFTER_S = 2.5
SECONDS_MIN = 6.0
FRAME_S = 0.25
READY_LIMIT_S = 30.0


def run(seconds: float, report: Path | None, page: Page, *, is_staying: bool = False) -> Exit:
    """Show the demo, write its report, and return whether the books balanced."""
    with Processes(is_recording=report is not None) as processes:
        page.line("starting two brokers, six workers and a client …")
        endpoint = processes.start_broker(BROKERS[0], is_managed=True)
        other = processes.start_broker(BROKERS[1], join=endpoint)
        for kind in KINDS:
            for number, near in enumerate((endpoint, other), 1):
                processes.start_worker(kind.service, near, f"{kind.service}-{number}")
        url = demo_page.find(processes.log_of(BROKERS[0]))
        page.line(f"Page: {url}   (good for one login within 5 minutes)" if url else "The page is not up.")
        from scale0.client import Client

        with Client(endpoint, identity="demo-client") as client:
            demo = Demo(processes, [endpoint, other], client, max(seconds, SECONDS_MIN), page)
            books = demo.run()
            page.line()
            page.lines(demo_books.draw(books))
            if is_staying:
                demo_page.stay(processes, client, demo.ledger, url, page)
        codes = processes.end_all()
        unclean = [f"{name} ended with {code}" for name, code in codes.items() if code]
        if unclean:
            page.line(render.verdict("bad", "; ".join(unclean)))
        else:
            page.line(f"Ended cleanly: {count(len(codes), 'process', 'processes')}.")
        is_told = True
        if report is not None:
            page.line()
            is_told = demo_record.tell(processes.directory, BROKERS, report, demo.ledger.tasks, page)
            page.line()
        page.line("Next: scale0 broker   and, beside it, scale0 worker examples.greet:worker")
        return Exit.GOOD if books.are_balanced and not unclean and is_told else Exit.BAD_ANSWER


class Death(msgspec.Struct):
    """The end of a worker, or of a broker, at its share of the time, and what follows from it."""

    service: str
    share: float
    consequence: str
    victim: str = ""
    killed_s: float = 0.0
    is_back: bool = False

    @property
    def is_lasting(self) -> bool:
        return bool(self.victim) and not self.is_back


class Demo:
    """One run: load, pictures, three deaths, and the sum."""

    def __init__(self, processes: Processes, endpoints: list[str], client: Any, seconds: float, page: Page) -> None:
        self._processes = processes
        self._endpoints = endpoints
        self._client = client
        self._seconds = seconds
        self._page = page
        self.ledger = Ledger()
        self._events: list[tuple[float, str, str]] = []
        self._trends: dict[str, list[float]] = {kind.service: [] for kind in KINDS}
        self._services: list[Row] = []
        self._workers: list[Row] = []
        self._brokers: list[Row] = []
        self._began_s = time.monotonic()
        self._deaths = [
            Death("render", 0.2, "render is idempotent: others take over"),
            Death("resize", 0.35, "resize is not idempotent: its caller is told, by 502"),
        ]
        self._broker_death = Death("", 0.5, "find the other broker")

    def run(self) -> demo_books.Books:
        self._wait_for_workers()
        self._began_s = time.monotonic()
        load = Load(self._client, self.ledger)
        load.start()
        try:
            self._show()
        finally:
            load.stop()
        if load.error is not None:
            raise load.error
        self.ledger.wait_until_settled(TASK_TIMEOUT_S + 5.0)
        if not self._deaths[0].victim:
            raise DemoFailed("no worker was killed: none of them was ever seen at work")
        self._wait_for_workers()  # those that were killed are back
        # The broker enters a question into its books once it has answered: this last one is in neither sum.
        submitted, replied, errors, wrong = self.ledger.totals()
        return demo_books.balance(submitted, replied, errors, wrong, self._ask("brokers")[0])

    # --- while it runs --------------------------------------------------------------------------------------------

    def _show(self) -> None:
        with self._screen() as show:
            deaths = [*self._deaths, self._broker_death]
            while self._elapsed_s() < self._seconds or any(death.is_lasting for death in deaths):
                frame_ends_s = time.monotonic() + FRAME_S
                self._services, self._workers = self._ask("services"), self._ask("workers")
                self._brokers = self._ask("network")
                self._direct()
                show(self._snapshot())
                time.sleep(max(0.0, frame_ends_s - time.monotonic()))

    @contextlib.contextmanager
    def _screen(self) -> Iterator[Any]:
        """Something that shows snapshots: drawn in place in a terminal, else a line a second."""
        page = self._page
        if not page.can_redraw:
            yield _PlainScreen(page)
            return
        with Live(console=page.console, auto_refresh=False, transient=False) as live:

            def show(snapshot: Snapshot) -> None:
                lines = demo_view.draw(snapshot, page.console.width)
                live.update(Group(*(page.plain(line) for line in lines)), refresh=True)

            yield show

    def _direct(self) -> None:
        """The story: two deaths in mid-work, each followed by a return a little later."""
        if fallen := self._processes.fallen():
            raise DemoFailed(f"{fallen[0]} ended by itself\n{self._processes.last_words(fallen[0])}")
        elapsed_s = self._elapsed_s()
        for death in self._deaths:
            if not death.victim and death.share * self._seconds <= elapsed_s < self._seconds:
                self._kill_in_mid_work(death)
            elif death.is_lasting and elapsed_s >= death.killed_s + RESTART_AFTER_S:
                death.is_back = True
                self._processes.start_worker(death.service, self._endpoints[0], death.victim)
                self._tell("ok", f"{death.victim} started again")
        self._direct_broker(self._broker_death, elapsed_s)

    def _direct_broker(self, death: Death, elapsed_s: float) -> None:
        """The second broker dies while tasks of the first one run at its workers, and comes back where it was."""
        if not death.victim and elapsed_s >= death.share * self._seconds:
            death.victim, death.killed_s = BROKERS[1], elapsed_s
            here = next((row for row in self._brokers if row["identity"] == death.victim), {})
            self._processes.kill(death.victim)
            passed_on, workers = count(here.get("forwarded") or 0, "forwarded task"), here.get("workers") or 0
            how = f"broker {death.victim} killed (SIGKILL) after {passed_on}"
            self._tell("bad", f"{how}; its {count(workers, 'worker')} {death.consequence}")
        elif death.is_lasting and elapsed_s >= death.killed_s + RESTART_AFTER_S:
            death.is_back = True
            self._processes.start_broker(death.victim, bind=self._endpoints[1], join=self._endpoints[0])
            self._tell("ok", f"broker {death.victim} started again: its workers go home")

    def _kill_in_mid_work(self, death: Death) -> None:
        """Pause a worker and look: with a task in hand it is killed, else it goes on until the next frame."""
        near = [str(row["identity"]) for row in self._workers]  # of the broker that can be asked how busy they are
        for identity in sorted(name for name in near if name.startswith(f"{death.service}-")):
            if identity not in self._processes.names():
                continue
            self._processes.pause(identity)
            in_hand = sum(row["busy"] for row in self._ask("workers") if row["identity"] == identity)
            if not in_hand:
                self._processes.resume(identity)
                continue
            self._processes.kill(identity)
            death.victim, death.killed_s = identity, self._elapsed_s()
            self._tell("bad", f"{identity} killed (SIGKILL) with {count(in_hand, 'task')} in hand; {death.consequence}")
            return

    def _tell(self, fill: str, what: str) -> None:
        self._events.append((self._elapsed_s(), fill, what))

    def _snapshot(self) -> Snapshot:
        elapsed_s = self._elapsed_s()
        figures = {kind.service: self.ledger.figures(kind.service, elapsed_s) for kind in KINDS}
        for service, figure in figures.items():
            self._trends[service].append(figure.tasks_per_s)
        submitted, replied, errors, _wrong = self.ledger.totals()
        return Snapshot(
            elapsed_s,
            self._seconds,
            self._endpoints[0],
            figures,
            self._services,
            self._workers,
            self._brokers,
            self._trends,
            self._events,
            (submitted, replied, errors.total(), submitted - replied - errors.total()),
        )

    # --- the broker's word ----------------------------------------------------------------------------------------

    def _wait_for_workers(self) -> None:
        wanted = WORKERS_PER_SERVICE * len(KINDS)
        deadline_s = time.monotonic() + READY_LIMIT_S
        while len([row for row in self._ask("network_workers") if row.get("state") in ("ready", "full")]) < wanted:
            if fallen := self._processes.fallen():
                raise DemoFailed(f"{fallen[0]} did not start\n{self._processes.last_words(fallen[0])}")
            if time.monotonic() > deadline_s:
                raise DemoFailed(f"not all of {wanted} workers were ready after {READY_LIMIT_S:.0f} s")
            time.sleep(0.05)

    def _ask(self, name: str) -> list[Row]:
        began_s = time.monotonic()
        self.ledger.submit(QUESTIONS)
        document = self._client.call(f"scale0.{name}", returns=bytes, timeout=5.0)
        self.ledger.settle(QUESTIONS, None, time.monotonic() - began_s, is_right=True)
        return listings.parse(document).rows

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s


class _PlainScreen:
    """Prints each new event at once and the figures each second."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._shown = 0
        self._next_s = 1.0

    def __call__(self, snapshot: Snapshot) -> None:
        for event in snapshot.events[self._shown :]:
            self._page.line(demo_view.draw_event(event))
        self._shown = len(snapshot.events)
        if snapshot.elapsed_s >= self._next_s:
            self._next_s = snapshot.elapsed_s + 1.0
            self._page.line(demo_view.draw_plain(snapshot))
