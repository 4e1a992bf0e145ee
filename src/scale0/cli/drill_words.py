"""The words of a drill: durations, rates, and the conditions that end it early.

    10s  500ms  2m      a duration; a bare number is seconds
    200/s  600/m        a rate; a bare number is per second
    errors>5%           more than that share of the tasks settled since the fault ended in an error
    errors>3            or that many of them
    lost>0              so many tasks had no word from any broker by their deadline and grace
    p99>2s  p50>100ms   of the replies since the fault
    recovery>20s        so long after the fault it has not recovered

`>=` works like `>`. A condition is looked at from the fault on, again and again; the first that is met ends the drill.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scale0.errors import UsageError

SHARE_TASKS_MIN: Final = 20  # a share of fewer tasks says nothing: one error of three is not a third of all

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m))?")
_CONDITION: Final = re.compile(r"(errors|lost|p50|p99|recovery)\s*(>=|>)\s*(\S+)")
_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
_COUNTS: Final = ("errors", "lost")


class Figures(msgspec.Struct, frozen=True):
    """What conditions look at: tasks since the fault, and for how long it has lasted if it has not recovered."""

    settled: int = 0
    errors: int = 0
    lost: int = 0
    p50_s: float | None = None
    p99_s: float | None = None
    unrecovered_s: float = 0.0


class Condition(msgspec.Struct, frozen=True):
    """One reason to abort."""

    text: str
    figure: str
    is_or_equal: bool
    threshold: float
    is_share: bool = False

    def is_met(self, figures: Figures) -> bool:
        value = self._value(figures)
        return value is not None and (value > self.threshold or (self.is_or_equal and value == self.threshold))

    def _value(self, figures: Figures) -> float | None:
        match self.figure:
            case "errors" if self.is_share:
                return figures.errors / figures.settled if figures.settled >= SHARE_TASKS_MIN else None
            case "errors":
                return figures.errors
            case "lost":
                return figures.lost
            case "p50":
                return figures.p50_s
            case "p99":
                return figures.p99_s
            case _:
                return figures.unrecovered_s


def seconds(text: str) -> float:
    """A duration."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no duration; it looks like 10s, 500ms or 2m")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


def per_second(text: str) -> float:
    """A rate above 0."""
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise UsageError(f"{text!r} is no rate; it looks like 200/s")
    return float(found[1]) / _UNITS_S[found[2] or "s"]


def condition(text: str) -> Condition:
    """A reason to abort."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no condition\nit looks like errors>5%, lost>0, p99>2s or recovery>20s; quote it")
    figure, relation, value = found[1], found[2], found[3]
    is_share = figure == "errors" and value.endswith("%")
    if figure in _COUNTS:
        try:
            threshold = float(value.removesuffix("%")) / (100 if is_share else 1)
        except ValueError:
            raise UsageError(f"{text!r}: {value!r} is no number of tasks") from None
    else:
        threshold = seconds(value)
    return Condition(text.strip(), figure, relation == ">=", threshold, is_share)
