"""Alarms: when they are raised and cleared, that none flaps, and that all of it stays within bounds."""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.management import alarm_rules, alarms
from scale0.management.alarm_readings import Reading
from scale0.management.alarm_rules import RULES, Rule
from scale0.management.alarms import Alarm, Alarms, Change, log_change
from scale0.management.vitals import Shell, Vitals
from scale0.transport.logs import make_log

START_S = 1_000.0
AT_US = 1_700_000_000_000_000


def shell(now: float = START_S, **known: Any) -> Shell:
    return Shell(identity="eu-1", network="prod", at_us=AT_US + int((now - START_S) * 1e6), **known)


class Bench:
    """One rule, with a value that the test sets."""

    def __init__(self, **terms: Any) -> None:
        self.values: dict[str, float] | None = {}
        terms = {
            "name": "hot",
            "severity": "bad",
            "raise_at": 80.0,
            "clear_at": 60.0,
            "cause": "{subject} is at {value:.0f}",
            "cure": "cool {quoted}",
            "link": "#/services?sel={subject}",
            "few": "{subject} hot",
            "many": "{count} hot",
            **terms,
        }
        self.rule = Rule(read=self._read, **terms)
        self.alarms = Alarms([self.rule])
        self.now = START_S

    def _read(self, vitals: Vitals) -> list[Reading] | None:
        return None if self.values is None else [Reading(name, value) for name, value in self.values.items()]

    def look(self, value: float | dict[str, float] | None, after_s: float = 5.0) -> list[str]:
        """What changed, as `raised ocr` and `cleared ocr`."""
        self.values = {"ocr": float(value)} if isinstance(value, int | float) else value
        self.now += after_s
        changes = self.alarms.look(Vitals(shell=shell(self.now)), self.now)
        return [f"{change.alarm.state} {change.alarm.subject}" for change in changes]


# --- thresholds and holding times -----------------------------------------------------------------------------------


def test_an_alarm_is_raised_at_one_threshold_and_cleared_at_the_other() -> None:
    bench = Bench(clear_after_s=0)
    assert bench.look(79) == []
    assert bench.look(80) == ["raised ocr"]
    assert bench.look(61) == []
    assert bench.look(60) == ["cleared ocr"]


def test_a_value_must_stay_beyond_the_threshold_for_its_time() -> None:
    bench = Bench(raise_after_s=10)
    assert bench.look(90) == []
    assert bench.look(70) == []
    assert bench.look(90) == []
    assert bench.look(90) == []
    assert bench.look(90) == ["raised ocr"]


def test_an_alarm_stays_until_its_value_was_well_for_its_time() -> None:
    bench = Bench(clear_after_s=10)
    assert bench.look(90) == ["raised ocr"]
    assert bench.look(10) == []
    assert bench.look(70) == []
    assert bench.look(10) == []
    assert bench.look(10) == []
    assert bench.look(10) == ["cleared ocr"]


def test_an_alarm_of_what_is_running_out_is_raised_when_little_is_left() -> None:
    bench = Bench(is_low_bad=True, raise_at=14.0, clear_at=15.0, clear_after_s=0)
    assert bench.look(20) == []
    assert bench.look(13.9) == ["raised ocr"]
    assert bench.look(14.5) == []
    assert bench.look(15) == ["cleared ocr"]


def test_what_is_not_known_changes_nothing() -> None:
    bench = Bench(clear_after_s=0)
    assert bench.look(90) == ["raised ocr"]
    assert bench.look(None) == []
    assert [alarm.subject for alarm in bench.alarms.raised()] == ["ocr"]
    assert bench.look(90) == []


def test_a_subject_that_is_no_more_is_well() -> None:
    bench = Bench(clear_after_s=10)
    assert bench.look({"ocr": 90, "render": 90}) == ["raised ocr", "raised render"]
    assert bench.look({"render": 90}) == []
    assert bench.look({"render": 90}, 10) == ["cleared ocr"]


def test_growth_counts_what_came_in_five_minutes_and_not_the_total() -> None:
    bench = Bench(is_growth=True, raise_at=10.0, clear_at=0.0, clear_after_s=0)
    assert bench.look(500) == []
    assert bench.look(505) == []
    assert bench.look(510) == ["raised ocr"]
    assert bench.look(2) == [], "the operator has cleared the list, which makes nothing well that was bad"
    assert bench.look(2, 301) == ["cleared ocr"]


@given(
    st.lists(st.floats(60, 80, exclude_min=True, exclude_max=True), max_size=40),
    st.lists(st.floats(0, 30), min_size=40, max_size=40),
    st.booleans(),
    st.floats(0, 20),
)
def test_no_alarm_flaps_while_its_value_stays_between_the_thresholds(
    values: list[float], steps: list[float], was_raised: bool, hold_s: float
) -> None:
    bench = Bench(raise_after_s=0.0, clear_after_s=hold_s)
    if was_raised:
        assert bench.look(90) == ["raised ocr"]
    for value, step_s in zip(values, steps, strict=False):
        assert bench.look(value, step_s) == []
    assert len(bench.alarms.raised()) == was_raised


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 20)), max_size=60),
    st.sampled_from([rule.name for rule in RULES]),
)
def test_between_two_changes_a_value_has_crossed_the_other_threshold(
    looks: list[tuple[float, float]], name: str
) -> None:
    rule = next(rule for rule in RULES if rule.name == name)
    span = rule.raise_at - rule.clear_at  # negative where little is bad
    bench = Bench(
        raise_at=rule.raise_at,
        clear_at=rule.clear_at,
        is_low_bad=rule.is_low_bad,
        raise_after_s=rule.raise_after_s,
        clear_after_s=rule.clear_after_s,
    )
    passed: list[float] = []
    is_raised = False
    for share, step_s in looks:
        value = rule.clear_at + span * (share - 25) / 50  # a quarter of the values is well, half of them between
        passed.append(value)
        for change in bench.look(value, step_s):
            sign = -1 if rule.is_low_bad else 1
            if change.startswith("raised"):
                assert not is_raised
                assert any(sign * each >= sign * rule.raise_at for each in passed)
            else:
                assert is_raised
                assert any(sign * each <= sign * rule.clear_at for each in passed)
            is_raised, passed = not is_raised, [value]


# --- rows -----------------------------------------------------------------------------------------------------------


def test_a_row_says_cause_and_cure_with_figures_and_since_when() -> None:
    bench = Bench()
    bench.look({"o'cr; rm": 90})
    (row,) = bench.alarms.rows()
    assert row == {
        "name": "hot",
        "state": "raised",
        "since_us": AT_US + 5_000_000,
        "severity": "bad",
        "cause": "o'cr; rm is at 90",
        "cure": "cool 'o'\"'\"'cr; rm'",
        "subject": "o'cr; rm",
        "value": 90.0,
        "threshold": 80.0,
        "link": "#/services?sel=o%27cr%3B%20rm",
    }


def test_a_raised_alarm_tells_its_newest_figures_and_keeps_its_time() -> None:
    bench = Bench()
    bench.look(90)
    bench.look(95)
    (alarm,) = bench.alarms.raised()
    assert (alarm.cause, alarm.since_us) == ("ocr is at 95", AT_US + 5_000_000)


def test_the_cause_of_an_alarm_on_its_way_out_stays_that_for_which_it_was_raised() -> None:
    bench = Bench()
    bench.look(95)
    bench.look(61)
    assert bench.alarms.raised()[0].cause == "ocr is at 95"


def test_cleared_alarms_are_listed_after_the_raised_ones() -> None:
    bench = Bench(clear_after_s=0)
    bench.look({"ocr": 90, "render": 90})
    bench.look({"ocr": 0, "render": 90})
    assert [(row["subject"], row["state"]) for row in bench.alarms.rows()] == [("render", "raised"), ("ocr", "cleared")]


def test_bad_alarms_come_before_those_that_only_warn() -> None:
    book = Alarms()
    book.note("drill", "a drill is on", START_S)
    book.note("in_doubt", "it has not heard its partner", START_S)
    assert [alarm.name for alarm in book.raised()] == ["in_doubt", "drill"]


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_no_more_than_the_limit_are_raised_and_the_rest_is_counted() -> None:
    bench = Bench(clear_after_s=0)
    many = {f"s{number}": 90.0 for number in range(alarms.RAISED_MAX + 50)}
    assert len(bench.look(dict(many))) == alarms.RAISED_MAX
    assert (len(bench.alarms.raised()), bench.alarms.beyond) == (alarms.RAISED_MAX, 50)
    many["s0"] = 0.0
    assert len(bench.look(dict(many))) == 2, "one is cleared, and another takes its place"
    assert bench.alarms.beyond == 49


def test_what_is_watched_is_bounded_too() -> None:
    bench = Bench(raise_after_s=3_600)
    bench.look({f"s{number}": 90.0 for number in range(alarms.WATCHED_MAX + 7)})
    assert bench.alarms.beyond == 7


def test_cleared_alarms_are_forgotten_when_there_are_many() -> None:
    bench = Bench(clear_after_s=0)
    for number in range(alarms.CLEARED_KEPT + 10):
        bench.look({f"s{number}": 90})
        bench.look({})
    assert len(bench.alarms.rows()) == alarms.CLEARED_KEPT


def test_a_cause_is_cut_where_names_are_endless() -> None:
    bench = Bench()
    bench.look({"x" * 100_000: 90})
    assert len(bench.alarms.raised()[0].cause) == alarms.TEXT_CHARACTERS_MAX


# --- what the core tells --------------------------------------------------------------------------------------------


def test_an_alarm_of_the_core_lasts_from_the_last_time_it_was_told() -> None:
    book = Alarms()
    assert [change.alarm.name for change in book.note("config_lost", "config 1.4 lost", START_S)] == ["config_conflict"]
    assert book.note("config_lost", "config 1.5 lost", START_S + 3_000) == []
    assert book.look(Vitals(shell=shell()), START_S + 3_601) == []
    assert book.raised()[0].cause == "config 1.5 lost"
    (change,) = book.look(Vitals(shell=shell()), START_S + 6_601)
    assert (change.alarm.name, change.alarm.state) == ("config_conflict", "cleared")


def test_what_is_measured_is_not_raised_twice() -> None:
    book = Alarms()
    assert book.note("peer_lost", "broker eu-2 has been silent for 7.5 s", START_S) == []
    assert book.raised() == []


def test_an_alarm_that_no_table_knows_is_shown_all_the_same() -> None:
    book = Alarms()
    book.note("meteor", "it came from above", START_S)
    assert (book.raised()[0].name, book.raised()[0].severity) == ("meteor", "warn")


# --- the log --------------------------------------------------------------------------------------------------------


def logged(change: Change) -> list[dict[str, Any]]:
    written = io.StringIO()
    log_change(make_log(is_json=True, to=written), change)
    return [json.loads(line) for line in written.getvalue().splitlines()]


def some_alarm(**given: Any) -> Alarm:
    alarm = Alarm("queue_old", "raised", AT_US, "warn", "the cause", "the cure", "ocr", 12.0, 10.0, "#/services")
    return msgspec.structs.replace(alarm, **given)


def test_an_alarm_is_one_line_of_the_log_with_fields() -> None:
    (line,) = logged(Change(some_alarm()))
    expected = {"alarm": "queue_old", "subject": "ocr", "state": "raised", "value": 12.0, "cure": "the cure"}
    assert {key: line[key] for key in expected} == expected
    assert (line["event"], line["level"]) == ("the cause", "warning")


@pytest.mark.parametrize(("given", "level"), [({"severity": "bad"}, "error"), ({"state": "cleared"}, "info")])
def test_how_loud_the_line_is_follows_from_the_alarm(given: dict[str, Any], level: str) -> None:
    assert logged(Change(some_alarm(**given)))[0]["level"] == level


def test_what_the_core_has_logged_is_not_logged_again() -> None:
    assert logged(Change(some_alarm(), is_noted=True)) == []


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [rule.name for rule in alarm_rules.RULES]
    assert len(names) == len(set(names)) >= 12
