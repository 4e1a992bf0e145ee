"""What Prometheus reads: valid in both formats, with names, units and a bounded number of labels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from scale0.management.http.metrics import OTHER, SERVICES_MAX, gather
from tests.management.http.fake_door import FakeDoor
from tests.management.http.fake_page import make_site
from tests.management.http.support import Running, running

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
UNBOUNDED = {"client", "worker", "task", "id", "identity_of", "connection", "user", "source"}


def samples(text: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for family in read_text(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def test_figures_come_with_names_units_and_help(page: Running) -> None:
    answer = page.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = samples(answer.text)
    assert all(name.startswith("scale0_") for name in found)
    assert found["scale0_up"][0].value == 1
    assert found["scale0_tasks_accepted_total"][0].value == 120_400
    assert found["scale0_process_cpu_ratio"][0].value == pytest.approx(0.375)
    assert found["scale0_process_resident_memory_bytes"][0].value == 88_000_000
    ocr = next(one for one in found["scale0_service_oldest_seconds"] if one.labels == {"service": "ocr"})
    assert ocr.value == pytest.approx(8.2)
    assert {one.labels["state"]: one.value for one in found["scale0_state"]}["active"] == 1
    assert found["scale0_alarms"][0].labels == {"name": "service_without_worker", "severity": "bad"}
    assert found["scale0_broker_info"][0].labels["network"] == "prod"
    for family in read_text(answer.text):
        assert family.documentation


def test_the_scraper_chooses_the_format(page: Running) -> None:
    answer = page.get("/metrics", headers={"Accept": OPENMETRICS})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    families = {family.name: family for family in read_openmetrics(answer.text)}  # type: ignore[no-untyped-call]
    assert families["scale0_tasks_accepted"].type == "counter"
    assert families["scale0_service_queued"].type == "gauge"


def test_labels_are_bounded_however_many_services_there_are() -> None:
    with running(FakeDoor(workers=20, services=SERVICES_MAX + 150)) as page:
        text = page.get("/metrics").text
        rows = page.get("/api/v1/services?limit=10000").json()["rows"]
    found = samples(text)
    named = {one.labels["service"]: one.value for one in found["scale0_service_workers"]}
    assert len(named) == SERVICES_MAX + 1
    assert sum(named.values()) == sum(row["workers"] for row in rows)
    assert named[OTHER] > 0
    shown = max(row["p99_us"] for row in rows if row["name"] not in named and row["p99_us"]) * 1e-6
    worst = next(one.value for one in found["scale0_service_latency_p99_seconds"] if one.labels["service"] == OTHER)
    assert worst == pytest.approx(shown)
    labels = {label for each in found.values() for one in each for label in one.labels}
    assert not labels & UNBOUNDED


def test_what_is_not_known_is_not_there() -> None:
    async def run() -> None:
        door = FakeDoor()
        door.lists["brokers"][0] |= {"cpu_percent": None, "counters": None, "queued": True}
        names = {family.name for family in await gather(make_site(door))}
        assert "scale0_process_cpu_ratio" not in names
        assert "scale0_tasks_queued" not in names
        assert "scale0_workers" in names

    asyncio.run(run())


def test_a_broker_that_does_not_answer_is_not_up() -> None:
    with running() as page:
        page.do(page.door.silence)
        answer = page.get("/metrics")
        assert answer.status_code == 200
        assert samples(answer.text)["scale0_up"][0].value == 0
