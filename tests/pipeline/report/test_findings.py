"""Findings: what a reader is told first, from books that are written by hand."""

from __future__ import annotations

from typing import Any

from scale0_pipeline.gold import Completeness
from scale0_pipeline.report import findings_network as network
from scale0_pipeline.report import findings_tasks as tasks
from scale0_pipeline.report.findings import find, judge
from scale0_pipeline.units import HOUR_US, MINUTE_US
from tests.pipeline.report.books import add_tasks, book_of
from tests.pipeline.report.sample import START_US


def test_a_quiet_day_has_no_finding_and_says_so() -> None:
    book = book_of()
    add_tasks(book.flow)
    assert find(book) == []
    verdict = judge(book, [])
    assert verdict.fill == "ok"
    assert "100 % of 28,800 tasks replied" in verdict.sentence


def test_an_empty_period_has_an_honest_verdict() -> None:
    book = book_of()
    assert judge(book, find(book)).sentence == "No task was recorded in this period"


def test_an_overloaded_service_waits_for_workers_and_names_its_time() -> None:
    book = book_of("render", "ocr")
    add_tasks(book.flow, "ocr")
    add_tasks(book.flow, hours=(0, 14))
    add_tasks(book.flow, hours=(14, 14.75), latency_us=4_000_000, queue_us=3_900_000, bad={"late": 12, "refused": 5})
    add_tasks(book.flow, hours=(14.75, 24))
    found = find(book)
    assert [finding.subject for finding in found] == ["service render"]
    assert found[0].severity == "bad"
    assert (found[0].what, found[0].since) == ("render waits for workers", "from 14:00 to 14:45")
    assert "153 of 900 tasks (17 %) ended badly, most of them late" in found[0].evidence
    assert found[0].command == "scale0 pipeline whatif --service render"
    assert judge(book, found).sentence == "render waits for workers from 14:00 to 14:45"


def test_families_of_bad_ends_have_their_own_words() -> None:
    said = {}
    for family in ("late", "lost", "refused", "failed"):
        book = book_of()
        add_tasks(book.flow, bad={family: 3})
        said[family] = tasks.bad_ends(book)[0].what
    assert said == {
        "late": "render answers too late",
        "lost": "render loses tasks with their workers",
        "refused": "render turns tasks away",
        "failed": "Handlers of render fail",
    }


def test_a_few_bad_ends_and_the_callers_own_mistakes_are_no_finding() -> None:
    book = book_of()
    add_tasks(book.flow, tasks=1_000, bad={"late": 9, "caller": 500})
    assert tasks.bad_ends(book) == []


def test_one_bad_end_among_a_few_is_no_alarm() -> None:
    book = book_of()
    add_tasks(book.flow, tasks=11)
    add_tasks(book.flow, hours=(3, 3.1), tasks=11, bad={"late": 4})
    assert tasks.bad_ends(book) == []
    assert tasks.least_share(1, 11) < 0.02 < tasks.least_share(100, 1_100) < 100 / 1_100
    assert tasks.least_share(0, 0) == 0.0


def test_bad_ends_that_are_scattered_are_told_of_the_whole_time() -> None:
    book = book_of()
    add_tasks(book.flow, tasks=20)
    for hour in range(1, 23, 2):
        add_tasks(book.flow, hours=(hour, hour + 0.1), tasks=20, bad={"failed": 15})
    found = tasks.bad_ends(book)[0]
    assert found.since == "from 01:00 to 21:05"
    assert found.evidence.startswith("165 of 5,040 tasks (3.27 %)")


def test_waiting_without_bad_ends_is_a_warning() -> None:
    book = book_of()
    add_tasks(book.flow, hours=(0, 2), latency_us=90_000, queue_us=80_000)
    add_tasks(book.flow, hours=(2, 24))
    found = find(book)
    assert [finding.severity for finding in found] == ["warn"]
    assert found[0].since == "from 00:00 to 02:00"
    assert "80 ms on average, 88.9 % of their time" in found[0].evidence


def test_a_service_that_became_slower_is_compared_with_the_period_before() -> None:
    book = book_of()
    add_tasks(book.flow, latency_us=90_000)
    add_tasks(book.before, latency_us=30_000)
    assert tasks.slower(book)[0].evidence == "p99 89.7 ms, before 29.7 ms"
    book.before = book_of().before
    assert tasks.slower(book) == []


def test_a_burning_budget_is_grave_when_it_burns_fast() -> None:
    book = book_of()
    row = {"service": "mail", "window": "5m·1h", "threshold": 14.4, "objective": 0.999, "burn": 40.0}
    book.tables["gold/slo_burn"] = [{**row, "since_us": START_US + HOUR_US, "until_us": START_US + 2 * HOUR_US}]
    found = find(book)[0]
    assert (found.severity, found.since) == ("bad", "from 01:00 to 02:00")
    assert found.what == "mail burns its error budget 40 times too fast"


def failover(**changes: Any) -> dict[str, Any]:
    return {"ts_us": START_US + HOUR_US, "broker": "eu-1b", "partner": "eu-1", "what": "took_over", "in_flight": 118,
            "lost": 0, "doubled": 0, "outage_us": 900_000, **changes}  # fmt: skip


def test_a_fail_over_is_as_grave_as_what_it_cost() -> None:
    book = book_of()
    cases = [failover(), failover(doubled=1), failover(outage_us=9_000_000), failover(lost=2), failover(what="resumed")]
    book.tables["gold/failovers"] = cases
    assert [finding.severity for finding in network.failovers(book)] == ["ok", "warn", "warn", "bad"]
    assert "118 tasks in flight, 0 lost" in network.failovers(book)[0].evidence


def capacity(**changes: Any) -> dict[str, Any]:
    return {"service": "my render", "hour_of_week": 38, "workers_now": 12, "workers_needed": 17, "workers_low": 15,
            "workers_high": 20, "is_provisional": False, **changes}  # fmt: skip


def test_too_few_workers_for_the_busiest_hour_is_advice_with_a_command_that_can_be_pasted() -> None:
    book = book_of()
    book.tables["gold/capacity"] = [capacity(workers_needed=5, workers_low=4), capacity()]
    found = network.short_of_workers(book)
    assert [(one.severity, one.since) for one in found] == [("warn", "Tuesdays at 14 h UTC")]
    assert found[0].command == "scale0 pipeline whatif --service 'my render' --workers 12..19"
    book.tables["gold/capacity"] = [capacity(workers_now=0, workers_needed=1, workers_low=1)]
    assert network.short_of_workers(book)[0].command.endswith("--workers 1..3"), "nothing can be replayed on no worker"
    book.tables["gold/capacity"] = [capacity(is_provisional=True)]
    assert network.short_of_workers(book)[0].severity == "ok"
    book.tables["gold/capacity"] = [capacity(workers_now=16), capacity(service="x", workers_now=None)]
    assert network.short_of_workers(book) == []


def test_flapping_workers_are_one_finding() -> None:
    book = book_of()
    base = {"broker": "eu-1", "is_flapping": True}
    book.tables["gold/flaps"] = [
        {**base, "worker": "w-1", "hour_us": START_US + 2 * HOUR_US, "sessions": 9},
        {**base, "worker": "w-2", "hour_us": START_US + HOUR_US, "sessions": 5},
        {**base, "worker": "w-3", "hour_us": START_US, "sessions": 2, "is_flapping": False},
    ]
    found = network.flapping(book)
    assert [one.what for one in found] == ["w-1 and w-2 come and go"]
    assert found[0].since == "from 01:00 to 03:00"


def test_only_clocks_that_still_drift_are_told() -> None:
    book = book_of()
    base = {"role": "worker", "offset_us": 12_000.0, "error_us": 400, "drift_ppm": 140.0}
    book.tables["gold/clock_drift"] = [
        {**base, "participant": "w-1", "hour_us": START_US, "is_drifting": True},
        {**base, "participant": "w-1", "hour_us": START_US + HOUR_US, "is_drifting": False},
        {**base, "participant": "w-2", "hour_us": START_US, "is_drifting": True},
    ]
    found = network.drifting(book)
    assert [one.what for one in found] == ["The clock of w-2 drifts"]
    assert found[0].evidence == "w-2: +140 ppm, off by 12 ms ±400 µs"


def test_a_config_under_which_tasks_fail_more_often_is_a_finding() -> None:
    book = book_of()
    base = {"brokers": 1, "workers": 1, "hour_us": START_US, "first_us": START_US + MINUTE_US, "tasks": 1_000}
    book.tables["gold/config_drift"] = [
        {**base, "version": "41", "errors": 5},
        {**base, "version": "42", "errors": 100},
    ]
    found = network.configs(book)
    assert [one.what for one in found] == ["Tasks fail 20 times as often under config 42"]


def test_an_incomplete_record_says_how_much_it_lacks() -> None:
    book = book_of()
    book.completeness = Completeness(98_760, 100_000, 0)
    assert network.incomplete(book)[0].what == "The record lacks 1,240 rows"
    book.completeness = Completeness(99_950, 100_000, 0)
    assert network.incomplete(book) == []


def test_the_gravest_comes_first_and_a_subject_comes_once() -> None:
    book = book_of()
    add_tasks(book.flow, bad={"late": 3})
    book.completeness = Completeness(1, 2, 0)
    book.tables["gold/failovers"] = [failover(lost=2)]
    book.tables["gold/slo_burn"] = [
        {"service": "render", "window": "6h·3d", "threshold": 1.0, "objective": 0.999, "burn": 2.0,
         "since_us": START_US, "until_us": START_US + HOUR_US}
    ]  # fmt: skip
    found = find(book)
    assert [finding.severity for finding in found] == ["bad", "warn", "warn"]
    assert [finding.subject for finding in found].count("service render") == 1
    assert judge(book, found).sentence.endswith("· 2 more findings")
