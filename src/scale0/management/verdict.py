"""One sentence on how a network is, for the head of every screen: "✗ 1 broker gone, us-1b serves · ! eu-3 behind".

Healthy is quiet: one short line. Otherwise a part for each kind of alarm, the bad ones first, each with its glyph, and
no more of them than a line can hold. Brokers that somebody has drained or disabled are told too: nothing is wrong with
that, and everybody must know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from scale0.management.alarm_notes import NOTED, UNKNOWN
from scale0.management.alarm_rules import RULES
from scale0.management.alarms import Alarm
from scale0.management.vitals import Vitals

Level = Literal["ok", "warn", "bad"]

PARTS_MAX: Final = 4
NAME_CHARACTERS_MAX: Final = 40

_GLYPHS: Final = {"bad": "✗", "warn": "!"}
_RULES: Final = {rule.name: rule for rule in RULES}
_ASIDE: Final = {"draining": "◒", "disabling": "◒", "holding": "◒", "joining": "○", "disabled": "–"}
"""States of brokers that are told though they are no alarm."""


class Verdict(msgspec.Struct, frozen=True):
    """`text` holds its glyphs; `level` is that of the worst part."""

    level: Level
    text: str


class Part(msgspec.Struct, frozen=True):
    level: Level
    glyph: str
    words: str


def verdict(vitals: Vitals | None, alarms: Sequence[Alarm], network: Iterable[Mapping[str, Any]] = ()) -> Verdict:
    """How things are, by the alarms that are raised and the rows of the network. None: nothing was measured yet."""
    rows = list(network)
    parts = [*_of_alarms(alarms, rows), *_of_states(rows)]
    if not parts:
        return Verdict("ok", f"● {_quiet(vitals, rows)}")
    shown = [f"{part.glyph} {part.words}" for part in parts[:PARTS_MAX]]
    if len(parts) > PARTS_MAX:
        shown.append(f"{len(parts) - PARTS_MAX} more")
    level: Level = "bad" if any(part.level == "bad" for part in parts) else "warn"
    return Verdict(level, " · ".join(shown))


def _of_alarms(alarms: Sequence[Alarm], rows: Sequence[Mapping[str, Any]]) -> list[Part]:
    """A part for each name: what it says of one subject, or how many there are."""
    by_name: dict[str, list[str]] = {}
    severities = {alarm.name: alarm.severity for alarm in alarms}
    for alarm in alarms:
        by_name.setdefault(alarm.name, []).append(alarm.subject)
    gone = set(by_name.get("broker_gone", ()))
    standing_in = [subject for subject in by_name.get("fallback_serves", ()) if subject in gone]
    if standing_in and set(by_name["fallback_serves"]) <= gone:
        del by_name["fallback_serves"]  # told together with who is gone
    parts = []
    for name, subjects in by_name.items():
        words = _words(name, subjects)
        if name == "broker_gone":
            fallbacks = [row.get("fallback_broker") for row in rows if row.get("identity") in standing_in]
            names = ", ".join(_short(str(fallback)) for fallback in fallbacks if fallback)
            words += f", {names} {'serves' if len(fallbacks) == 1 else 'serve'}" if names else ""
        parts.append(Part(severities[name], _GLYPHS[severities[name]], words))
    return sorted(parts, key=lambda part: part.level != "bad")


def _words(name: str, subjects: Sequence[str]) -> str:
    rule = _RULES.get(name)
    if rule is None:
        return NOTED.get(name, UNKNOWN).words
    if len(subjects) == 1:
        return rule.few.format(subject=_short(subjects[0]))
    return rule.many.format(count=len(subjects))


def _of_states(rows: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Brokers that serve nobody now, as somebody wanted."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.get("state") in _ASIDE:
            found.setdefault(row["state"], []).append(str(row.get("identity", "")))
    return [
        Part("warn", _ASIDE[state], f"{_short(names[0]) if len(names) == 1 else f'{len(names)} brokers'} {state}")
        for state, names in found.items()
    ]


def _quiet(vitals: Vitals | None, rows: Sequence[Mapping[str, Any]]) -> str:
    if vitals is None:
        return "no alarm so far"
    everywhere = [row["workers"] for row in rows if row.get("workers") is not None]
    own = None if vitals.workers is None else vitals.workers.count
    counts = [
        (len(rows) or None, "broker"),
        (sum(everywhere) if everywhere else own, "worker"),
        (None if vitals.services is None else len(vitals.services), "service"),
    ]
    told = [f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count is not None]
    return f"all well: {', '.join(told)}" if told else "all well"


def _short(name: str) -> str:
    """A name that leaves room for the rest of the sentence."""
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[: NAME_CHARACTERS_MAX - 1]}…"
