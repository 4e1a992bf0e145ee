"""What is told of a handler that raised: to its client type, message and traceback, and to the worker's own log.

The text is bounded, for an exception may carry anything, and its making never raises, for then the task would have no
outcome at all. Of a long message the beginning is kept, of a long traceback the end, which says what happened.
"""

from __future__ import annotations

import logging
import traceback
from types import TracebackType

from scale0.encoding import encode_failure
from scale0.protocol.messages import Body

logger = logging.getLogger("scale0.worker")

MESSAGE_CHARACTERS_MAX = 8_000
TRACEBACK_CHARACTERS_MAX = 64_000


def failure_body(error: BaseException, *, has_traceback: bool = True) -> Body:
    """The body of a `failed` reply for `error`, without the frames of this library."""
    trace = _traceback(error) if has_traceback else ""
    return failure(type(error).__qualname__, _message(error), trace)


def failure(kind: str, message: str, trace: str = "") -> Body:
    """The body of a `failed` reply in plain words."""
    if len(message) > MESSAGE_CHARACTERS_MAX:
        message = f"{message[:MESSAGE_CHARACTERS_MAX]}… ({len(message):,} characters)"
    return encode_failure(kind, message, trace[-TRACEBACK_CHARACTERS_MAX:])


def note_failure(service: str, error: BaseException, *, is_first: bool) -> None:
    """Log it: the first one of a service for whoever runs the worker, all of them for whoever looks closer.

    A service that always fails may do so thousands of times a second, and its clients hear of each.
    """
    level = logging.WARNING if is_first else logging.DEBUG
    if logger.isEnabledFor(level):
        rest = "; more of its failures are logged as DEBUG only" if is_first else ""
        logger.log(
            level, "%s failed, and its client was told%s\n%s", service, rest, _visible(_traceback(error).rstrip())
        )


def _visible(text: str) -> str:
    """What a terminal would obey is escaped: an exception may quote what a client has sent."""
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"(its text could not be made: {type(broken).__qualname__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, _foreign_part(error.__traceback__)))
    except Exception as broken:
        return f"(the traceback could not be made: {type(broken).__qualname__})"


def _foreign_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not the worker library's; all of it if there is none."""
    inner = trace
    while inner is not None and str(inner.tb_frame.f_globals.get("__name__")).startswith("scale0.worker."):
        inner = inner.tb_next
    return inner or trace
