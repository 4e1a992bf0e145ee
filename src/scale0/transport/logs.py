"""The broker's log: one event a line, on stderr, for people or as JSON.

A logger is made and handed on, never configured for the whole process: a broker that runs in a thread of somebody's
tests must not change their logging. What peers send appears only as values, escaped by the renderer.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor


def make_log(
    *, is_json: bool = False, is_verbose: bool = False, is_quiet: bool = False, to: TextIO | None = None
) -> FilteringBoundLogger:
    """A logger that writes to `to`, stderr by default. Quiet: warnings and worse only."""
    stream = to if to is not None else sys.stderr
    level = logging.DEBUG if is_verbose else logging.WARNING if is_quiet else logging.INFO
    processors: list[Processor] = [
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
