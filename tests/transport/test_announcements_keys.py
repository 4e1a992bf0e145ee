"""Publishers that ask for keys, and listeners that have one."""

from __future__ import annotations

import io
import select
import time
from collections.abc import Callable, Iterator

import pytest

from scale0.transport import key_files
from scale0.transport.announcements import Listener, Publisher
from scale0.transport.logs import make_log
from scale0.transport.sockets import make_context
from scale0.transport.zap import Doorkeeper
from tests.transport.test_announcements import ANY, LIMIT_S, saying


class House:
    """A publisher with a key, and a listener with another one, of two brokers."""

    def __init__(self) -> None:
        self.context, self.other_context = make_context(), make_context()
        self.keeper = Doorkeeper(self.context)
        self.own, self.listens_by = key_files.make_pair(), key_files.make_pair()
        self.publisher = Publisher(self.context, ANY, self.own)
        self.listener = Listener(self.other_context, make_log(to=io.StringIO()), self.listens_by)
        self.heard: list[str] = []

    def turn(self) -> None:
        self.publisher.publish(saying(1))
        select.select([self.listener.file], [], [], 0.02)
        while self.listener.has_more:
            self.heard += [message.identity for message in self.listener.hear()]
        self.listener.try_again()

    def until(self, is_so: Callable[[], object]) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not is_so():
            assert time.monotonic() < end_s
            self.turn()

    def close(self) -> None:
        for context in (self.other_context, self.context):
            context.destroy(linger=0)


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.close()


def test_an_admitted_listener_hears(house: House) -> None:
    house.keeper.admit(frozenset([house.listens_by.public]))
    house.listener.listen([house.publisher.endpoint], {house.publisher.endpoint: [house.own.public]})
    house.until(lambda: house.heard)


def test_one_that_is_admitted_later_tries_again_until_it_is(house: House) -> None:
    house.keeper.admit(frozenset())
    house.listener.listen([house.publisher.endpoint], {house.publisher.endpoint: [house.own.public]})
    house.until(lambda: house.keeper.refused >= 2)
    assert house.heard == []
    house.keeper.admit(frozenset([house.listens_by.public]))
    house.until(lambda: house.heard)


def test_the_next_key_of_a_publisher_is_tried_in_turn(house: House) -> None:
    house.keeper.admit(frozenset([house.listens_by.public]))
    old = key_files.make_pair().public
    house.listener.listen([house.publisher.endpoint], {house.publisher.endpoint: [old, house.own.public]})
    house.until(lambda: house.heard)


def test_who_speaks_plainly_hears_nothing(house: House) -> None:
    house.keeper.admit(frozenset([house.listens_by.public]))
    house.listener.listen([house.publisher.endpoint])
    for _ in range(20):
        house.turn()
    assert house.heard == []
