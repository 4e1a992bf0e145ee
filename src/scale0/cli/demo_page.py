"""The demo's page for operators: where it is, and staying up while somebody looks at it.

The first broker opens it on a free port, with no users: the address holds a token that is good for one login. In a
terminal the demo stays up after its story, with the load going on, until Ctrl-C; without one it ends by itself.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scale0.cli import render
from scale0.cli.demo_load import Ledger, Load
from scale0.cli.render import Page

if TYPE_CHECKING:
    from scale0.cli.demo_processes import Processes

ADDRESS: Final = re.compile(r"^page: (?P<url>\S+)", re.MULTILINE)
UP_LIMIT_S: Final = 30.0
LOOK_S: Final = 0.05
WATCH_S: Final = 0.5  # between two looks at whether all processes live


def options(directory: Path) -> list[str | Path]:
    """What makes a broker of the demo open its page; the account's own users have nothing to do with it."""
    return ["--manage", "127.0.0.1:0", "--manage-users", directory / "users.json"]


def find(log: Path, limit_s: float = UP_LIMIT_S) -> str:
    """The page's address, from what the broker says once it is up; nothing if it never is."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if found := ADDRESS.search(text):
            return found["url"]
        time.sleep(LOOK_S)
    return ""


def is_wanted(page: Page) -> bool:
    """Whether somebody sits there to look."""
    return page.is_terminal and sys.stdin.isatty()


def stay(processes: Processes, client: Any, ledger: Ledger, url: str, page: Page) -> None:
    """Go on with the load until Ctrl-C, or until a process ends by itself."""
    load = Load(client, ledger)
    load.start()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # from the moment that it is offered
            page.line()
            page.line(render.verdict("ok", "it stays up, with the load going on; Ctrl-C ends it"))
            if url:
                page.line(f"Page: {url}")
            while not processes.fallen() and load.error is None:
                threading.Event().wait(WATCH_S)
    finally:
        load.stop()
    page.line()
