"""`scale0 top`: the page's overview in a terminal, alive; services above, workers or another listing below.

A thread of its own asks the broker about once a second, so that the screen never waits for the network, and a broker
that is slow to answer is asked less often: at most a quarter of the time is spent on asking. It only looks, unless it
was started with `--operate`; then `x` offers what can be done with the row under the cursor.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from scale0.cli import ctl_alarms, ctl_results, failures, render, top_actions, top_state
from scale0.cli.ctl_command import read_overview
from scale0.cli.ctl_doors import Answer, Door
from scale0.cli.failures import Exit
from scale0.cli.top_actions import Action
from scale0.cli.top_dialogs import Choice, Confirm, Detail, Help
from scale0.cli.top_state import Lines, Seen
from scale0.cli.top_style import SHEET, THEME
from scale0.cli.top_table import ListingTable
from scale0.cli.views import Row
from scale0.errors import Scale0Error, UsageError

INTERVAL_S: Final = 1.0
SHARE: Final = 4.0  # what an answer took, so many times over, passes before the next question
CLOCK_S: Final = 0.25
ALARMS_SHOWN: Final = 2
GO_S: Final = 1.5  # after `g`, for the letter


def while_shown(show: Callable[[Top], None]) -> Callable[[Top], None]:
    """What a timer or an answer still wants to show while the screen is taken down goes nowhere."""

    @functools.wraps(show)
    def shown(top: Top) -> None:
        with contextlib.suppress(NoMatches):
            show(top)

    return shown


class Heard(Message):
    """The broker answered, or did not."""

    def __init__(self, documents: dict[str, dict[str, Any]], error: str = "") -> None:
        super().__init__()
        self.documents, self.error = documents, error


class Done(Message):
    """A command came to its end."""

    def __init__(self, action: Action, answer: Answer | None, error: str = "") -> None:
        super().__init__()
        self.action, self.answer, self.error = action, answer, error


class Top(App[int]):
    """The screen."""

    CSS = SHEET
    ENABLE_COMMAND_PALETTE = False
    TITLE = "scale0 top"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "leave"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("e", "problems", "problems"),
        Binding("g", "go", "go to"),
        Binding("j", "down", "next", show=False),
        Binding("k", "up", "previous", show=False),
        Binding("y", "copy", "copy as command"),
        Binding("x", "act", "act"),
        Binding("question_mark", "help", "keys", key_display="?"),
        Binding("escape", "leave", show=False),
    ]

    def __init__(
        self,
        door: Door,
        *,
        is_operating: bool = False,
        filter_words: str = "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._door, self._is_operating, self._now_s = door, is_operating, now_s
        self.seen = Seen()
        self.below = "workers"
        self.words = filter_words
        self._go_until_s = 0.0
        self._ended = threading.Event()
        self._wanted = threading.Event()  # something else is to be shown: do not wait for the next second

    def compose(self) -> ComposeResult:
        with Horizontal(id="head"):
            yield Static("", id="verdict")
            yield Static("", id="clock")
        yield Static("", id="figures")
        yield Static("", id="alarms")
        yield Static("", id="banner")
        yield ListingTable("services", id="services")
        yield Input(placeholder="state:full svc:render* hb>3s is:problem", id="filter")
        yield ListingTable(self.below, id="below")
        yield Footer()

    def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = "scale0"
        self.query_one("#filter").display = False
        self.query_one("#below", ListingTable).focus_table()
        self.set_interval(CLOCK_S, self.show_clock)
        self.show_all()
        threading.Thread(target=self._ask_on, name="top", daemon=True).start()

    def on_unmount(self) -> None:
        self._ended.set()
        self._wanted.set()

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_tables)

    # --- asking, in a thread of its own ---------------------------------------------------------------------------

    def _ask_on(self) -> None:
        while not self._ended.is_set():
            self._wanted.clear()
            began_s = time.monotonic()
            message = self._ask()
            if self._ended.is_set():
                return
            self.post_message(message)
            took_s = time.monotonic() - began_s
            self._wanted.wait(max(INTERVAL_S - took_s, min(SHARE * took_s, top_state.AGEING_S - INTERVAL_S)))

    def _ask(self) -> Heard:
        names = dict.fromkeys(("overview", "services", self.below))
        try:
            return Heard({name: self._door.listing(name) for name in names})
        except (Scale0Error, OSError) as error:
            return Heard({}, " · ".join(failures.explain(error)[:2]))

    def on_heard(self, message: Heard) -> None:
        self.seen.error = message.error
        if message.documents:
            try:
                self.seen.overview = read_overview(message.documents["overview"])
            except Scale0Error as error:
                self.seen.overview, self.seen.error = None, str(error)
            self.seen.documents = message.documents
            self.seen.broker = message.documents["services"].get("broker") or {}
            self.seen.heard_s = self._now_s()
        self.show_all()

    # --- showing --------------------------------------------------------------------------------------------------

    @property
    def is_stale(self) -> bool:
        return top_state.condition(self.seen.age_s(self._now_s())) in {"stale", "waiting"}

    @while_shown
    def show_all(self) -> None:
        overview: Row = self.seen.overview or {}
        verdict = ctl_alarms.told_verdict(overview) if overview else Text("")
        self.query_one("#verdict", Static).update(top_state.coloured(verdict))
        shown = [Text.assemble((f"{title} ", "dim"), (value, "bold")) for title, value in ctl_alarms.figures(overview)]
        self.query_one("#figures", Static).update(Text("   ").join(shown))
        alarms = ctl_alarms.alarm_lines(overview, ALARMS_SHOWN) if overview else []
        place = self.query_one("#alarms", Static)
        place.display = bool(alarms)
        place.update(top_state.coloured(Text("\n").join(alarms)))
        self.show_tables()
        self.show_clock()

    @while_shown
    def show_tables(self) -> None:
        services = self.query_one("#services", ListingTable)
        services.show(self._lines("services", ""))
        below = self.query_one("#below", ListingTable)
        below.display = self.below != "services"
        below.listing = self.below
        below.show(self._lines(self.below, self.words))

    def _lines(self, name: str, words: str) -> Lines:
        return top_state.lines_of(name, self.seen.documents.get(name), words, self.size.width - 2)

    @while_shown
    def show_clock(self) -> None:
        now_s = self._now_s()
        self.query_one("#clock", Static).update(top_state.clock(self.seen, now_s))
        words = top_state.banner(self.seen, now_s)
        banner = self.query_one("#banner", Static)
        banner.display = bool(words)
        banner.update(Text(words))
        self.set_class(self.is_stale, "stale")

    # --- keys -----------------------------------------------------------------------------------------------------

    @property
    def current(self) -> ListingTable:
        """The table with the cursor."""
        focused = self.focused
        for table in self.query(ListingTable):
            if focused is table.table:
                return table
        return self.query_one("#below", ListingTable)

    def action_down(self) -> None:
        self.current.move(1)

    def action_up(self) -> None:
        self.current.move(-1)

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_filter(self) -> None:
        place = self.query_one("#filter", Input)
        place.display = True
        place.value = self.words
        place.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self.words = event.value
            self.show_tables()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "filter":
            event.input.display = False
            self.query_one("#below", ListingTable).focus_table()

    def action_leave(self) -> None:
        place = self.query_one("#filter", Input)
        place.display = False
        place.value = self.words = ""
        self.query_one("#below", ListingTable).focus_table()
        self.show_tables()

    def action_problems(self) -> None:
        self.words = top_state.toggle_problems(self.words)
        self.show_tables()

    def action_go(self) -> None:
        self._go_until_s = self._now_s() + GO_S

    def on_key(self, event: Any) -> None:
        """The letter after `g`."""
        if event.key == "g" or self._now_s() > self._go_until_s:
            return
        self._go_until_s = 0.0
        letter = "s" if event.key == "o" else event.key
        if letter in top_state.SCREENS:
            event.prevent_default().stop()
            self.go_to(top_state.SCREENS[letter][0])

    def go_to(self, name: str) -> None:
        if name == "services":
            self.query_one("#services", ListingTable).focus_table()
            return
        self.below, self.words = name, ""
        self._wanted.set()
        self.show_tables()
        self.query_one("#below", ListingTable).focus_table()

    def action_copy(self) -> None:
        table = self.current
        line = top_state.line_of(table.listing, self.words if table.id == "below" else "")
        self.copy_to_clipboard(line)
        self.notify(line, title="copied", markup=False)

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        row = self.current.row
        if row is not None:
            self.push_screen(Detail(top_state.key_of(row, 0), row))

    # --- acting ---------------------------------------------------------------------------------------------------

    def action_act(self) -> None:
        table = self.current
        offered = top_actions.of_row(table.listing, table.row) if table.row is not None else []
        if not self._is_operating:
            self.notify("it only looks; start it with scale0 top --operate", severity="warning", markup=False)
        elif self.is_stale:
            self.notify("nothing is heard of the broker: actions are off", severity="warning", markup=False)
        elif not offered:
            self.notify("nothing can be done with this row", markup=False)
        else:
            self.push_screen(Choice(offered), self._chosen)

    def _chosen(self, action: Action | None) -> None:
        if action is None:
            return
        if action.tier == 1:
            self._begin(action)
        else:
            self.push_screen(Confirm(action), lambda is_meant: self._begin(action) if is_meant else None)

    def _begin(self, action: Action) -> None:
        self.notify(f"{action.title} …", markup=False)
        threading.Thread(target=self._carry_out, args=(action,), name="top-act", daemon=True).start()

    def _carry_out(self, action: Action) -> None:
        try:
            answer = self._door.carry_out(action.command.name, action.arguments, action.brokers)
        except (Scale0Error, OSError) as error:
            self.post_message(Done(action, None, " · ".join(failures.explain(error))))
            return
        self.post_message(Done(action, answer))

    def on_done(self, message: Done) -> None:
        if message.answer is None:
            self.notify(render.safe(message.error), title="refused", severity="error", markup=False)
            return
        lines = ctl_results.draw(message.action.command, message.answer, message.action.object)
        is_good = ctl_results.end(message.answer) == Exit.GOOD
        told = "\n".join(line.plain for line in lines)
        self.notify(told, severity="information" if is_good else "warning", markup=False)
        self._wanted.set()


def run(door: Door, *, is_operating: bool, filter_words: str) -> Exit:
    """Show it until the user has seen enough."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("scale0 top needs a terminal\nwithout one: scale0 ctl overview --watch")
    Top(door, is_operating=is_operating, filter_words=filter_words).run()
    return Exit.GOOD
