"""Every alarm that is measured, in one table. `alarm_notes` has those that the core tells by itself."""

from __future__ import annotations

from typing import Final

from scale0.management.alarm_rule import Rule, Severity
from scale0.management.alarm_rules_bad import BAD
from scale0.management.alarm_rules_warn import WARN

__all__ = ["RULES", "Rule", "Severity"]

RULES: Final = (*BAD, *WARN)
"""In the order in which they matter, which is that of lists and of the verdict."""
