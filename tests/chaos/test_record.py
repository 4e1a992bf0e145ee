"""What is counted in a record: rows, losses that are told, and losses that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scale0.telemetry.catalogue import Entry
from tests.chaos.record import DARK_MAX, Record

PID = 77
PROCESSES = {("b1", PID): [1, 2]}
ENDED = {("c", "pay"): 2}


def row(seq: int, kind: str, broker: str = "b1", boot: str = "boot", **cells: Any) -> dict[str, Any]:
    detail = cells.pop("detail", None)
    known = dict.fromkeys(("role", "service", "client", "nonce", "sequence", "outcome", "subject", "value"))
    told = json.dumps(detail) if detail else None
    return {"broker": broker, "boot": boot, "seq": seq, "kind": kind, "detail": told, **known, **cells}


def task(seq: int, outcome: str = "replied") -> dict[str, Any]:
    return row(seq, "task", role="origin", service="pay", client="c", nonce="00", sequence=seq, outcome=outcome)


def begin() -> dict[str, Any]:
    return row(1, "boot", detail={"pid": PID})


def end(last: int, *, clean: bool = True) -> dict[str, Any]:
    return row(last + 1, "boot_end", value=last, detail={"clean": clean})


def gauge(seq: int, replied: int, refused: int = 0) -> dict[str, Any]:
    return row(seq, "gauge", detail={"last_seq": seq - 1, "replied": replied, "errored": 0, "refused": refused})


def dropped(low: int, high: int) -> dict[str, Any]:
    return row(high, "dropped", value=high - low + 1, detail={"seq_lo": low, "seq_hi": high, "why": "disk"})


def heard(last: int) -> dict[str, Any]:
    return row(1, "peer_gauge", "b2", "other", subject="b1", value=last, detail={"boot": "boot"})


def record_of(*rows: dict[str, Any]) -> Record:
    record = Record()
    for one in rows:
        record.read(one)
    return record


def breaches(*rows: dict[str, Any]) -> list[str]:
    return record_of(*rows).breaches(PROCESSES, ENDED)


def test_a_whole_record_has_no_breach() -> None:
    record = record_of(begin(), task(2), task(3), gauge(4, replied=2), end(4))
    assert record.breaches(PROCESSES, ENDED) == []
    assert (record.recorded, record.told, record.heard) == (4, 0, 0)
    assert "completeness 100.00 %" in record.sum()


def test_losses_that_are_told_make_it_whole() -> None:
    record = record_of(begin(), task(2), dropped(3, 5), gauge(6, replied=2), end(6))
    assert record.breaches(PROCESSES, ENDED) == []
    assert (record.recorded, record.told) == (3, 3)


def test_a_gap_of_the_catalogue_tells_of_a_loss() -> None:
    record = record_of(begin(), gauge(4, replied=2), end(4))
    record.read_gap(
        Entry(
            broker="b1", boot="boot", path="", seq_lo=2, seq_hi=3, rows=2, tasks=2, ts_lo_us=0, ts_hi_us=0, sealed_us=0
        )
    )
    assert record.breaches(PROCESSES, ENDED) == []


def test_a_hole_that_nobody_tells_of_is_a_breach() -> None:
    (breach,) = breaches(begin(), task(2), task(5), end(5))
    assert "rows 3…4 (2) are neither there nor told as lost" in breach


def test_a_row_that_is_there_twice_is_a_breach() -> None:
    (breach,) = breaches(begin(), task(2), task(3), task(3), end(3))
    assert "row 3 is recorded 2 times" in breach


def test_a_row_that_is_there_and_told_as_lost_is_a_breach() -> None:
    (breach,) = breaches(begin(), task(2), task(3), dropped(3, 4), end(4))
    assert "rows 3 are told as lost, and are there" in breach


@pytest.mark.parametrize("ends", [(), (end(3), row(5, "boot_end", value=3, detail={"clean": False}))])
def test_a_run_has_one_end(ends: tuple[dict[str, Any], ...]) -> None:
    assert any(f"its record has {len(ends)} ends" in breach for breach in breaches(begin(), task(2), task(3), *ends))


def test_tasks_that_were_counted_and_are_not_there_are_a_breach() -> None:
    found = breaches(begin(), task(2), task(3), gauge(4, replied=3), end(4))
    assert "by row 3 it had settled 3 tasks; 2 are recorded and 0 rows told as lost" in found[0]


def test_rows_that_peers_heard_of_are_lost_with_a_killed_broker_and_with_no_other() -> None:
    rows = (begin(), task(2), task(3))
    record = record_of(*rows, end(3, clean=False), heard(9))
    assert record.heard == 6
    assert not [breach for breach in record.breaches(PROCESSES, ENDED) if "b1" in breach]
    assert any("peers have heard of 9" in breach for breach in breaches(*rows, end(3), heard(9)))


def test_a_process_without_a_record_is_a_breach() -> None:
    assert Record().breaches(PROCESSES, {}) == ["record of b1: there is none of its process 77"]


def test_a_process_that_only_peers_tell_of_is_lost_and_known() -> None:
    record = record_of(heard(9))
    assert record.heard == 9
    assert [breach for breach in record.breaches(PROCESSES, {}) if "b1" in breach] == []
    two = {**PROCESSES, ("b1", PID + 1): [1]}
    assert [breach for breach in record.breaches(two, {}) if "b1" in breach] == [
        "record of b1: there is none of its process 78"
    ]


def test_fewer_rows_than_a_process_was_seen_to_have_settled_are_a_breach() -> None:
    record = record_of(begin(), task(2), task(3), end(3))
    (breach,) = record.breaches({("b1", PID): [1, 3]}, ENDED)
    assert "process 77 had settled 3 tasks, and 2 are known" in breach
    killed = record_of(begin(), task(2), task(3), end(3, clean=False))
    assert killed.breaches({("b1", PID): [1, 3]}, ENDED) == [], "the last look may have been just before"


def test_outcomes_without_a_row_are_a_breach_unless_they_may_be_of_a_last_moment() -> None:
    ended = {("c", "pay"): 2 + DARK_MAX}
    clean = record_of(begin(), task(2), task(3), end(3))
    (breach,) = clean.breaches(PROCESSES, ended)
    assert f"{DARK_MAX} tasks that ended have no row" in breach
    killed = record_of(begin(), task(2), task(3), end(3, clean=False))
    assert killed.breaches(PROCESSES, ended) == []
    assert killed.breaches(PROCESSES, {("c", "pay"): 3 + DARK_MAX}) != []


def test_more_rows_than_a_client_had_tasks_are_a_breach() -> None:
    (breach,) = record_of(begin(), task(2), task(3), end(3)).breaches(PROCESSES, {("c", "pay"): 1})
    assert "c had 1 tasks of pay, and 2 are recorded" in breach
