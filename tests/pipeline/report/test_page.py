"""The page as a whole: that it parses, stands alone, stays small, and lets nobody's name in as markup."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scale0_pipeline import report
from scale0_pipeline.errors import NothingRecorded
from scale0_pipeline.gold import Gold
from scale0_pipeline.report import book as books
from scale0_pipeline.report import page as report_page
from scale0_pipeline.report import style
from scale0_pipeline.report.book import Book
from scale0_pipeline.report.page import BYTES_MAX, ORDER, render
from scale0_pipeline.report.period import make_period
from scale0_pipeline.units import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from tests.pipeline.report import sample
from tests.pipeline.report.books import add_tasks, book_of
from tests.pipeline.report.sample import START_US

EVIL = "<img src=x onerror=alert(1)>"
OPEN_ENDED = {"meta", "br", "td", "th", "tr"}


class Reader(HTMLParser):
    """Collects elements and text, and fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in OPEN_ENDED:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[report.Summary, str]:
    place = tmp_path_factory.mktemp("day")
    sample.write_day(place)
    told: list[str] = []
    summary = report.write(
        str(place), place / "out" / "day.html", START_US, START_US + DAY_US, lambda what, done, of: told.append(what)
    )
    assert "gold/failovers" in told
    return summary, (place / "out" / "day.html").read_text(encoding="utf-8")


def test_the_report_of_a_day_opens_with_its_verdict(day: tuple[report.Summary, str]) -> None:
    summary, page = day
    assert summary.verdict.startswith("✗ render waits for workers from 14:00 to 14:40")
    assert summary.bytes == len(page.encode()) < BYTES_MAX
    assert summary.completeness == pytest.approx(0.9957, abs=1e-4)
    reader = read(page)
    assert next(tag for tag, _ in reader.tags if tag in ("h1", "h2")) == "h1"
    assert " render waits for workers from 14:00 to 14:40 · 6 more findings" in reader.texts


def test_the_sections_stand_in_their_order(day: tuple[report.Summary, str]) -> None:
    ids = [attributes.get("id") for attributes in read(day[1]).all("section")]
    wanted = ["findings", "throughput", "errors", "latency", "heat", "parts", "burn", "failovers", "workers"]
    assert ids == [*wanted, "configs", "capacity", "usage", "record"]


def test_every_figure_says_that_the_record_is_incomplete_and_gaps_are_hatched(day: tuple[report.Summary, str]) -> None:
    _, page = day
    assert page.count('class="badge"') == len(ORDER)
    assert "recorder lost 1,240 rows" in page
    assert page.count('class="hatch"') == 5


def test_a_page_loads_nothing_from_anywhere(day: tuple[report.Summary, str]) -> None:
    _, page = day
    reader = read(page)
    for tag, attributes in reader.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "a", "image", "use")
        assert not {"src", "href", "xlink:href", "style", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"https?:|url\((?!#)|@import", page)


def test_the_policy_allows_the_one_script_by_its_hash(day: tuple[report.Summary, str]) -> None:
    _, page = day
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    policy = next(
        one["content"] for one in read(page).all("meta") if one.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert f"'sha256-{digest}'" in policy


def test_every_chart_over_time_has_a_row_of_data_for_each_bin(day: tuple[report.Summary, str]) -> None:
    _, page = day
    tables = re.findall(r'<table class="data">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert len(tables) == 4
    assert {body.count("<tr>") for body in tables} == {288}


def evil_book() -> Book:
    """A book in which every name is markup."""
    book = book_of(EVIL)
    add_tasks(book.flow, EVIL, bad={"late": 9, "failed": 1}, queue_us=15_000)
    book.flow.codes[EVIL, 504, EVIL] = 9
    at = START_US + HOUR_US
    of_ledger = "in_flight replied rerouted retried errored lost doubled outage_us epoch"
    of_sums = (
        "count errors latency_us work_us request_bytes reply_bytes sessions recorded counted unknown seq_lo seq_hi"
    )
    numbers: dict[str, Any] = dict.fromkeys(
        f"{of_ledger} {of_sums} rows failed brokers tasks samples error_us".split(), 7
    )
    of_network = "broker partner worker client service participant version former author why boot window"
    names = dict.fromkeys(f"{of_network} hint_id kind subject mode reason verdict table rule sample".split(), EVIL)
    starts = dict.fromkeys(["ts_us", "hour_us", "minute_us", "opened_us", "first_us", "since_us"], at)
    times = {**starts, **dict.fromkeys(["closed_us", "last_us", "until_us"], at + HOUR_US), "day": sample.DAY}
    fractions = "predicted observed control offered_per_s work_us_mean weeks completeness objective offset_us drift_ppm"
    shares = {**dict.fromkeys(fractions.split(), 0.5), "threshold": 14.4, "burn": 20.0}
    more = {"what": "took_over", "is_flapping": True, "is_drifting": True, "is_current": True, "is_held_out": False,
            "is_broken": True, "is_provisional": True, "hour_of_week": 1, "workers_now": 1, "workers_needed": 3,
            "workers_low": 2, "workers_high": 4, "workers": 7}  # fmt: skip
    row = {**numbers, **names, **times, **shares, **more}
    tables = ("failovers", "completeness_1h", "flaps", "clock_drift", "config_drift", "slo_burn", "capacity", "cost_1d")
    for name in (*tables, "edges_1h", "hints", "hint_scores"):
        book.tables[f"gold/{name}"] = [row]
    for name in ("silver/worker_sessions", "silver/config_applied", "silver/gaps", "quality/results", "cost before"):
        book.tables[name] = [row]
    return book


def test_names_are_read_and_never_run() -> None:
    page = render(evil_book(), START_US)
    reader = read(page)
    assert EVIL not in page
    assert not reader.all("img")
    assert page.count("&lt;img src=x onerror=alert(1)&gt;") > 30


def test_a_month_of_fifty_services_stays_small() -> None:
    period = make_period(START_US, START_US + 30 * DAY_US)
    services = [f"service-number-{number:02d}" for number in range(50)]
    book = book_of(*services, period=period)
    rng = np.random.default_rng(7)
    flow = book.flow
    flow.count[:] = rng.integers(1_000, 9_000, flow.count.shape)
    flow.accepted[:] = flow.count
    flow.latency[:, 200:700] = rng.integers(0, 4_000, (period.bins, 500))
    flow.by_service[:, 200:700] = rng.integers(0, 4_000, (50, 500))
    flow.shown[:, :, 200:700] = rng.integers(0, 400, (len(flow.shown), period.bins, 500))
    for family in flow.families.values():
        family[:] = rng.integers(0, 50, family.shape)
    for column in flow.sums.values():
        column[:] = rng.integers(0, 10**9, column.shape)
    for part in book.parts.counts.values():
        part[:, 200:700] = rng.integers(0, 50, (len(part), 500))
    hours = range(30 * 24)
    book.tables["gold/completeness_1h"] = [
        {"hour_us": START_US + n * HOUR_US, "broker": f"broker-{b}", "recorded": 90 + n % 11, "counted": 100,
         "completeness": 0.9 + n % 11 / 100, "unknown": 0}
        for n in hours for b in range(24)
    ]  # fmt: skip
    book.tables["silver/worker_sessions"] = [
        {"worker": f"worker-{w}", "broker": "b", "boot": "b", "day": sample.DAY, "opened_us": START_US + n * HOUR_US,
         "closed_us": START_US + n * HOUR_US + 50 * MINUTE_US}
        for n in hours for w in range(27)
    ]  # fmt: skip
    book.tables["gold/slo_burn"] = [
        {"service": services[n % 50], "window": "5m·1h", "threshold": 14.4, "objective": 0.999, "burn": 20.0,
         "since_us": START_US + n * HOUR_US, "until_us": START_US + (n + 1) * HOUR_US}
        for n in hours
    ]  # fmt: skip
    book.tables["gold/capacity"] = [
        {"service": service, "hour_of_week": hour, "offered_per_s": 1.5, "work_us_mean": 9.5, "weeks": 4,
         "workers_needed": hour % 9, "workers_low": hour % 9 - 1, "workers_high": hour % 9 + 3, "workers_now": 5,
         "is_provisional": False}
        for service in services for hour in range(168)
    ]  # fmt: skip
    page = render(book, START_US)
    read(page)
    assert len(page.encode()) < BYTES_MAX
    assert "left out" not in page


def test_a_page_that_would_be_too_long_goes_without_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    book = book_of()
    add_tasks(book.flow, bad={"late": 3})
    whole = len(render(book, START_US).encode())
    monkeypatch.setattr(report_page, "BYTES_MAX", whole - 1)
    page = render(book, START_US)
    assert len(page.encode()) < whole
    assert "Ask for a shorter period" in page
    assert '<table class="data">' not in page


def test_a_period_without_anything_is_a_page_of_empty_states() -> None:
    page = render(book_of(), START_US)
    reader = read(page)
    empties = [attributes for attributes in reader.all("p") if attributes.get("data-testid") == "empty-state"]
    assert len(empties) >= len(ORDER)
    assert "scale0 worker module:app" in reader.texts
    assert "No task was recorded in this period" in page


def test_twenty_seconds_are_told_by_the_second(tmp_path: Path) -> None:
    tasks = [
        {"ts_us": START_US + n * 100_000, "received_us": START_US + n * 100_000 - 5_000, "service": "echo", "code": 200,
         "outcome": "replied", "latency_us": 5_000, "queue_us": 100, "worker_us_total": 4_000, "network_us": 900,
         "is_origin": True, "weight": 1, "attempt": 1}
        for n in range(200)
    ]  # fmt: skip
    sample.write(tmp_path, "silver/tasks", tasks)
    sample.write(tmp_path, "facts/minute", [{"minute_us": START_US, "service": "echo", "count": 200, "bucket": 393}])
    out = tmp_path / "demo.html"
    summary = report.write(str(tmp_path), out)
    assert summary.tasks == 200
    assert summary.until_us - summary.since_us <= 21 * SECOND_US
    assert "10 tasks a second" in out.read_text(encoding="utf-8") or "9.52 tasks a second" in out.read_text(
        encoding="utf-8"
    )


def test_a_table_that_is_too_long_is_cut_to_its_newest_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.write(tmp_path, "facts/minute", [{"minute_us": START_US, "service": "echo", "count": 1, "bucket": 393}])
    moments = [START_US + n * MINUTE_US for n in (7, 3, 9, 1, 5)]
    sample.write(tmp_path, "gold/failovers", [{"ts_us": at, "broker": "b", "what": "resumed"} for at in moments])
    monkeypatch.setattr(books, "ROWS_MAX", 3)
    book = books.read_book(Gold(str(tmp_path)), make_period(START_US, START_US + HOUR_US))
    assert [row["ts_us"] for row in book.rows("gold/failovers")] == [START_US + n * MINUTE_US for n in (5, 7, 9)]
    assert book.cut == ["gold/failovers"]


def test_a_place_without_tables_is_an_error_that_names_the_next_command(tmp_path: Path) -> None:
    with pytest.raises(NothingRecorded, match="scale0 broker --telemetry"):
        report.write(str(tmp_path / "empty"), tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_cells_keep_their_words_and_what_lies_beyond_an_edge_is_shaded() -> None:
    rules = style.css()
    broken_anywhere = [rule.partition("{")[0] for rule in rules.split("}") if "overflow-wrap:anywhere" in rule]
    assert not any("td" in selectors.replace("\n", "").split(",") for selectors in broken_anywhere)
    [scroll] = [rule for rule in rules.split("}") if rule.strip().startswith(".scroll{")]
    assert "background-attachment:local,local,scroll,scroll" in scroll
