"""How changes travel: each comes back as it was, whatever else comes is refused, and what has left is counted."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.core import stream
from scale0.core.stream import AnyChange, Change, Closed, Forgotten, Opened, Outgoing, Reset, packed, unpacked
from scale0.errors import ProtocolError
from scale0.protocol.limits import FRAME_BYTES_MAX, FRAMES_MAX, MESSAGE_BYTES_MAX
from tests.protocol import strategies as said

KINDS: tuple[type[Change], ...] = get_args(AnyChange)


def of_kind(kind: type[Change]) -> st.SearchStrategy[Any]:
    by_name: dict[str, st.SearchStrategy[Any]] = {
        "identity": said.name,
        "nonce": said.nonce,
        "key": said.name,
        "id": said.task_id,
        "role": st.sampled_from(["client", "worker"]),
        "config_type": st.sampled_from(["JSON", "XML", "ZPL"]),
        "interval_s": st.floats(0.001, 1000.0),
        "services": st.lists(said.name, max_size=3),
        "home": st.text(max_size=8),
        "offers": st.lists(st.tuples(said.name, st.booleans(), st.integers(1, 255)), max_size=3),
        "capacity": st.integers(0, 4096),
        "has_heartbeat": st.booleans(),
        "has_left": st.booleans(),
        "service": said.name,
        "worker": st.text(max_size=8),
        "body": said.body,
        "frames": said.body,
        "options": st.binary(max_size=20),
        "priority": st.integers(0, 3),
        "flags": said.U7,
        "send_time_us": said.I64,
        "remaining_ms": st.integers(1, 600_000),
        "attempt": st.integers(0, 255),
        "code": st.integers(100, 999),
        "text": st.text(max_size=20),
    }
    numbers = said.U64
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: by_name.get(field.name, numbers) for field in fields})


def read_or_refused(frames: tuple[bytes, ...]) -> None:
    """Any other exception fails the test."""
    try:
        listed = unpacked(frames)
    except ProtocolError as error:
        refused = error
    else:
        assert all(isinstance(change, Change) for change in listed)
        return
    assert refused.code == 400


changes = st.lists(st.one_of(*map(of_kind, KINDS)), max_size=5)


@given(changes)
def test_changes_come_back_as_they_were(listed: list[Any]) -> None:
    assert unpacked(packed(listed)) == listed


def test_long_list_of_changes_is_cut_into_frames_and_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FRAME_BYTES", 64)
    listed: list[Any] = [Closed(f"participant {number}") for number in range(20)]
    frames = packed(listed)
    assert len(frames) > 1
    assert all(len(frame) <= 64 for frame in frames)
    assert unpacked(frames) == listed


def test_one_message_carries_the_most_that_leaves_together() -> None:
    largest = stream.STREAMED_BYTES_MAX + stream.TOGETHER_BYTES_MAX
    assert stream.STREAMED_BYTES_MAX < MESSAGE_BYTES_MAX
    assert stream.FRAME_BYTES <= FRAME_BYTES_MAX
    assert largest / stream.FRAME_BYTES < FRAMES_MAX


@given(st.lists(st.binary(max_size=40), max_size=3).map(tuple))
def test_any_bytes_are_a_list_of_changes_or_are_refused(frames: tuple[bytes, ...]) -> None:
    read_or_refused(frames)


@given(said.anything)
def test_anything_else_in_msgpack_is_refused(value: Any) -> None:
    read_or_refused((msgspec.msgpack.encode([value]),))


@pytest.mark.parametrize(
    "change",
    [
        [99],
        [1, "ada", b"short", "client", 2.5, [], "", "JSON", 1, 1],
        [1, "ada", b"cccccccc", "broker", 2.5, [], "", "JSON", 1, 1],
        [1, "ada", b"cccccccc", "client", 0.0, [], "", "JSON", 1, 1],
        [3, "w", [["echo", True, 0]], 1, True, 2.5],
        [3, "w", [], 5000, True, 2.5],
        [5, b"short", "w", 1],
        [9, bytes(20), 99, "what"],
        [12, "ada", -1],
    ],
    ids=["kind", "nonce", "role", "interval", "attempts", "capacity", "id", "code", "floor"],
)
def test_change_out_of_its_bounds_is_refused(change: list[Any]) -> None:
    with pytest.raises(ProtocolError, match="STREAM"):
        unpacked((msgspec.msgpack.encode([change]),))


def test_numbers_of_changes_are_stable() -> None:
    numbers = {kind.__name__: kind.__struct_config__.tag for kind in KINDS}
    names = "Reset Opened Closed Announced Accepted Sent Returned Parted Replied Failed Dropped Cancelled Forgotten"
    assert numbers == {name: number for number, name in enumerate(names.split())}


# --- what has left --------------------------------------------------------------------------------------------------


def outgoing(*sizes: int) -> Outgoing:
    """So many changes in so many messages have left."""
    told = Outgoing(10.0, "back")
    for size in sizes:
        told.changes.extend(Closed("w") for _ in range(size))
        told.take(10.0)
    return told


def test_changes_leave_once_and_are_numbered() -> None:
    told = Outgoing(10.0, "back")
    told.changes.append(Reset())
    first = told.take(10.0)
    told.changes.append(Forgotten("ada", 2))
    second = told.take(10.0)
    assert (first.seq, second.seq, told.changes, told.bytes) == (1, 2, [], 0)
    assert unpacked(second.changes) == [Forgotten("ada", 2)]


def test_acknowledgement_counts_for_all_before_it() -> None:
    told = outgoing(1, 2, 3)
    assert (told.unacked_changes, told.is_in_sync) == (6, False)
    told.acknowledge(2, 11.0)
    assert (told.unacked_changes, told.acked) == (3, 2)
    told.acknowledge(3, 12.0)
    assert (told.unacked_changes, told.is_in_sync) == (0, True)


def test_acknowledgement_of_what_has_not_left_counts_for_what_has() -> None:
    told = outgoing(1)
    told.acknowledge(99, 11.0)
    assert told.acked == 1
    told.changes.append(Opened("w", b"wwwwwwww", "worker", 2.5, [], "", "JSON", 1, 0))
    told.take(11.0)
    assert not told.is_in_sync, "the next one is not acknowledged yet"


def test_older_acknowledgement_takes_nothing_back() -> None:
    told = outgoing(1, 1)
    told.acknowledge(2, 11.0)
    told.acknowledge(1, 12.0)
    assert (told.acked, told.is_in_sync) == (2, True)


def test_waiting_for_an_acknowledgement_begins_when_something_leaves() -> None:
    told = outgoing()
    told.changes.append(Reset())
    told.take(50.0)
    assert told.acked_s == 50.0
    told.changes.append(Closed("w"))
    told.take(52.0)
    assert told.acked_s == 50.0, "the first is not answered yet"
