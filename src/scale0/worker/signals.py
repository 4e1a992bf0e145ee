"""SIGINT and SIGTERM: the first one asks the worker to leave, the second ends it at once, a third has the system's way.

Plain signal handlers, not the asyncio loop's: they run between two steps of Python code even while an async handler
blocks the loop by mistake.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

logger = logging.getLogger("scale0.worker")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def leave_on_signals(leave: Callable[[], None], stop_now: Callable[[], None]) -> Iterator[None]:
    """Within this block signals are requests. Outside of the main thread Python has no signals, and nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in _SIGNALS}
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)
        name = signal.Signals(number).name
        if len(received) == 1:
            logger.info("%s: finishing what has begun, then leaving; once more ends at once", name)
            leave()
        else:
            logger.warning("%s again: ending at once", name)
            _restore(former)
            stop_now()

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield
    finally:
        _restore(former)


def _restore(former: Mapping[signal.Signals, object]) -> None:
    for number, handler in former.items():
        # None: it was set by other means than Python's, and cannot be put back.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]
