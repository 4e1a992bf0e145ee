"""What-ifs: how long it takes to replay a recorded hour with many numbers of workers, and how true the replay is.

An hour of one service is generated and made into tables; then `scale0 pipeline whatif` replays it, one cell for each
number of workers, in a fresh process, the start of Spark included. What it says of a held-out window stands beside what
was measured there.
"""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from report import Options, Result, Table, at_most, figure
from scale0_pipeline import gold as reading
from scale0_pipeline.generate import generate
from scale0_pipeline.units import HOUR_US

_UNTIL = date(2026, 3, 4)
_SEED = 11
_SECONDS_MAX = 300.0
_BUSIEST = 0.1  # of a day's tasks fall into its busiest hour, about
_SERVICE = 0.3  # of them are of the busiest service, about


def run(options: Options) -> Result:
    place = options.directory / "whatif"
    events = round(options.whatif_tasks / _BUSIEST / _SERVICE)
    options.say(f"generating {events:,} events over two days, for an hour of about {options.whatif_tasks:,} tasks")
    generate(str(place), 2 * events, 2, _SEED, until=_UNTIL)
    _command("pipeline", "run", "--once", "--data", place)
    service, hour_us, tasks = _busiest(place)
    cells = f"2..{options.whatif_cells + 1}"
    options.say(f"{service}: {tasks:,} tasks in its busiest hour, workers {cells}")
    since = f"{hour_us // 1_000_000}"
    began = time.monotonic()
    window = ("--since", _instant(hour_us), "--until", _instant(hour_us + HOUR_US))
    answer = _command("pipeline", "whatif", "--data", place, "--service", service, "--workers", cells, *window)
    seconds = time.monotonic() - began
    options.say(f"{options.whatif_cells} cells of {tasks:,} tasks from {since}: {seconds:.1f} s")
    return _result(options, tasks, seconds, msgspec.json.decode(answer)["result"])


def _busiest(place: Path) -> tuple[str, int, int]:
    rows = reading.Gold(str(place)).rows("gold/service_1h", columns=["service", "hour_us", "count"]).to_pylist()
    row = max(rows, key=lambda row: (row["count"], row["hour_us"]))
    return row["service"], row["hour_us"], row["count"]


def _instant(at_us: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.gmtime(at_us // 1_000_000))


def _command(*arguments: str | Path) -> bytes:
    command = [sys.executable, "-m", "scale0", *map(str, arguments), "--json"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _result(options: Options, tasks: int, seconds: float, curve: dict[str, Any]) -> Result:
    replayed = tasks * options.whatif_cells
    check = curve.get("check") or {}
    table = Table(
        f"What-if: {options.whatif_cells} numbers of workers over an hour of {tasks:,} tasks",
        ["what", "figure"],
        [
            ["seconds, Spark's start included", figure(seconds)],
            ["µs a replayed task and core", figure(seconds * 1e6 * 2 / replayed)],
            ["cells: replayed, given up as too small, none waited", _kinds(curve["cells"])],
            ["held out: p50 replayed ÷ measured", _ratio(check, "p50_us")],
            ["held out: p99 replayed ÷ measured", _ratio(check, "p99_us")],
        ],
    )
    limit_s = _SECONDS_MAX * max(1.0, replayed / 40e6)
    return Result("whatif", [table], [at_most("a what-if of 40 cells over 1M tasks", seconds, limit_s, " s")])


def _kinds(cells: list[dict[str, Any]]) -> str:
    cut = sum(cell["is_cut"] for cell in cells)
    replayed = sum(cell["is_replayed"] for cell in cells) - cut
    return f"{replayed}, {cut}, {len(cells) - replayed - cut}"


def _ratio(check: dict[str, Any], name: str) -> str:
    measured = check.get(f"measured_{name}")
    return f"{check[f'replayed_{name}'] / measured:.2f} ×" if measured else "–"
