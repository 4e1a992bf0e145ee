"""The digest covers all that happened, however much of it waits to be hashed."""

from __future__ import annotations

from scale0.simulator.trace import UNHASHED_MAX, Trace

FRAMES = [b"SC0C01\x08", b"body"]


def digest_of(messages: int, *, asked_between: bool = False, last: bytes = b"body") -> str:
    trace = Trace()
    for number in range(messages):
        trace.message(number, "client0#1", "broker0", FRAMES)
        if asked_between and number % 7 == 0:
            trace.digest()
    trace.message(messages, "client0#1", "broker0", [last])
    return trace.digest()


def test_the_digest_does_not_depend_on_when_it_is_asked_for() -> None:
    assert digest_of(UNHASHED_MAX) == digest_of(UNHASHED_MAX, asked_between=True)


def test_one_other_byte_at_the_end_makes_another_digest() -> None:
    assert digest_of(UNHASHED_MAX) != digest_of(UNHASHED_MAX, last=b"bodz")
