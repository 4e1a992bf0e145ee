"""From the table of hints to what a broker hears."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from scale0_pipeline.errors import PipelineError
from scale0_pipeline.hints import document
from tests.core.desk import Desk
from tests.pipeline.whatif.recordings import HOUR_US, MONDAY_US, put_table

DAY = date(2026, 11, 2)
TEN_US = MONDAY_US + 10 * HOUR_US


def _hint(worker: str, made_us: int, **more: Any) -> dict[str, object]:
    row = {"day": DAY, "hint_id": f"{worker}-{made_us}", "kind": "damp", "subject": worker, "service": "resize"}
    times = {"evidence_from_us": made_us - 24 * HOUR_US, "evidence_to_us": made_us, "made_us": made_us}
    row |= {"bound": 0.2, "reason": "9 sessions", "completeness": 0.99, "mode": "shadow", "is_held_out": False}
    return {**row, **times, "expires_us": made_us + 2 * HOUR_US, **more}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Hints of nine and of ten o'clock; the hour from nine to ten is derived, and the one after has begun."""
    rows = [_hint("w0", TEN_US), _hint("w1", TEN_US, is_held_out=True), _hint("w2", TEN_US - HOUR_US)]
    put_table(tmp_path, "gold/hints", rows)
    hours = [TEN_US - HOUR_US, TEN_US]
    put_table(tmp_path, "gold/worker_1h", [{"day": DAY, "hour_us": hour, "worker": "w0"} for hour in hours])
    put_table(tmp_path, "facts/minute", [{"day": DAY, "minute_us": TEN_US}])
    return tmp_path


def _subjects(place: Path, now_us: int, **more: Any) -> list[str]:
    return [hint["subject"] for hint in document.current(str(place), now_us=now_us, **more)["hints"]]


def test_the_newest_whole_hour_alone_counts_and_not_what_is_held_out(place: Path) -> None:
    assert _subjects(place, TEN_US + HOUR_US // 2) == ["w0"]
    assert _subjects(place, TEN_US - 1) == ["w2"]
    assert _subjects(place, TEN_US + HOUR_US // 2, mode="off") == []


def test_hints_end_with_their_time_though_no_newer_hour_is_known(place: Path) -> None:
    assert _subjects(place, TEN_US + 3 * HOUR_US) == []


def test_a_broker_hears_the_document_as_it_is(place: Path) -> None:
    desk = Desk()
    desk.broker.state.wall_offset_s = TEN_US / 1e6 + 1800 - desk.now
    for n in range(10):
        desk.worker(f"w{n}", "resize")
    made = document.current(str(place), now_us=TEN_US + HOUR_US // 2, mode="enforce")
    assert desk.manage("hints", **made)["damped"] == ["w0"]
    later = document.current(str(place), now_us=TEN_US + HOUR_US // 2 + 1, mode="off")
    assert desk.manage("hints", **later)["hints"] == 0


def test_it_reads_as_text(place: Path) -> None:
    made = document.current(str(place), now_us=TEN_US + HOUR_US // 2)
    row = {"day": DAY, "hint_id": "x", "scored_us": TEN_US, "verdict": "helps"}
    put_table(place, "gold/hint_scores", [row, row, {**row, "verdict": "shadow"}])
    text = document.render(made, document.verdicts(str(place), now_us=TEN_US + HOUR_US))
    assert "1 worker to be asked last, mode shadow" in text
    assert "w0 (resize): 9 sessions; until 2026-11-02 12:00:00 UTC, evidence 99 % complete" in text
    assert "helps 2, shadow 1" in text


def test_an_unknown_mode_names_those_there_are(place: Path) -> None:
    with pytest.raises(PipelineError, match="enforce"):
        document.current(str(place), now_us=TEN_US, mode="always")
