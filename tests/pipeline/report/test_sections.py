"""What sections conclude."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from scale0_pipeline.report.charts.marks import Gap, gaps_of
from scale0_pipeline.report.section import make_scene
from scale0_pipeline.report.sections import advice, latency, promises, tasks, usage, workers
from scale0_pipeline.units import DAY_US, HOUR_US
from tests.pipeline.report.books import add_tasks, book_of
from tests.pipeline.report.sample import DAY, START_US


def session(since_h: float, until_h: float | None, *, day: int = 0, worker: str = "w-1") -> dict[str, Any]:
    closed = None if until_h is None else START_US + round(until_h * HOUR_US)
    return {"worker": worker, "broker": "eu-1", "boot": "b", "day": DAY + timedelta(days=day),
            "opened_us": START_US + round(since_h * HOUR_US), "closed_us": closed}  # fmt: skip


def test_a_worker_is_away_between_its_sessions_and_until_the_end() -> None:
    book = book_of()
    book.tables["silver/worker_sessions"] = [session(0, 10), session(11, 12), session(11.5, 20)]
    one = workers.presences(make_scene(book))[0]
    hours = [((since - START_US) / HOUR_US, (until - START_US) / HOUR_US) for since, until in one.spans]
    assert hours == [(0, 10), (11, 20)]
    assert one.share(book.period) == 19 / 24
    assert one.sessions == 3


def test_a_session_that_was_open_at_a_days_end_is_not_open_for_ever() -> None:
    book = book_of()
    book.tables["silver/worker_sessions"] = [session(-5, None, day=-1), session(-5, 3), session(0, None, worker="w-2")]
    first, second = workers.presences(make_scene(book))
    assert (first.worker, first.spans) == ("w-1", [(START_US, START_US + 3 * HOUR_US)])
    assert second.spans == [(START_US, START_US + DAY_US)]


def test_incomplete_hours_that_touch_are_one_gap() -> None:
    hours: list[dict[str, object]] = [
        {"hour_us": START_US + hour * HOUR_US, "recorded": recorded, "counted": 1_000}
        for hour, recorded in ((0, 1_000), (1, 900), (2, 950), (2, 1_000), (4, 999), (5, 0))
    ]
    assert gaps_of(hours) == [
        Gap(START_US + HOUR_US, START_US + 3 * HOUR_US, 150),
        Gap(START_US + 5 * HOUR_US, START_US + 6 * HOUR_US, 1_000),
    ]


def test_titles_state_conclusions() -> None:
    book = book_of("render", "ocr")
    add_tasks(book.flow, "ocr", tasks=10)
    add_tasks(book.flow, "render", hours=(0, 12), bad={"late": 2, "refused": 3})
    add_tasks(book.flow, "render", hours=(12, 13), latency_us=4_000_000, queue_us=3_000_000, tasks=200)
    scene = make_scene(book)
    assert tasks.throughput(scene).title.endswith("at the peak, at 12:00")
    assert tasks.errors(scene).title.startswith("3.")
    assert "60 % of those were over a limit" in tasks.errors(scene).title
    assert latency.latency(scene).title.startswith("Half of the tasks took under")
    assert latency.where_time_goes(scene).title == "render waits for workers from 12:00 to 13:00"


def test_a_version_that_lags_is_named() -> None:
    book = book_of()
    base = {"brokers": 3, "workers": 9, "tasks": 100, "errors": 1}
    book.tables["gold/config_drift"] = [
        {**base, "version": version, "hour_us": START_US + hour * HOUR_US, "first_us": START_US + hour * HOUR_US,
         "last_us": START_US + hour * HOUR_US + 99, "is_current": version == "42"}
        for version, hours in (("41", (0, 1, 2, 3)), ("42", (2, 3)), ("40", (0,))) for hour in hours
    ]  # fmt: skip
    title = advice.configs(make_scene(book)).title
    assert title == "3 versions in use, 42 at the end; 41 still in use within its last hour"


def test_capacity_names_who_is_short_and_says_when_it_is_provisional() -> None:
    book = book_of()
    base = {"offered_per_s": 2.0, "work_us_mean": 5e4, "workers_low": 3, "workers_high": 9, "weeks": 1}
    book.tables["gold/capacity"] = [
        {**base, "service": service, "hour_of_week": 3, "workers_needed": 5, "workers_now": now, "is_provisional": True}
        for service, now in (("render", 2), ("ocr", 9), ("mail", None))
    ]
    made = advice.capacity(make_scene(book))
    assert made.title == "render has fewer workers than the busiest hour needs"
    assert "Provisional: under two weeks" in made.body


def test_cost_is_ranked_by_worker_time_and_compared_with_before() -> None:
    book = book_of()
    rows = [
        {"service": service, "client": client, "count": 10, "work_us": work, "request_bytes": 1, "reply_bytes": 1}
        for service, client, work in (("a", "x", 100), ("b", "x", 300), ("b", "y", 600))
    ]
    book.tables["gold/cost_1d"] = rows
    book.tables["cost before"] = [{**rows[2], "work_us": 450}]
    made = usage.usage(make_scene(book))
    assert made.title == "b takes 90 % of the worker time, client y 60 %"
    assert "+100 %" in made.body


def test_a_ledger_adds_up_what_fail_overs_did() -> None:
    book = book_of()
    row = {"ts_us": START_US + HOUR_US, "broker": "eu-1b", "partner": "eu-1", "what": "took_over", "epoch": 2,
           "in_flight": 10, "replied": 7, "rerouted": 0, "retried": 2, "errored": 0, "lost": 1, "doubled": 0,
           "outage_us": 1_500_000}  # fmt: skip
    book.tables["gold/failovers"] = [row, {**row, "what": "resumed", "in_flight": 0, "lost": 0, "outage_us": None}]
    made = promises.failovers(make_scene(book))
    assert made.title == "2 changes of who serves: 1 of 10 tasks in flight lost, at most 1.5 s without an outcome"
    assert [mark.words for mark in make_scene(book).marks] == ["eu-1b took over", "eu-1b resumed"]


def test_fail_overs_that_met_no_task_are_a_table_and_no_empty_chart() -> None:
    book = book_of()
    numbers = dict.fromkeys(("in_flight", "replied", "rerouted", "retried", "errored", "lost", "doubled"), 0)
    row = {
        "ts_us": START_US + HOUR_US,
        "broker": "eu-1b",
        "partner": "eu-1",
        "what": "took_over",
        "epoch": 2,
        **numbers,
    }
    book.tables["gold/failovers"] = [{**row, "outage_us": 2_000_000}]
    made = promises.failovers(make_scene(book))
    assert made.title == "1 change of who serves: no task was in flight, at most 2 s without an outcome"
    assert "<svg" not in made.body
    assert "<table" in made.body


def test_capacity_claims_nothing_about_workers_that_nobody_counted() -> None:
    book = book_of()
    base = {
        "hour_of_week": 3,
        "offered_per_s": 2.0,
        "work_us_mean": 5e4,
        "workers_low": 3,
        "workers_high": 9,
        "weeks": 3,
    }
    book.tables["gold/capacity"] = [
        {**base, "service": service, "workers_needed": needed, "workers_now": None, "is_provisional": False}
        for service, needed in (("render", 5), ("ocr", 2))
    ]
    assert advice.capacity(make_scene(book)).title == "render needs the most workers, 5 in its busiest hour"


def test_a_worker_that_left_with_the_periods_end_is_not_shown_as_away() -> None:
    book = book_of()
    book.tables["silver/worker_sessions"] = [session(0, 23.99)]
    one = workers.presences(make_scene(book))[0]
    assert [piece.words for piece in workers._pieces(one, book.period)] == ["there from 00:00 to 23:59:24"]
