"""For all tests: what the command line keeps over restarts goes to a place of its own, never to the user's.

And no test fails for being slow: Hypothesis sets no example a deadline, and takes its time to make them, for on a busy
machine both measure only who else wants the processor. A hang ends at the timeout of `pyproject.toml`.

Tests that need Spark share one process, with one JVM, and those that need a browser another, with one browser. What it
costs to make pytest's asserts of ours, a third of a minute for all test files, is shared too.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

SHARED = ("spark", "browser")  # marks whose tests run in one process each


class ByNeed(LoadScopeScheduling):  # type: ignore[misc]
    """Deals tests out one by one; the files of a shared mark go to one process together, and first."""

    def _split_scope(self, nodeid: str) -> str:
        return _shared_mark(nodeid.partition("::")[0]) or nodeid


@functools.cache
def _shared_mark(path: str) -> str:
    text = (Path(__file__).parent.parent / path).read_text(encoding="utf-8")
    return next((mark for mark in SHARED if f"pytest.mark.{mark}" in text), "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByNeed:
    return ByNeed(config, log)


def pytest_collection(session: pytest.Session) -> None:
    """Each process compiles its share of the test files first, and finds the others' compiled when it collects all."""
    process, processes = (os.environ.get(f"PYTEST_XDIST_WORKER{what}", "") for what in ("", "_COUNT"))
    if not process:
        return
    root = session.config.rootpath
    wanted = [root / name.partition("::")[0] for name in session.config.args]
    files = sorted({file for path in wanted for file in ([path] if path.is_file() else path.rglob("test_*.py"))})
    for file in files[int(process.removeprefix("gw")) :: int(processes)]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it tells what is wrong, and where
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


@pytest.fixture(scope="session", autouse=True)
def _state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tests of the page that found no browser are told of in one line that nobody overlooks."""
    skipped = [one for one in terminalreporter.stats.get("skipped", []) if "no Chromium here" in str(one.longrepr)]
    if skipped:
        cure = "install one: apt install chromium-headless-shell"
        told = f"SKIPPED {len(skipped)} browser tests: no Chromium here; {cure}"
        terminalreporter.write_line(told, red=True, bold=True)
