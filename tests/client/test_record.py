"""Records: outcomes kept as they came, taken as values or errors."""

from __future__ import annotations

import pytest

from scale0.client import record as module
from scale0.client.record import END, Record, StreamRecord, too_many_parts
from scale0.errors import Overloaded, RemoteError, ServiceNotFound, TaskRefused, Unreachable
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Error, Status, TaskId, TaskReply

ID = make_id(id_prefix("client", bytes(8)), 7)


def reply(value: bytes = b"\x01", **fields: int) -> TaskReply:
    return TaskReply(ID, (value,), **fields)  # type: ignore[arg-type]


def test_outcome_wakes_who_waits() -> None:
    record, woken = Record("echo"), []
    record.wake = lambda: woken.append(True)
    record.settle(reply())
    assert (record.is_ready, woken, record.take()) == (True, [True], 1)


def test_each_kind_of_outcome_is_raised_or_returned() -> None:
    for outcome, kind in (
        (Error(code=404, text="no", detail={"near": "not a list"}), ServiceNotFound),
        (Error(code=413, text="too large"), TaskRefused),
        (reply(b"\xc1", status=int(Status.FAILED)), RemoteError),
        (Unreachable({}, 1.0), Unreachable),
    ):
        record = Record("echo")
        record.id = TaskId(ID)
        record.settle(outcome)
        with pytest.raises(kind):
            record.take()


def test_parts_are_taken_one_by_one_and_then_the_end() -> None:
    record = StreamRecord("count")
    record.add_part(reply(b"\x00"))
    assert record.take_part() == 0
    assert not record.is_ready
    record.add_part(reply(b"\x01", part=1))
    record.settle(TaskReply(ID, (), part=2))
    assert [record.take_part() for _ in range(3)] == [1, END, END]


def test_too_many_parts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTS_MAX", 2)
    record = StreamRecord("count")
    record.id = TaskId(ID)
    assert [record.add_part(reply(part=part)) for part in range(3)] == [True, True, False]
    assert isinstance(too_many_parts(record), Overloaded)
