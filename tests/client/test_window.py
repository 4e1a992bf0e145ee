"""The window of `map`: order, bound and laziness, without any network."""

from __future__ import annotations

from itertools import count

import pytest

from scale0.client.record import Record
from scale0.client.window import IN_FLIGHT_MAX, Window
from scale0.errors import EncodingError, UsageError
from scale0.protocol.messages import TaskReply


def settle(record: Record) -> None:
    record.settle(TaskReply(record.id, (b"\xc0",)))


def test_first_fill_uses_all_room() -> None:
    window = Window("echo", count(), 16, object)
    assert len(window.refill()) == len(window.records) == 16


def test_refill_waits_for_a_batch_while_results_are_ready() -> None:
    window = Window("echo", count(), 16, object)
    window.refill()
    for record in window.records:
        settle(record)
    window.records.popleft()
    assert window.refill() == []
    window.records.popleft()
    assert len(window.refill()) == 2


def test_refill_never_waits_when_the_next_result_is_missing() -> None:
    window = Window("echo", count(), 16, object)
    window.refill()
    window.records.popleft()
    assert len(window.refill()) == 1


def test_end_of_the_items_ends_the_reading() -> None:
    window = Window("echo", range(3), 16, object)
    assert len(window.refill()) == 3
    window.records.clear()
    assert window.refill() == []


def test_item_that_cannot_be_encoded_keeps_its_place() -> None:
    window = Window("echo", [1, object(), 3], 16, object)
    assert len(window.refill()) == 2
    broken = window.records[1]
    assert broken.is_ready
    with pytest.raises(EncodingError):
        broken.take()


@pytest.mark.parametrize("in_flight", [0, -1, IN_FLIGHT_MAX + 1])
def test_bound_must_make_sense(in_flight: int) -> None:
    with pytest.raises(UsageError):
        Window("echo", [], in_flight, object)
