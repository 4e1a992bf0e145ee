"""Spans of time in µs, in which all times of the pipeline are."""

from __future__ import annotations

from typing import Final

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
WEEK_US: Final = 7 * DAY_US
