"""Frames: what is put together comes apart the same, and what is torn is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.events import Attempt, Note, Records
from scale0.telemetry import frames
from scale0.telemetry.frames import Goodbye, Hello, Kind, Malformed, Order
from tests.telemetry.rows import HELLO, NAMES, note, task

RECORDS = Records(
    NAMES, [Attempt(2, "w", "", 1.0, 2.0, "lost")], [note(1, detail={"a": [1, None]})], [task(2), task(3)], True
)


def test_records_come_out_in_the_order_in_which_they_must_be_read() -> None:
    found = dict(frames.split(frames.encode(RECORDS)))
    assert list(found) == [Kind.NAMES, Kind.ATTEMPTS, Kind.NOTES, Kind.TASKS, Kind.FORGET]
    assert frames.read_names(found[Kind.NAMES]) == NAMES
    assert frames.read_attempts(found[Kind.ATTEMPTS]) == RECORDS.attempts
    assert frames.read_notes(found[Kind.NOTES]) == RECORDS.notes
    assert bytes(found[Kind.TASKS]) == b"".join(RECORDS.tasks)


def test_what_is_empty_has_no_frame() -> None:
    assert frames.encode(Records([], [], [], [])) == b""


def test_order_hello_and_goodbye_are_read_as_they_were_said() -> None:
    order = Order("dir", "s3://bucket", 1.5, 7, {"s": 10})
    said = b"".join(
        [frames.frame(Kind.ORDER, order), frames.frame(Kind.HELLO, HELLO), frames.frame(Kind.GOODBYE, Goodbye(9, 1.5))]
    )
    (_, first), (_, second), (_, third) = frames.split(said)
    assert frames.read_order(first) == order
    assert frames.read_hello(second) == HELLO
    assert frames.read_goodbye(third) == Goodbye(9, 1.5, clean=True)


def test_only_whole_frames_are_whole() -> None:
    chunk = frames.encode(RECORDS)
    ends = [0]
    for kind, payload in frames.split(chunk):
        assert kind
        ends.append(ends[-1] + frames.HEAD_BYTES + len(payload))
    for size in range(len(chunk) + 1):
        assert frames.whole(chunk[:size]) == max(end for end in ends if end <= size)


@pytest.mark.parametrize("wrong", [b"\xff\x00\x00\x00\x00", b"\x06\x01\x00\x00\x00a", b"\x06\xff\xff\xff\xff", b"\x03"])
def test_bytes_that_are_no_frames_are_malformed(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        list(frames.split(wrong))


def test_a_frame_that_is_announced_too_long_is_malformed() -> None:
    with pytest.raises(Malformed, match="is no frame"):
        frames.whole(b"\x06\xff\xff\xff\xff")


@given(cut=st.integers(min_value=0), chunks=st.lists(st.binary(min_size=1, max_size=50), max_size=5))
def test_a_log_that_is_cut_anywhere_has_all_whole_chunks(cut: int, chunks: list[bytes]) -> None:
    content = b"".join(frames.log_head(chunk) + chunk for chunk in chunks)
    cut %= len(content) + 1
    found = list(frames.read_log(content[:cut]))
    assert found == chunks[: len(found)]
    sizes = [len(chunk) + frames.LOG_HEAD_BYTES for chunk in chunks]
    assert len(found) == sum(sum(sizes[: index + 1]) <= cut for index in range(len(sizes)))


@given(at=st.integers(min_value=0), by=st.integers(1, 255))
def test_a_log_is_read_up_to_what_was_damaged(at: int, by: int) -> None:
    chunks = [b"first", b"second", b"third"]
    content = bytearray(b"".join(frames.log_head(chunk) + chunk for chunk in chunks))
    at %= len(content)
    content[at] ^= by
    found = list(frames.read_log(bytes(content)))
    assert found == chunks[: len(found)]
    assert len(found) < 3


def test_what_later_rows_need_is_left_of_a_chunk_that_is_let_go() -> None:
    anchor = Note(3, 1.0, "anchor", value=5)
    lost = frames.encode(Records([(1, "a")], [], [note(2), anchor], [task(1)]))
    more = frames.encode(Records([(2, "b")], [], [], [task(4)], is_forgetting=True))
    again = frames.encode(Records([(1, "c")], [], [], [task(5)]))
    hello = frames.frame(Kind.HELLO, Hello("b", "boot", 1))
    found = list(frames.split(frames.without_rows(lost + more + hello + again)))
    assert [kind for kind, _ in found] == [Kind.FORGET, Kind.NAMES, Kind.NOTES, Kind.HELLO]
    assert frames.read_names(found[1][1]) == [(1, "c")]
    assert frames.read_notes(found[2][1]) == [anchor]
