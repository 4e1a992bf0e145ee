"""The period of a report, cut into bins, and how its time axis is written.

Every chart of a page shares one time axis, so that one look down the page lines up cause and effect. The width of a
bin follows the period: about two to three hundred of them fit the page whether it tells of twenty seconds or of a
month, and none is finer than its source, which is a second for tasks and a minute for facts.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from scale0_pipeline import words
from scale0_pipeline.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US

BINS_MAX: Final = 300

FINE_US: Final = 15 * MINUTE_US
"""Up to this long, a report is made from single tasks: minutes would be too coarse to see anything."""

BIN_WIDTHS_US: Final = tuple(
    [n * SECOND_US for n in (1, 2, 5, 10)]
    + [n * MINUTE_US for n in (1, 2, 5, 10, 15, 30)]
    + [n * HOUR_US for n in (1, 2, 3, 4, 6, 12)]
    + [n * DAY_US for n in (1, 2, 7, 28)]
)

TICK_STEPS_US: Final = tuple(
    [n * SECOND_US for n in (1, 2, 5, 10, 15, 30)]
    + [n * MINUTE_US for n in (1, 2, 5, 10, 15, 30)]
    + [n * HOUR_US for n in (1, 2, 3, 4, 6, 12)]
    + [n * DAY_US for n in (1, 2, 7, 14, 28, 84)]
)


class Period(msgspec.Struct, frozen=True):
    """From `since_us` up to, and without, `until_us`; both stand on the edges of bins."""

    since_us: int
    until_us: int
    bin_us: int

    @property
    def bins(self) -> int:
        return (self.until_us - self.since_us) // self.bin_us

    @property
    def length_us(self) -> int:
        return self.until_us - self.since_us

    @property
    def is_fine(self) -> bool:
        """Whether its bins are finer than a minute, so that only single tasks can fill them."""
        return self.bin_us < MINUTE_US

    @property
    def is_long(self) -> bool:
        """Whether a time of day alone would not say which day is meant."""
        return words.utc(self.since_us).date() != words.utc(self.until_us - 1).date()

    def before(self) -> Period:
        """The period of the same length that ended when this one began."""
        return Period(self.since_us - self.length_us, self.since_us, self.bin_us)

    def wider(self, times: int) -> Period:
        """The same period in bins that are so many times as wide; the last one may reach beyond its end."""
        bins = -(-self.bins // times)
        return Period(self.since_us, self.since_us + bins * times * self.bin_us, self.bin_us * times)

    def starts_us(self) -> npt.NDArray[np.int64]:
        return np.arange(self.bins, dtype=np.int64) * self.bin_us + self.since_us

    def bin_of(self, at_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The bin of each time, kept within the period."""
        return np.clip((at_us - self.since_us) // self.bin_us, 0, max(self.bins - 1, 0))

    def show(self, us: int) -> str:
        """A moment of it, no longer than it must be."""
        return words.moment(us, is_long=self.is_long)

    def between(self, first_us: int, last_us: int) -> str:
        """`from 14:00 to 14:40`; `since 14:00` if it lasts until the end; `throughout` if it is all of it."""
        if first_us <= self.since_us and last_us >= self.until_us:
            return "throughout"
        if last_us >= self.until_us:
            return f"since {self.show(first_us)}"
        return f"from {self.show(first_us)} to {self.show(last_us)}"

    def text(self) -> str:
        """The whole period in words."""
        first, last = words.utc(self.since_us), words.utc(self.until_us)
        seconds = ":%S" if self.is_fine else ""
        start = f"{first.day} {first:%b %Y %H:%M{seconds}}"
        end = f"{last:%H:%M{seconds}}" if first.date() == last.date() else f"{last.day} {last:%b %Y %H:%M{seconds}}"
        return f"{start} to {end} UTC · {words.duration(self.length_us)}"


def make_period(since_us: int, until_us: int) -> Period:
    """The period, widened to whole bins of the width that suits it."""
    length = max(until_us - since_us, SECOND_US)
    floor_us = SECOND_US if length <= FINE_US else MINUTE_US
    fitting = [width for width in BIN_WIDTHS_US if width >= floor_us and length <= width * BINS_MAX]
    width = fitting[0] if fitting else -(-length // BINS_MAX // DAY_US) * DAY_US + DAY_US
    first = since_us // width * width
    last = -(-max(until_us, since_us + 1) // width) * width
    return Period(first, last, width)


def ticks(period: Period, most: int) -> list[tuple[int, str]]:
    """Where the axis is labelled, on round times, and what stands there; about `most` labels."""
    longer = (period.length_us // most // DAY_US + 1) * DAY_US  # of years, any number of days will do
    step = next((step for step in TICK_STEPS_US if period.length_us <= step * most), longer)
    first = -(-period.since_us // step) * step
    if step == 7 * DAY_US:  # weeks begin on Mondays; 1970 began on a Thursday
        first = -(-(period.since_us - 4 * DAY_US) // step) * step + 4 * DAY_US
    return [(at, _label(at, step)) for at in range(first, period.until_us + 1, step)]


def _label(at_us: int, step_us: int) -> str:
    at = words.utc(at_us)
    if step_us >= 56 * DAY_US:
        return f"{at:%b %Y}"
    if step_us >= DAY_US or (at.hour == 0 and at.minute == 0 and at.second == 0):
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M:%S}" if step_us < MINUTE_US else f"{at:%H:%M}"


def stretches(is_so: npt.NDArray[np.bool_], bridge: int = 1) -> list[tuple[int, int]]:
    """Runs of bins for which something holds, as (first, one past the last); gaps of up to `bridge` bins are closed."""
    found: list[tuple[int, int]] = []
    for index in np.flatnonzero(is_so).tolist():
        if found and index - found[-1][1] <= bridge:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((index, index + 1))
    return found
