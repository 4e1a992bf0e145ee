"""What a client learns of a handler that raised: type, message and traceback.

The text is bounded, for an exception may carry anything, and its making never raises, for then the task would have no
outcome at all. Of a long message the beginning is kept, of a long traceback the end, which says what happened.
"""

from __future__ import annotations

import traceback
from types import TracebackType

from scale0.encoding import encode_failure
from scale0.protocol.messages import Body

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
