"""A line that tells how far a long command is: drawn in place in a terminal, else printed now and then.

Whatever must stay (`tell`) is printed above it at once.
"""

from __future__ import annotations

import time
from types import TracebackType

from rich.live import Live
from rich.text import Text

from scale0.cli.render import Cell, Page

REDRAW_S = 0.1
PRINT_S = 10.0  # without a terminal


class Progress:
    """`is_quiet`: nothing is said at all, as when the output is JSON."""

    def __init__(self, page: Page, *, is_quiet: bool = False) -> None:
        self._page = page
        self._is_quiet = is_quiet
        self._live: Live | None = None
        self._next_s = time.monotonic() + (REDRAW_S if page.can_redraw else PRINT_S)

    def __enter__(self) -> Progress:
        if self._page.can_redraw and not self._is_quiet:
            self._live = Live(console=self._page.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        """How far it is; said only as often as somebody can read it."""
        now_s = time.monotonic()
        if self._is_quiet or now_s < self._next_s:
            return
        if self._live is not None:
            self._next_s = now_s + REDRAW_S
            self._live.update(self._page.plain(Text(line, no_wrap=True, overflow="ellipsis")), refresh=True)
        else:
            self._next_s = now_s + PRINT_S
            self._page.line(line)

    def tell(self, line: Cell) -> None:
        """Something to keep."""
        if not self._is_quiet:
            self._page.line(line)
