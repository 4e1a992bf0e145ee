"""The demo's page: its address is told with a token, and in a terminal the demo stays up until Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from scale0.cli import demo_page
from tests.cli.processes import LIMIT_S, ROOT, environment


def test_the_address_is_found_in_what_the_broker_says(tmp_path: Path) -> None:
    log = tmp_path / "demo-1.log"
    assert demo_page.find(log, 0.0) == ""
    log.write_text("… [info] ready\npage: http://127.0.0.1:8480/#token=abc   (good for one login)\n")
    assert demo_page.find(log, LIMIT_S) == "http://127.0.0.1:8480/#token=abc"


def test_in_a_terminal_it_stays_up_with_its_page_until_ctrl_c() -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "scale0", "demo", "--seconds", "6", "--no-report"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment(TERM="dumb", COLUMNS="100"),
        start_new_session=True,
    )
    os.close(theirs)
    guard = threading.Timer(LIMIT_S, child.kill)
    guard.start()
    seen, is_asked = "", False
    try:
        while select.select([ours], [], [], LIMIT_S)[0]:
            try:
                seen += os.read(ours, 65_536).decode(errors="replace")
            except OSError:  # the other end is closed
                break
            if "Ctrl-C ends it" in seen and not is_asked and seen.count("#token=") == 2:
                is_asked = True
                url = re.findall(r"Page: (http://[\d.:]+/)#token=[\w-]+", seen)[-1]
                with urllib.request.urlopen(f"{url}healthz", timeout=LIMIT_S) as answer:
                    assert answer.status == 200
                os.kill(child.pid, signal.SIGINT)
        assert child.wait(LIMIT_S) == 0, seen
        assert "Ended cleanly: 8 processes." in seen
        assert "Traceback" not in seen
    finally:
        guard.cancel()
        child.kill()
        child.wait()
        os.close(ours)
