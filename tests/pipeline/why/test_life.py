"""Lives, told from rows that are known."""

from __future__ import annotations

import pytest

from scale0_pipeline.why.find import Found, Row
from scale0_pipeline.why.life import Life, tell
from tests.pipeline.why.lives import (
    AT_US,
    UNTOLD,
    S,
    attempt,
    failed_over,
    forwarded,
    lost_and_late,
    note,
    refused,
    task,
)


def life(*rows: Row, notes: list[Row] | None = None, completeness: float | None = 1.0) -> Life:
    return tell(Found("id", list(rows), notes or [], is_from_segments=False), completeness)


def steps(one: Life) -> list[tuple[int | None, int | None, str]]:
    return [(step.at_us, step.error_us, step.text) for step in one.steps]


def test_a_plain_reply_is_told_in_the_brokers_time_with_the_errors_of_other_clocks() -> None:
    one = life(task())
    assert steps(one) == [
        (-2_000, 512, "sent by web-1"),
        (0, 0, "received by eu-1"),
        (3_000, 0, "attempt 1 → w-15 (2 of 4 had room)"),
        (8_000, 256, "w-15 began after 1 ms in its own queue"),
        (38_000, 256, "w-15 replied"),
        (40_000, 0, "replied"),
    ]
    assert [(share.part, share.us) for share in one.shares] == [
        ("queue", 3_000),
        ("worker", 31_000),
        ("network", 6_000),
    ]
    assert one.cause == "77.5 % of the time went to the worker"
    assert one.record == "record complete"


def test_a_clock_that_was_not_measured_leaves_a_dash() -> None:
    one = life(task(client_offset_us=None, worker_offset_us=None, client_error_us=None))
    assert (None, None, "sent by web-1, whose clock was not measured") in steps(one)
    assert not [text for _, _, text in steps(one) if "w-15 replied" in text]


def test_an_offset_without_an_error_has_an_unknown_one() -> None:
    assert steps(life(task(client_error_us=None)))[0] == (-2_000, None, "sent by web-1")


def test_a_lost_worker_and_a_late_retry_are_both_told() -> None:
    noted = [note("session", "w-12", "lost", 3.4, why="silent 3×1 s"), note("session", "w-99", "lost", 3.4, why="no")]
    one = life(lost_and_late(), notes=noted)
    assert [text for _, _, text in steps(one)][1:] == [
        "received by eu-1",
        "attempt 1 → w-12",
        "w-12 lost: silent 3×1 s",
        "attempt 2 → w-15 (1 of 4 had room, 3 tasks waiting)",
        "deadline, in flight",
    ]
    assert one.cause == "w-12 lost; attempt 2 was at w-15 for 3.47 s and had no answer"
    assert [(share.part, share.us) for share in one.shares] == [("queue", 3_123_000), ("worker", 6_877_000)]


def test_a_retry_that_waited_most_of_its_time_says_so() -> None:
    row = task(code=504, outcome="error", dispatched_us=AT_US + 8 * S, ts_us=AT_US + 10 * S, free=1, **UNTOLD)
    assert life(row).cause == "attempt 1 waited 8 s (1 of 4 had room)"


def test_a_retry_that_answered_counts_the_lost_attempt_apart() -> None:
    row = task(attempts=[attempt("w-12", 0.001, 0.002)], attempt=2)
    one = life(row)
    assert one.cause == "w-12 lost; attempt 2 answered"
    assert {share.part: share.us for share in one.shares}["lost attempts"] == 1_000
    assert sum(share.us for share in one.shares) == one.latency_us


def test_a_forwarded_task_is_placed_in_the_room_that_its_origin_leaves() -> None:
    one = life(*forwarded())
    told = {text: (at_us, error_us) for at_us, error_us, text in steps(one)}
    assert told["attempt 1 → broker us-1 (2 of 4 had room)"] == (5_000, 0)
    assert told["received by us-1"] == (10_000, 5_000)  # 30 ms of room, 20 ms used: in the middle, give or take 5 ms
    assert told["us-1 → w-us (2 of 4 had room)"] == (12_000, 5_000)
    assert told["w-us replied"] == (29_000, 5_256)  # the errors of both clocks add up
    assert told["us-1 settled it: 200 replied"] == (30_000, 5_000)
    assert {share.part: share.us for share in one.shares} == {"queue": 7_000, "worker": 16_000, "network": 12_000}


def test_a_relay_that_took_longer_than_it_could_has_no_place_in_time() -> None:
    origin, relay = forwarded()
    relay["ts_us"] += S
    assert (None, None, "us-1 ran it as 200 replied in 1.02 s") in steps(life(origin, relay))


def test_a_relay_whose_row_is_missing_makes_the_record_incomplete() -> None:
    one = life(forwarded()[0])
    assert one.missing == ["no row of us-1, which ran it"]
    assert one.record == "record incomplete: no row of us-1, which ran it"


def test_a_relays_row_alone_is_told_as_what_it_is() -> None:
    one = life(forwarded()[1])
    assert one.missing == ["the broker that settled it has not told yet, or its rows are lost"]
    assert one.broker == "us-1"


def test_a_refused_task_has_no_shares_and_one_cause() -> None:
    one = life(refused())
    assert one.shares == []
    assert one.cause == "a limit was reached when it came"
    assert [text for _, _, text in steps(one)] == ["sent by web-1", "refused by eu-1"]


def test_a_task_that_was_settled_twice_keeps_its_first_settlement() -> None:
    one = life(*failed_over())
    assert (one.broker, one.settlements) == ("eu-1", 2)
    assert steps(one)[-1] == (2 * S, None, "settled again by eu-1b as 200 replied; the client keeps the first")


def test_rows_that_the_recorder_lost_then_are_told() -> None:
    one = life(task(), notes=[note("dropped", "", "", 1, value=1_240), note("dropped", "", "", 9_000, value=3)])
    assert one.missing == ["the recorder of eu-1 lost 1,240 rows then"]


@pytest.mark.parametrize(
    ("completeness", "record"),
    [(None, "completeness not known"), (1.0, "record complete"), (0.98, "98 % recorded around it")],
)
def test_the_record_around_it_is_judged(completeness: float | None, record: str) -> None:
    assert life(task(), completeness=completeness).record == record


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        (
            {"code": 408, "dispatched_us": None, **UNTOLD},
            "none of 4 workers had a free slot in the 40 ms that it waited",
        ),
        (
            {"code": 408, "dispatched_us": None, "workers": 0},
            "there was no worker of render in the 40 ms that it waited",
        ),
        ({"code": 502, **UNTOLD}, "w-15 lost; the service may not be repeated, so nobody tried again"),
        ({"code": 500, "outcome": "failed"}, "the handler raised at w-15 after 30 ms"),
        ({"code": 499}, "its client cancelled it"),
        ({"code": 404, "outcome": "refused"}, "nobody offered the service"),
        ({"code": 418}, "it ended with code 418"),
    ],
)
def test_every_bad_end_has_a_cause(changes: dict[str, object], cause: str) -> None:
    assert life(task(**{"outcome": "error", **changes})).cause == cause


def test_a_broken_note_is_no_reason_to_fail() -> None:
    broken = note("session", "w-12", "lost", 3.4)
    broken["detail"] = "[1"
    assert "w-12 lost" in [text for _, _, text in steps(life(lost_and_late(), notes=[broken]))]
