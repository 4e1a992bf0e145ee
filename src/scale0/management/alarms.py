"""Which alarms are raised: a state machine over `Vitals`, without clock, thread or file.

`look` takes how things are now and returns what changed; `note` takes what the core told. A condition is raised when
its value has been beyond the first threshold for `raise_after_s`, and cleared when it has been within the second one
for `clear_after_s`; between the two thresholds nothing changes, and both waits begin anew. What is not known changes
nothing. `now` is monotonic; rows carry UTC.

Everything is bounded: at most `RAISED_MAX` are raised at once, and `beyond` counts what was not for that reason.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Literal
from urllib.parse import quote

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0.management.alarm_notes import MEASURED, NOTED, RENAMED, UNKNOWN, Noted
from scale0.management.alarm_readings import Reading
from scale0.management.alarm_rules import RULES, Rule, Severity
from scale0.management.vitals import Vitals

RAISED_MAX: Final = 200
WATCHED_MAX: Final = 2_000  # conditions beyond their threshold that wait for their time, or are raised
CLEARED_KEPT: Final = 100
GROWTH_S: Final = 300.0
TEXT_CHARACTERS_MAX: Final = 1_000  # of a cause: names in it may come from strangers

Key = tuple[str, str]


class Alarm(msgspec.Struct, frozen=True):
    """One alarm as every door shows it. `since_us`: when it was raised or cleared, UTC µs."""

    name: str
    state: Literal["raised", "cleared"]
    since_us: int
    severity: Severity
    cause: str
    cure: str
    subject: str
    value: float | None
    threshold: float | None
    link: str


class Change(msgspec.Struct, frozen=True):
    """An alarm that was raised or cleared. `is_noted`: the core told it, and has logged it."""

    alarm: Alarm
    is_noted: bool = False


class Watch(msgspec.Struct):
    """A condition that is, or was lately, beyond its threshold."""

    rule: Rule
    reading: Reading
    beyond_since_s: float | None = None
    within_since_s: float | None = None
    alarm: Alarm | None = None  # if it is raised


class Alarms:
    """All alarms of one broker. Not thread-safe: the gate's thread has it."""

    def __init__(self, rules: Sequence[Rule] = RULES) -> None:
        self._rules = rules
        self._order = {rule.name: place for place, rule in enumerate(rules)}
        self._watches: dict[Key, Watch] = {}
        self._noted: dict[Key, tuple[Alarm, float]] = {}  # with the time when it counts as cleared
        self._cleared: deque[Alarm] = deque(maxlen=CLEARED_KEPT)
        self._growth: dict[Key, _Growth] = {}
        self._wall_offset_s = 0.0
        self.beyond = 0
        """Conditions that should be raised and are not, since too many are."""

    # --- verbs ----------------------------------------------------------------------------------------------------

    def look(self, vitals: Vitals, now: float) -> list[Change]:
        """Things are like this now: what was raised and cleared by it, in the rules' order."""
        self._wall_offset_s = vitals.shell.at_us / 1e6 - now
        self.beyond = 0
        changes: list[Change] = []
        for rule in self._rules:
            found = rule.read(vitals)
            if found is None:
                continue
            seen = set()
            for reading in found:
                seen.add(reading.subject)
                if rule.is_growth:
                    reading.value = self._grown(rule, reading, now)
                changes += self._judge(rule, reading, now)
            for name, subject in [key for key in self._watches if key[0] == rule.name and key[1] not in seen]:
                former = self._watches[name, subject].reading
                changes += self._judge(rule, Reading(subject, rule.clear_at, former.figures), now)
        return changes + self._end_notes(now)

    def note(self, name: str, text: str, now: float) -> list[Change]:
        """The core has raised an alarm: it is shown for a while, from the last time that it was told."""
        if name in MEASURED:
            return []
        name = RENAMED.get(name, name)
        noted = NOTED.get(name, UNKNOWN)
        key = (name, "")
        former = self._noted.get(key)
        if former is None and self._raised_count() >= RAISED_MAX:
            self.beyond += 1
            return []
        since_us = former[0].since_us if former is not None else self._at_us(now)
        alarm = _noted_alarm(noted, name, text, since_us)
        self._noted[key] = (alarm, now + noted.lasts_s)
        return [] if former is not None else [Change(alarm, is_noted=True)]

    # --- what doors ask -------------------------------------------------------------------------------------------

    def raised(self) -> list[Alarm]:
        """Those that are raised now: the bad ones first, then in the order in which they matter."""
        found = [watch.alarm for watch in self._watches.values() if watch.alarm is not None]
        found += [alarm for alarm, _ in self._noted.values()]
        return sorted(found, key=self._rank)

    def rows(self) -> list[dict[str, Any]]:
        """The listing `alarms`: raised ones, then those that were cleared lately, the newest first."""
        shown = [*self.raised(), *reversed(self._cleared)]
        return [msgspec.structs.asdict(alarm) for alarm in shown]

    # --- judging --------------------------------------------------------------------------------------------------

    def _judge(self, rule: Rule, reading: Reading, now: float) -> list[Change]:
        key = (rule.name, reading.subject)
        watch = self._watches.get(key)
        sign = -1 if rule.is_low_bad else 1
        is_beyond = sign * reading.value >= sign * rule.raise_at
        is_within = sign * reading.value <= sign * rule.clear_at
        if watch is None:
            if not is_beyond:
                return []
            if len(self._watches) >= WATCHED_MAX:
                self.beyond += 1
                return []
            watch = self._watches[key] = Watch(rule, reading)
        watch.reading = reading
        watch.beyond_since_s = _since(watch.beyond_since_s, is_beyond, now)
        watch.within_since_s = _since(watch.within_since_s, is_within, now)
        if watch.alarm is not None:
            return self._keep_or_clear(key, watch, now)
        if watch.beyond_since_s is None:  # it was not long enough
            del self._watches[key]
            return []
        return self._raise_if_due(watch, watch.beyond_since_s, now)

    def _raise_if_due(self, watch: Watch, beyond_since_s: float, now: float) -> list[Change]:
        if now - beyond_since_s < watch.rule.raise_after_s:
            return []
        if self._raised_count() >= RAISED_MAX:
            self.beyond += 1
            return []
        watch.alarm = _alarm(watch, "raised", self._at_us(now))
        return [Change(watch.alarm)]

    def _keep_or_clear(self, key: Key, watch: Watch, now: float) -> list[Change]:
        assert watch.alarm is not None, "only what is raised is kept or cleared"
        if watch.within_since_s is not None and now - watch.within_since_s >= watch.rule.clear_after_s:
            del self._watches[key]
            return [self._clear(watch.alarm, now)]
        if watch.beyond_since_s is not None:  # while it is better, its cause stays that for which it was raised
            watch.alarm = _alarm(watch, "raised", watch.alarm.since_us)
        return []

    def _end_notes(self, now: float) -> list[Change]:
        over = [key for key, (_, until_s) in self._noted.items() if now >= until_s]
        return [self._clear(self._noted.pop(key)[0], now) for key in over]

    def _clear(self, alarm: Alarm, now: float) -> Change:
        cleared = msgspec.structs.replace(alarm, state="cleared", since_us=self._at_us(now))
        self._cleared.append(cleared)
        return Change(cleared)

    def _grown(self, rule: Rule, reading: Reading, now: float) -> float:
        return self._growth.setdefault((rule.name, reading.subject), _Growth()).add(reading.value, now)

    def _raised_count(self) -> int:
        return len(self._noted) + sum(watch.alarm is not None for watch in self._watches.values())

    def _rank(self, alarm: Alarm) -> tuple[bool, int, str]:
        return alarm.severity != "bad", self._order.get(alarm.name, len(self._order)), alarm.subject

    def _at_us(self, now: float) -> int:
        return int((now + self._wall_offset_s) * 1e6)


class _Growth:
    """How much a total has grown in the last five minutes; that it fell, because it was cleared, counts as nothing."""

    def __init__(self) -> None:
        self._total: float | None = None
        self._steps: deque[tuple[float, float]] = deque()  # one a look

    def add(self, total: float, now: float) -> float:
        if self._total is not None and total > self._total:
            self._steps.append((now, total - self._total))
        self._total = total
        while self._steps and self._steps[0][0] <= now - GROWTH_S:
            self._steps.popleft()
        return sum(step for _, step in self._steps)


def log_change(log: FilteringBoundLogger, change: Change) -> None:
    """The change as one line, with fields for programs. What the core told it has logged itself."""
    alarm = change.alarm
    fields = {"alarm": alarm.name, "severity": alarm.severity, "subject": alarm.subject, "state": alarm.state}
    if alarm.state == "cleared":
        log.info(f"over: {alarm.cause}", **fields)
    elif not change.is_noted:
        write = log.error if alarm.severity == "bad" else log.warning
        write(alarm.cause, **fields, value=alarm.value, threshold=alarm.threshold, cure=alarm.cure)


def _since(since_s: float | None, is_so: bool, now: float) -> float | None:
    """Since when it is so."""
    if not is_so:
        return None
    return now if since_s is None else since_s


def _alarm(watch: Watch, state: Literal["raised", "cleared"], since_us: int) -> Alarm:
    rule, reading = watch.rule, watch.reading
    words = {**reading.figures, "subject": reading.subject, "value": reading.value}
    for_commands = {**words, "quoted": shlex.quote(reading.subject)}
    if "worst" in for_commands:
        for_commands["worst"] = shlex.quote(str(for_commands["worst"]))
    return Alarm(
        name=rule.name,
        state=state,
        since_us=since_us,
        severity=rule.severity,
        cause=rule.cause.format_map(words)[:TEXT_CHARACTERS_MAX],
        cure=rule.cure.format_map(for_commands)[:TEXT_CHARACTERS_MAX],
        subject=reading.subject,
        value=reading.value,
        threshold=rule.raise_at,
        link=rule.link.format_map({"subject": quote(reading.subject, safe="")}),
    )


def _noted_alarm(noted: Noted, name: str, text: str, since_us: int) -> Alarm:
    return Alarm(
        name=name,
        state="raised",
        since_us=since_us,
        severity=noted.severity,
        cause=text[:TEXT_CHARACTERS_MAX],
        cure=noted.cure,
        subject="",
        value=None,
        threshold=None,
        link=noted.link,
    )
