"""What an alarm that is measured consists of; `alarm_rules` has all of them.

A rule has two thresholds, one to raise and a lower one to clear, and each must hold for a while: a value that stays
between them changes nothing, so no alarm flaps. Severity `bad` means that tasks are lost or late, or soon will be;
`warn`, that somebody should look. A cause names figures; a cure names a command. In all sentences `{subject}` is what
the alarm is about, and `{quoted}` the same for a command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from scale0.management.alarm_readings import Readings
from scale0.management.vitals import Vitals

Severity = Literal["bad", "warn"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One alarm that is measured. `few` and `many` are its words in the verdict: of one subject, and of `{count}`."""

    name: str
    severity: Severity
    read: Callable[[Vitals], Readings]
    raise_at: float
    clear_at: float
    raise_after_s: float = 0.0
    clear_after_s: float = 10.0
    is_low_bad: bool = False  # raised when the value falls to `raise_at`, cleared when it is back at `clear_at`
    is_growth: bool = False  # the reading is a total: what counts is how much it grew in the last five minutes
    cause: str
    cure: str
    link: str
    few: str
    many: str
