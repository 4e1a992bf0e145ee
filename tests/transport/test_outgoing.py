"""Effects of a burst on their way out: what is bundled, what is not, in which order, and what fails."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import zmq

from scale0.core.effects import Alarm, Effect, Route, Send
from scale0.protocol import codec, dialects
from scale0.protocol.bundles import is_bundle, unbundle
from scale0.protocol.ids import make_id
from scale0.protocol.limits import BUNDLED_BYTES_MAX
from scale0.protocol.messages import Ping, Task
from scale0.transport.outgoing import Outgoing

TAKES = Route(b"\x00takes")
ALSO = Route(b"\x00also")
PLAIN = Route(b"\x00plain")
GONE = Route(b"\x00gone")
ELSEWHERE = Route(b"\x07takes")  # through a port that is not open


class Wire:
    """A port that writes down what it is given, and somebody who hears of everything else."""

    index = 0

    def __init__(self) -> None:
        self.out: list[tuple[bytes, list[bytes]]] = []  # whom, and the frames
        self.rare: list[tuple[Effect, int]] = []  # with how many messages had left before
        self.failed: list[tuple[Send, int | None]] = []
        self.bugs: list[str] = []
        self.follow_ups: list[Effect] = []
        self.outgoing = Outgoing(lambda route: route != PLAIN, self._rare, self._failed, self.bugs.append)
        self.outgoing.add_port(self)  # type: ignore[arg-type]
        self._is_begun = False

    def send(self, frame: bytes, flags: int, copy: bool = True, track: bool = False) -> Any:
        if not self._is_begun:
            if frame == GONE[1:]:
                raise zmq.ZMQError(errno.EHOSTUNREACH)
            self.out.append((frame, []))
        else:
            self.out[-1][1].append(frame)
        self._is_begun = bool(flags & zmq.SNDMORE)
        return zmq.MessageTracker() if track else None

    def _rare(self, effect: Effect) -> None:
        self.rare.append((effect, len(self.out)))

    def _failed(self, send: Send, number: int | None, now: float) -> list[Effect]:
        self.failed.append((send, number))
        return self.follow_ups

    def carry_out(self, *effects: Effect) -> list[Effect]:
        return self.outgoing.carry_out(list(effects), 1.0)

    def heard_by(self, route: Route) -> list[list[Any]]:
        """What left for `route`: of each message of ZeroMQ's, the messages in it."""
        return [_messages(frames) for to, frames in self.out if to == route[1:]]


def _messages(frames: list[bytes]) -> list[Any]:
    parts = [[part] for part in unbundle(frames[0])] if is_bundle(frames[0]) else [frames]
    return [codec.decode(part)[1] for part in parts]


def ping(number: int) -> Ping:
    return Ping(time_us=number)


def task(size: int, frames: int = 1) -> Task:
    return Task(make_id(b"nonce-00client", 1), "echo", (b"x" * size,) * frames, 1000)


def to(route: Route, message: Any) -> Send:
    return Send(route, dialects.CLIENT, message)


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_what_a_burst_has_for_one_connection_leaves_as_a_bundle(wire: Wire) -> None:
    wire.carry_out(to(TAKES, ping(1)), to(ALSO, ping(2)), to(TAKES, ping(3)), to(ALSO, ping(4)))
    assert wire.heard_by(TAKES) == [[ping(1), ping(3)]]
    assert wire.heard_by(ALSO) == [[ping(2), ping(4)]]
    assert wire.outgoing.sent == 4


def test_single_message_leaves_as_it_is(wire: Wire) -> None:
    wire.carry_out(to(TAKES, ping(1)), to(ALSO, ping(2)))
    assert [frames for _, frames in wire.out] == [codec.encode(dialects.CLIENT, ping(number)) for number in (1, 2)]


def test_who_takes_no_bundles_gets_none(wire: Wire) -> None:
    wire.carry_out(to(PLAIN, ping(1)), to(PLAIN, ping(2)))
    assert wire.heard_by(PLAIN) == [[ping(1)], [ping(2)]]


def test_large_message_travels_alone_and_in_its_place(wire: Wire) -> None:
    large, framed = task(BUNDLED_BYTES_MAX), task(10, frames=2)
    sends = [to(TAKES, message) for message in (ping(1), ping(2), large, ping(3), framed, ping(4), ping(5))]
    wire.carry_out(*sends)
    assert wire.heard_by(TAKES) == [[ping(1), ping(2)], [large], [ping(3)], [framed], [ping(4), ping(5)]]


def test_what_stands_before_an_effect_of_another_kind_has_left_before_it_is_carried_out(wire: Wire) -> None:
    alarm = Alarm("kept", "on disk")
    wire.carry_out(to(TAKES, ping(1)), to(TAKES, ping(2)), alarm, to(TAKES, ping(3)))
    assert wire.heard_by(TAKES) == [[ping(1), ping(2)], [ping(3)]]
    assert wire.rare == [(alarm, 1)]


def test_each_message_of_a_bundle_that_failed_is_told_and_what_follows_is_returned(wire: Wire) -> None:
    wire.follow_ups = [to(TAKES, ping(9))]
    sends = [to(GONE, ping(number)) for number in range(3)]
    assert wire.carry_out(*sends, to(TAKES, ping(5))) == wire.follow_ups * 3
    assert wire.failed == [(send, errno.EHOSTUNREACH) for send in sends]
    assert wire.heard_by(TAKES) == [[ping(5)]]
    assert wire.outgoing.sent == 1


def test_connection_through_a_port_that_is_not_open_cannot_be_reached(wire: Wire) -> None:
    wire.carry_out(to(ELSEWHERE, ping(1)), to(ELSEWHERE, ping(2)))
    assert [number for _, number in wire.failed] == [errno.EHOSTUNREACH] * 2


def test_message_that_cannot_be_encoded_is_left_out_of_its_bundle(wire: Wire) -> None:
    wire.carry_out(to(TAKES, ping(1)), to(TAKES, "no message"), to(TAKES, ping(2)))
    assert wire.heard_by(TAKES) == [[ping(1), ping(2)]]
    assert wire.bugs == ["encoding str"]
