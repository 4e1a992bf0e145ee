"""A finding: one thing that a reader should know, in four parts."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Severity = Literal["bad", "warn", "ok"]
GRAVITY: Final[dict[Severity, int]] = {"bad": 2, "warn": 1, "ok": 0}
GLYPHS: Final[dict[Severity, str]] = {"bad": "✗", "warn": "!", "ok": "●"}


class Finding(msgspec.Struct, frozen=True):
    """What · since when · evidence · command. `weight` is how many tasks it touched, to rank by."""

    severity: Severity
    subject: str
    what: str
    since: str
    evidence: str
    command: str
    weight: float = 0.0
