from __future__ import annotations

import io
import select
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from scale0.errors import PortTaken
from scale0.protocol import codec, dialects
from scale0.protocol.messages import ConfigAck, ConfigVersion, Ping
from scale0.transport.announcements import HEARD_MAX, PREFIX, UNHEARD_MAX, Listener, Publisher
from scale0.transport.logs import make_log
from scale0.transport.sockets import make_context

ANY = "tcp://127.0.0.1:0"
LIMIT_S = 60.0


def saying(number: int) -> ConfigAck:
    return ConfigAck(config_version=ConfigVersion(1, number).pack(), identity=f"eu-{number}")


class Studio:
    """Publishers, and a listener."""

    def __init__(self) -> None:
        self.context = make_context()
        self.lines = io.StringIO()
        self.listener = Listener(self.context, make_log(to=self.lines))
        self.heard: list[ConfigAck] = []

    def repeat_until(self, is_done: Callable[[], object], *said: tuple[Publisher, ConfigAck]) -> None:
        """Publish again and again, as brokers do, and listen."""
        end_s = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end_s, "it was never heard"
            for publisher, message in said:
                publisher.publish(message)
            select.select([self.listener.file], [], [], 0.02)
            while self.listener.has_more:
                self.heard += self.listener.hear()

    def stranger(self) -> zmq.Socket[bytes]:
        """A publisher that may say anything, and is listened to."""
        socket = self.context.socket(zmq.XPUB)
        socket.bind(ANY)
        self.listener.listen([str(socket.get_string(zmq.LAST_ENDPOINT))])
        assert socket.poll(round(LIMIT_S * 1000)), "nobody subscribed"
        assert socket.recv() == b"\x01" + PREFIX
        return socket


@pytest.fixture
def studio() -> Iterator[Studio]:
    made = Studio()
    yield made
    made.context.destroy(linger=0)


def test_several_publishers_are_heard(studio: Studio) -> None:
    publishers = [Publisher(studio.context, ANY) for _ in range(3)]
    studio.listener.listen([publisher.endpoint for publisher in publishers])
    said = [(publisher, saying(number)) for number, publisher in enumerate(publishers)]
    studio.repeat_until(lambda: len({message.identity for message in studio.heard}) == 3, *said)
    assert all(message == saying(int(message.identity[-1])) for message in studio.heard)
    assert studio.listener.garbage == 0


def test_publisher_that_is_no_longer_listed_is_no_longer_heard(studio: Studio) -> None:
    one, two = Publisher(studio.context, ANY), Publisher(studio.context, ANY)
    studio.listener.listen([one.endpoint])
    studio.repeat_until(lambda: studio.heard, (one, saying(1)))
    studio.listener.listen([two.endpoint])
    studio.heard.clear()
    studio.repeat_until(lambda: studio.heard, (one, saying(1)), (two, saying(2)))
    assert {message.identity for message in studio.heard} == {"eu-2"}
    studio.listener.listen([one.endpoint, two.endpoint])
    studio.repeat_until(lambda: saying(1) in studio.heard, (one, saying(1)))


def test_publisher_that_comes_back_is_heard_again(studio: Studio) -> None:
    publisher = Publisher(studio.context, ANY)
    studio.listener.listen([publisher.endpoint])
    studio.repeat_until(lambda: studio.heard, (publisher, saying(1)))
    publisher.close()
    end_s = time.monotonic() + LIMIT_S
    while True:  # ZeroMQ gives the port back in its own thread
        assert time.monotonic() < end_s, "the port is still taken"
        try:
            back = Publisher(studio.context, publisher.endpoint)
            break
        except PortTaken:
            continue
    studio.repeat_until(lambda: saying(2) in studio.heard, (back, saying(2)))


def test_announcement_is_one_frame_that_begins_with_the_prefix(studio: Studio) -> None:
    (frame,) = codec.encode(dialects.PEER, saying(1))
    assert frame.startswith(PREFIX)
    assert PREFIX == b"SC0P01\x03"


def test_garbage_is_counted_and_what_follows_is_heard(studio: Studio) -> None:
    stranger = studio.stranger()
    good = codec.encode(dialects.PEER, saying(1))
    nameless = codec.encode(dialects.PEER, ConfigAck(config_version=ConfigVersion(1, 1).pack()))
    for frames in ([PREFIX], [PREFIX + b"\xff"], [*good, b"more", b"and more"], nameless, [PREFIX + bytes(1000)]):
        stranger.send_multipart(frames)
    stranger.send_multipart(codec.encode(dialects.PEER, Ping(time_us=1)))  # not subscribed to
    stranger.send_multipart(good)
    studio.repeat_until(lambda: studio.heard)
    assert studio.heard == [saying(1)]
    assert studio.listener.garbage == 5


def test_flood_is_taken_in_turns(studio: Studio) -> None:
    strangers = [studio.context.socket(zmq.XPUB) for _ in range(HEARD_MAX // UNHEARD_MAX + 2)]
    for socket in strangers:
        socket.bind(ANY)
    studio.listener.listen([str(socket.get_string(zmq.LAST_ENDPOINT)) for socket in strangers])
    for socket in strangers:
        assert socket.poll(round(LIMIT_S * 1000)), "nobody subscribed"
        socket.recv()
    frames = codec.encode(dialects.PEER, saying(1))
    counts: set[int] = set()
    end_s = time.monotonic() + LIMIT_S
    while HEARD_MAX not in counts:
        assert time.monotonic() < end_s, "a flood was expected"
        for socket in strangers:
            for _ in range(3 * UNHEARD_MAX):
                socket.send_multipart(frames)
        select.select([studio.listener.file], [], [], 0.02)
        counts.add(len(list(studio.listener.hear())))
    assert max(counts) == HEARD_MAX


def test_address_that_is_none_is_told_and_the_others_are_heard(studio: Studio) -> None:
    publisher = Publisher(studio.context, ANY)
    studio.listener.listen(["eu-1", publisher.endpoint])
    assert "cannot listen to 'eu-1'" in studio.lines.getvalue()
    studio.repeat_until(lambda: studio.heard, (publisher, saying(1)))


def test_taken_port_names_the_option_that_chooses_another(studio: Studio) -> None:
    publisher = Publisher(studio.context, ANY)
    with pytest.raises(PortTaken, match="--publish"):
        Publisher(studio.context, publisher.endpoint)
