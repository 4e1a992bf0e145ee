"""Which inputs are worth keeping: those that lead through the code by a way that no smaller one takes.

A way is a pair of lines of one function of Scale0 that follow one another. Tracing is slow, and is done only when a
corpus is chosen.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, Final

from tests.fuzz.failures import fewer

SLIM_RUNS_MAX: Final = 16  # of the target while one input is made smaller
CHECKERS: Final = "/core/census.py"  # it reads everything, and leads nowhere

Way = tuple[CodeType, int, int]


def ways_of(run: Callable[[bytes], None], data: bytes) -> set[Way]:
    """Every way through Scale0 that `run` takes with `data`; a failure ends it, and is not raised."""
    found: set[Way] = set()
    last: dict[FrameType, int] = {}

    def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            found.add((frame.f_code, last.get(frame, 0), frame.f_lineno))
            last[frame] = frame.f_lineno
        elif event == "return":
            last.pop(frame, None)
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        return on_line if "/src/scale0/" in name and not name.endswith(CHECKERS) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        with contextlib.suppress(Exception):
            run(data)
    finally:
        sys.settrace(before)
    return found


def slim(run: Callable[[bytes], None], data: bytes, wanted: set[Way]) -> bytes:
    """Fewer lines of `data` that still lead through all that is `wanted`."""
    budget = SLIM_RUNS_MAX

    def leads_there(lines: list[bytes]) -> bool:
        nonlocal budget
        budget -= 1
        return budget >= 0 and wanted <= ways_of(run, b"\n".join(lines))

    return b"\n".join(fewer(data.split(b"\n"), leads_there))


def choose(run: Callable[[bytes], None], kept: Iterable[bytes], candidates: Iterable[bytes]) -> list[bytes]:
    """Those of `candidates` that add to what `kept` covers, the smallest first, without what is superfluous in them."""
    covered: set[Way] = set()
    for data in kept:
        covered |= ways_of(run, data)
    chosen = []
    for data in sorted(candidates, key=lambda one: (len(one), one)):
        ways = ways_of(run, data)
        if not ways <= covered:
            chosen.append(slim(run, data, ways - covered))
            covered |= ways
    return chosen
