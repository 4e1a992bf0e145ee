"""Times and amounts as people type them: `24h`, `2026-03-01T14:00`, `2..40`, `10M`."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from scale0.errors import UsageError

US_PER_S = 1_000_000
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SIZES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
COUNTS_MAX = 1_000

_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([kmg]?)", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?:\.\.(\d+))?")


def instant_us(text: str, now_us: int) -> int:
    """A time in UTC, in µs: so long ago, or a date, or a date and time."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_us - round(float(ago[1]) * UNITS_S[ago[2]] * US_PER_S)
    try:
        told = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is not a time\nso long ago: 90s, 24h, 7d; or UTC: 2026-03-01T14:00") from None
    told = told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    return round(told.timestamp() * US_PER_S)


def day(text: str) -> date:
    """A day in UTC."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is not a day\nit looks like 2026-03-01") from None


def amount(text: str) -> int:
    """How many: 50000, 200k, 10M."""
    told = _AMOUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if told is None:
        raise UsageError(f"{text!r} is not a number of events\nit looks like 50000, 200k or 10M")
    return round(float(told[1]) * SIZES[told[2].lower()])


def counts(text: str) -> list[int]:
    """Several numbers: 2..40, 2..40..2 in steps, or 1,2,4,8."""
    found: list[int] = []
    for part in text.split(","):
        span = _RANGE.fullmatch(part.strip())
        if span is not None:
            found += range(int(span[1]), int(span[2]) + 1, int(span[3] or 1) or 1)
        elif part.strip().isdigit():
            found.append(int(part))
        else:
            raise UsageError(f"{text!r} is not a range\nit looks like 2..40, 2..40..2 or 1,2,4,8")
    if not 0 < len(found) <= COUNTS_MAX:
        raise UsageError(f"{text!r} has {len(found):,} numbers\nask for 1 to {COUNTS_MAX:,}")
    return found
