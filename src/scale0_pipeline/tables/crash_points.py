"""Places where the pipeline may die, by name, so that a test can make it die there.

What is promised about crashes is promised about these places: between any two of them a crash has the effect of a crash
at one of them. In a test a hook is called at each point, and what it raises ends the work as a fault would; for the
real thing, `SCALE0_CRASH_AT=after_write` (or `after_write:3`, the third time) ends the process there as `kill -9` does:
no handler runs, no file is closed, and the JVM notices by itself.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

VARIABLE: Final = "SCALE0_CRASH_AT"

BEFORE_WRITE: Final = "before_write"  # the plan is in the log, and no table was touched
AFTER_WRITE: Final = "after_write"  # data files are written, and nobody counts them yet
AFTER_FIRST_COMMIT: Final = "after_first_commit"  # one table has the batch, the others do not
AFTER_LAST_COMMIT: Final = "after_last_commit"  # all tables have it, what is derived from them has not
IN_DERIVE: Final = "in_derive"  # one derived table is new, the others are old
BEFORE_CHECKPOINT: Final = "before_checkpoint"  # all is done, and Spark does not know it
IN_COMPACTION: Final = "in_compaction"  # the merged file is written, and the old ones count
IN_BACKFILL: Final = "in_backfill"  # one table of the day is new, the others are old
POINTS: Final = (
    BEFORE_WRITE,
    AFTER_WRITE,
    AFTER_FIRST_COMMIT,
    AFTER_LAST_COMMIT,
    IN_DERIVE,
    BEFORE_CHECKPOINT,
    IN_COMPACTION,
    IN_BACKFILL,
)

hook: Callable[[str], None] | None = None
_reached: dict[str, int] = {}


def reach(point: str) -> None:
    """The work is at this point; it ends here if somebody wants that."""
    if hook is not None:
        hook(point)
    wanted, _, times = os.environ.get(VARIABLE, "").partition(":")
    if wanted == point:
        _reached[point] = _reached.get(point, 0) + 1
        if _reached[point] == int(times or 1):
            os.kill(os.getpid(), signal.SIGKILL)
