"""Verdicts, order and advice of services and workers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from scale0.cli import views
from scale0.cli.views import SERVICES, WORKERS, BrokerInfo, Row
from tests.cli.canned import bare_service, service, worker

EU = BrokerInfo("eu-1", "active", 1, "1.42.00c0ffee", 0)


@pytest.mark.parametrize(
    ("rows", "fill", "sentence"),
    [
        ([], "off", "no service yet (eu-1, config v42)"),
        ([service("a")], "ok", "1 service, all served (eu-1, config v42)"),
        ([service("a", state="full"), service("b")], "ok", "2 services, 1 with every slot taken (eu-1, config v42)"),
        ([service("a"), bare_service("ocr")], "warn", "2 services, 1 without workers (eu-1, config v42)"),
        ([bare_service("ocr")], "bad", "1 service, 1 without workers (eu-1, config v42)"),
    ],
)
def test_services_have_a_verdict(rows: Sequence[Row], fill: str, sentence: str) -> None:
    assert SERVICES.verdict(rows, EU) == (fill, sentence)


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        ([service("a")], ""),
        ([], "scale0 worker module:app   (no worker has announced a service)"),
        ([bare_service("ocr"), service("a")], "scale0 worker module:app   (one that serves ocr)"),
        ([bare_service("a"), bare_service("b")], "scale0 worker module:app   (one that serves a and 1 more)"),
        (
            [service("slow", state="full", oldest_us=3_100_000)],
            "scale0 worker module:app   (tasks of slow wait 3.1 s for a slot)",
        ),
    ],
)
def test_services_come_with_the_next_command_only_when_there_is_one(rows: Sequence[Row], advice: str) -> None:
    assert SERVICES.advise(rows) == advice


def test_services_without_workers_come_first() -> None:
    rows = [service("b"), service("a"), service("c", state="full"), bare_service("z")]
    assert [row["name"] for row in sorted(rows, key=SERVICES.rank)] == ["z", "c", "a", "b"]


@pytest.mark.parametrize(
    ("rows", "fill", "sentence"),
    [
        ([], "bad", "no worker is connected (eu-1, config v42)"),
        ([worker("w-1")], "ok", "1 worker, 2 of 8 slots busy (eu-1, config v42)"),
        (
            [worker("w-1"), worker("w-2", state="draining")],
            "ok",
            "2 workers, 4 of 16 slots busy, 1 draining (eu-1, config v42)",
        ),
        ([worker("w-1", heartbeat_age_us=2_900_000)], "warn", "1 worker, 1 silent (eu-1, config v42)"),
        ([worker("w-1", stuck=1)], "warn", "1 worker, 1 slot stuck (eu-1, config v42)"),
    ],
)
def test_workers_have_a_verdict(rows: Sequence[Row], fill: str, sentence: str) -> None:
    assert WORKERS.verdict(rows, EU) == (fill, sentence)


def test_workers_come_in_order_of_use_with_problems_first() -> None:
    rows = [
        worker("full", state="full", lru=None),
        worker("second", lru=2),
        worker("first", lru=1),
        worker("silent", lru=3, heartbeat_age_us=9_000_000),
    ]
    assert [row["identity"] for row in sorted(rows, key=WORKERS.rank)] == ["silent", "first", "second", "full"]


def test_a_stuck_worker_is_named_in_the_advice() -> None:
    told = WORKERS.advise([worker("w-1"), worker("w-2", stuck=3)])
    assert told == "restart w-2   (its handlers run on for tasks that are settled)"  # late, or cancelled


def test_a_row_from_another_version_shows_what_is_unknown() -> None:
    for view in (SERVICES, WORKERS):
        cells = view.cells({})
        assert len(cells) == len(view.columns)
        assert "–" in str(cells[0])


@pytest.mark.parametrize(("offset_us", "shown"), [(-300, "0"), (300, "0"), (-1_600, "−2"), (1_600, "+2"), (None, "–")])
def test_a_clock_that_is_right_is_off_by_nothing(offset_us: int | None, shown: str) -> None:
    cells = [str(cell) for cell in WORKERS.cells(worker("w-1", clock_offset_us=offset_us))]
    assert cells[[column.title for column in WORKERS.columns].index("CLOCK ms")] == shown


def test_a_clock_is_shown_with_its_sign() -> None:
    cells = [str(cell) for cell in WORKERS.cells(worker("w-1", clock_offset_us=12_000))]
    assert "+12" in cells
    assert "−1" in [str(cell) for cell in WORKERS.cells(worker("w-1"))]


@pytest.mark.parametrize(("version", "shown"), [("1.42.00c0ffee", "v42"), (7, "v7"), ("", "v0"), ("42", "v42")])
def test_a_config_version_is_shown_by_its_number(version: str | int, shown: str) -> None:
    assert BrokerInfo(config_version=version).config == shown


def test_words_agree_with_their_number() -> None:
    assert views.count(1, "worker") == "1 worker"
    assert views.count(1_204, "reply", "replies") == "1,204 replies"
