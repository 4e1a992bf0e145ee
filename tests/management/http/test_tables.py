"""Trends and why: read from real tables without Spark; what is missing names the next command."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scale0.management.http import tables
from tests.management.http.support import Running, running
from tests.pipeline.report.sample import DAY, START_US, write
from tests.pipeline.why.lives import NONCE, lost_and_late, seal, task

MINUTE_US = 60_000_000


def minute(number: int, service: str, **more: Any) -> dict[str, Any]:
    at = {"day": DAY, "minute_us": START_US + number * MINUTE_US, "service": service}
    return {**at, "count": 60, "replied": 58, "p50_us": 8_000.0, "p99_us": 41_000.0, **more}


def fact(number: int, service: str, bucket: int, count: int) -> dict[str, Any]:
    at = {"day": DAY, "minute_us": START_US + number * MINUTE_US, "service": service}
    return {**at, "bucket": bucket, "count": count}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("data")
    minutes = [minute(number, service) for number in range(120) for service in ("render", "ocr")]
    write(place, "gold/service_1m", minutes)
    last = {"day": DAY, "minute_us": START_US + 119 * MINUTE_US, "service": "ocr", "bucket": -3, "count": 5}
    slow, fast = fact(10, "ocr", 512, 7), [fact(10, "render", 320, 40), fact(11, "render", 327, 2)]
    write(place, "facts/minute", [last, slow, *fast])
    hour = {"day": DAY, "hour_us": START_US, "broker": "eu-1", "recorded": 990, "counted": 1_000, "unknown": 0}
    write(place, "gold/completeness_1h", [hour])
    with running(data=str(place)) as page:
        yield page


def test_a_trend_is_columns_with_the_oldest_first(recorded: Running) -> None:
    trend = recorded.get("/api/v1/trends?table=service_1m&service=render").json()
    columns = trend["columns"]
    assert trend["rows"] == 120 == len(columns["minute_us"])
    assert columns["minute_us"] == [START_US + number * MINUTE_US for number in range(120)]
    assert set(columns["service"]) == {"render"}
    assert set(columns["p99_us"]) == {41_000.0}
    assert columns["p90_us"] == [None] * 120
    assert trend["completeness"] == pytest.approx(0.99)
    assert trend["lost"] == 10


def test_a_period_is_given_as_a_time_or_a_number(recorded: Running) -> None:
    since, until = START_US + 10 * MINUTE_US, START_US + 20 * MINUTE_US
    for query in ({"from": str(since), "to": str(until)}, {"from": f"{DAY}T00:10:00Z", "to": f"{DAY}T00:20:00"}):
        trend = recorded.get("/api/v1/trends", params={"service": "ocr", **query}).json()
        assert (trend["from_us"], trend["to_us"]) == (since, until)
        assert trend["rows"] == 10


def test_a_heat_map_counts_every_task_by_minute_and_quarter_octave(recorded: Running) -> None:
    period = {"from": str(START_US), "to": str(START_US + 120 * MINUTE_US)}
    heat = recorded.get("/api/v1/heat", params=period).json()
    assert (heat["since_us"], heat["step_us"], heat["columns"]) == (START_US, MINUTE_US, 120)
    assert list(zip(heat["column"], heat["row"], heat["count"], strict=True)) == [
        (10, 40, 40),
        (10, 64, 7),
        (11, 40, 2),
    ]
    heat = recorded.get("/api/v1/heat", params={"service": "ocr", **period}).json()
    assert (heat["column"], heat["count"]) == ([10], [7]), "what has no duration has no place in it"


def test_a_long_heat_map_has_wider_steps_and_the_longest_are_a_reports_work(recorded: Running) -> None:
    week = {"from": str(START_US), "to": str(START_US + 7 * 86_400_000_000)}
    heat = recorded.get("/api/v1/heat", params=week).json()
    assert heat["columns"] <= 180
    assert sum(heat["count"]) == 49
    answer = recorded.get("/api/v1/heat", params={"from": "0", "to": week["to"]})
    assert (answer.status_code, answer.json()["cure"]) == (
        413,
        "ask for a shorter period, or write a report: scale0 pipeline report",
    )


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_picture_has_a_cell_of_each_shade_levels_and_times(recorded: Running, theme: str) -> None:
    period = {"from": str(START_US), "to": str(START_US + 120 * MINUTE_US), "theme": theme}
    answer = recorded.get("/api/v1/heat.svg", params=period)
    assert answer.headers["content-type"] == "image/svg+xml"
    drawn = ElementTree.fromstring(answer.text)
    said = ["".join(one.itertext()) for one in drawn.iter() if one.tag.endswith(("text", "title"))]
    assert said == ["Latency of 49 tasks over time", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "00:00", "02:00"]
    assert sum(one.get("d", "").count("M") for one in drawn.iter() if one.tag.endswith("path")) == 3


def test_a_heat_map_of_nothing_is_empty(recorded: Running) -> None:
    answer = recorded.get("/api/v1/heat.svg?service=none")
    assert "Latency of 0 tasks over time" in answer.text


def test_a_table_that_was_never_made_is_empty_beside_others(recorded: Running) -> None:
    trend = recorded.get("/api/v1/trends?table=failovers").json()
    assert trend["rows"] == 0
    assert trend["columns"]["outage_us"] == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("table=nothing", "no table 'nothing'"),
        ("table=../silver/tasks", "no table"),
        ("table=failovers&service=x", "failovers has no column service"),
        ("from=yesterday", "from: 'yesterday' is no moment"),
        ("to=" + "9" * 30, "is no moment"),
        ("service=" + "x" * 200, "at most 128 characters"),
    ],
)
def test_a_trend_that_cannot_be_is_refused_with_why(recorded: Running, query: str, said: str) -> None:
    answer = recorded.get(f"/api/v1/trends?{query}")
    assert answer.status_code == 400
    assert said in answer.json()["text"]


def test_a_period_of_too_many_rows_is_refused_rather_than_cut(recorded: Running, monkeypatch: Any) -> None:
    monkeypatch.setattr(tables, "ROWS_MAX", 100)
    answer = recorded.get("/api/v1/trends?table=service_1m")
    assert answer.status_code == 413
    assert "name a service" in answer.json()["cure"]


def test_an_empty_place_names_the_command_that_comes_first(tmp_path: Path) -> None:
    with running(data=str(tmp_path)) as page:
        for path in ("/api/v1/trends", "/api/v1/why/7f3a"):
            answer = page.get(path)
            assert answer.status_code == 404
            assert "scale0 broker --telemetry" in answer.json()["cure"]
        (tmp_path / "catalogue").mkdir()
        answer = page.get("/api/v1/trends")
        assert answer.status_code == 404
        assert "scale0 pipeline run --once" in answer.json()["cure"]


def test_a_broker_that_records_nothing_says_how_it_would(page: Running) -> None:
    answer = page.get("/api/v1/trends")
    assert answer.status_code == 404
    assert answer.json()["cure"].endswith("scale0 broker --telemetry")


def test_without_the_extra_it_says_how_to_add_it(recorded: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    answer = recorded.get("/api/v1/trends")
    assert answer.status_code == 404
    assert "pip install 'scale0[pipeline]'" in answer.json()["cure"]


def test_a_task_that_nobody_recorded_is_not_found(recorded: Running) -> None:
    answer = recorded.get("/api/v1/why/7f3a")
    assert answer.status_code == 404
    for name in ("x" * 300, "%00", "%0a"):
        assert recorded.get(f"/api/v1/why/{name}").status_code == 400


def test_the_life_of_a_task_is_told_from_its_rows(tmp_path: Path) -> None:
    seal(tmp_path, [lost_and_late(), task(seq=11, sequence=119)])
    with running(data=str(tmp_path)) as page:
        life = page.get(f"/api/v1/why/web-1.{NONCE}.118").json()
        assert life["schema"] == "scale0.why/1"
        assert (life["code"], life["service"]) == (504, "render")
        assert life["steps"]
        several = page.get("/api/v1/why/web-1")
        assert several.status_code == 409
        assert f"web-1.{NONCE}.119" in several.json()["cure"]
