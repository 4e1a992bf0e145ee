"""The broker's log: one event a line, on stderr, for people or as JSON.

A logger is made and handed on, never configured for the whole process: a broker that runs in a thread of somebody's
tests must not change their logging. What peers send appears only as values, escaped by the renderer. No secret is
logged by intent; should one come along in a field, by a mistake or within a command's arguments, `hide_secrets` takes
it out before anything is written.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

HIDDEN: Final = "(hidden)"
DEPTH_MAX: Final = 8  # of what a field holds; deeper things are not shown at all

_SECRET: Final = re.compile(
    r"(.*_)?(password|passphrase|passwd|secret|secret_?key|token|cookie|authorization|api_?key)s?", re.IGNORECASE
)


def make_log(
    *, is_json: bool = False, is_verbose: bool = False, is_quiet: bool = False, to: TextIO | None = None
) -> FilteringBoundLogger:
    """A logger that writes to `to`, stderr by default. Quiet: warnings and worse only."""
    stream = to if to is not None else sys.stderr
    level = logging.DEBUG if is_verbose else logging.WARNING if is_quiet else logging.INFO
    processors: list[Processor] = [
        hide_secrets,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    if is_json:
        processors.append(structlog.processors.JSONRenderer())
    else:
        processors.append(structlog.dev.ConsoleRenderer(colors=stream.isatty(), pad_event_to=0))
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    return log


def hide_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Fields whose names say that they are secret keep their names alone, at any depth."""
    for name, value in event.items():
        if name != "exc_info":
            event[name] = HIDDEN if _SECRET.fullmatch(name) else _without_secrets(value, 1)
    return event


def _without_secrets(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping | list | tuple):
        return value
    if depth > DEPTH_MAX:
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(key, str) and _SECRET.fullmatch(key) else _without_secrets(each, depth + 1)
            for key, each in value.items()
        }
    return [_without_secrets(each, depth + 1) for each in value]
