"""The demo's record: both brokers record every task, and at the end Spark makes tables of it, and a page tells of them.

The pipeline is an extra. Without it the demo shows everything else, and says how to add it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from rich.text import Text

from scale0.cli import render
from scale0.cli.pipeline_command import NEEDED
from scale0.cli.render import Page
from scale0.errors import Scale0Error

RECORDER_LIMIT_S = 60.0
TABLES_LIMIT_S = 480.0  # only a hang reaches it


def is_possible() -> bool:
    """Whether the pipeline is installed."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def options(directory: Path, broker: str) -> list[str | Path]:
    """What makes a broker of the demo record, into the place that all of them share."""
    where = directory / "telemetry" / broker
    return ["--telemetry", "--telemetry-dir", where, "--telemetry-data", directory / "data"]


def tell(directory: Path, brokers: tuple[str, ...], out: Path, tasks: int, page: Page) -> bool:
    """Make tables of what was recorded, and the page; whether all went well. The brokers have ended."""
    if not is_possible():
        page.line("No report: the pipeline is not installed. Add it: pip install 'scale0[pipeline]'")
        return True
    if unready := wait(directory, brokers):
        page.line(render.verdict("bad", f"the recorder of {unready} did not end"))
        return False
    page.line("Spark makes tables of what was recorded …")
    try:
        written = _write(directory / "data", out)
    except (Scale0Error, OSError, subprocess.SubprocessError) as error:
        page.line(render.verdict("bad", f"no report: {error}"))
        page.line("What is missing: scale0 pipeline doctor")
        return False
    page.line(_verdict(written, tasks))
    page.line(f"Report: {out}")
    return True


def _verdict(written: int, tasks: int) -> Text:
    """Whether the record holds every task that the client had for workers."""
    if written == tasks:
        return render.verdict("ok", f"{written:,} tasks in the record, each that the client had for a worker")
    return render.verdict("warn", f"{written:,} tasks in the record, of {tasks:,} that the client had for workers")


def wait(directory: Path, brokers: tuple[str, ...]) -> str:
    """Recorders outlive their brokers until everything is safe: wait for them, and name one that does not end."""
    from scale0.telemetry import lock

    for broker in brokers:
        where = directory / "telemetry" / broker
        if where.exists() and not lock.wait(where, RECORDER_LIMIT_S):
            return broker
    return ""


def _write(data: Path, out: Path) -> int:
    """In a process of its own: a Java that this process started would end only with it."""
    command = [sys.executable, "-m", "scale0", "pipeline", "run", "--once", "--json", "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TABLES_LIMIT_S, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"the pipeline ended with {done.returncode}")
    from scale0_pipeline import report

    return report.write(str(data), out).tasks
