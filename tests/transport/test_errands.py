from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from scale0.core.config import content_hash
from scale0.core.effects import (
    DIALED,
    Alarm,
    Dial,
    Effect,
    HangUp,
    KeepConfig,
    Listen,
    Persist,
    Publish,
    Route,
    Send,
)
from scale0.protocol import codec, dialects
from scale0.protocol.messages import ConfigAck, ConfigVersion, Ping
from scale0.protocol.network import ConfigRecord
from scale0.transport.announcements import Listener, Publisher
from scale0.transport.clock import SYSTEM_CLOCK
from scale0.transport.config_file import ConfigFile
from scale0.transport.errands import Errands
from scale0.transport.logs import make_log
from scale0.transport.loop import Loop
from scale0.transport.sockets import make_context
from scale0.transport.state_file import StateFile
from tests.transport.fakes import FakeCore

ANY = "tcp://127.0.0.1:0"
LIMIT_S = 60.0
ROUTE = Route(bytes((DIALED,)) + b"L\x01")
VERSION = ConfigVersion(1, 2).pack()
RECORD = ConfigRecord(version=ConfigVersion(1, 1, content_hash(b"{}")).pack(), document=b"{}")


class NetworkCore(FakeCore):
    """A core that notes what comes of errands."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[str, bytes]] = []
        self.broken: list[Route] = []

    def heard_version(self, identity: str, version: bytes, now: float) -> list[Effect]:
        self.heard.append((identity, version))
        return [Alarm("heard", identity)]

    def link_refused(self, route: Route, now: float) -> list[Effect]:
        return []

    def link_broken(self, route: Route, now: float) -> list[Effect]:
        self.broken.append(route)
        return [HangUp(route)]


class Office:
    """Errands in a loop that is driven turn by turn."""

    def __init__(self, directory: Path | None = None) -> None:
        self.context = make_context()
        self.core = NetworkCore()
        self.lines = io.StringIO()
        self.loop = Loop(self.core, [], on_effect=self.carry_out, strict=True)
        self.publisher = Publisher(self.context, ANY)
        self.errands = Errands(
            self.context,
            self.core,
            self.loop,
            state_file=StateFile(directory),
            config_file=ConfigFile(directory),
            publisher=self.publisher,
            log=make_log(to=self.lines),
            clock=SYSTEM_CLOCK,
        )

    def carry_out(self, effect: Effect) -> None:
        self.errands.run(effect)

    def do(self, *effects: Effect) -> None:
        self.loop.call(lambda: list(effects))
        self.loop.turn(0)

    def turn_until(self, is_done: Callable[[], object], *again: Effect) -> None:
        end_s = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < end_s, "it never happened"
            self.loop.call(lambda: list(again))
            self.loop.turn(0.02)

    def close(self) -> None:
        self.errands.close(0)
        self.loop.close()
        self.context.term()


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


def test_state_and_config_are_on_disk_when_the_effects_were_carried_out(office: Office, tmp_path: Path) -> None:
    office.do(Persist("disabled"), KeepConfig([RECORD]))
    assert StateFile(tmp_path).kept.state == "disabled"
    assert ConfigFile(tmp_path).records == [RECORD]


def test_broker_that_keeps_nothing_says_that_it_will_not_stay_disabled() -> None:
    office = Office()
    office.do(Persist("disabled"))
    office.close()
    assert "kept nowhere: it serves again after a restart; start it with --state-dir" in office.lines.getvalue()


def test_full_disk_is_an_alarm_and_the_loop_goes_on(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scale0.transport.config_file.replace_file", full)
    monkeypatch.setattr("scale0.transport.state_file.replace_file", full)
    office.do(KeepConfig([RECORD]), Persist("disabled"), Alarm("after", "it goes on"))
    said = office.lines.getvalue()
    assert "the config could not be kept" in said
    assert "alarm=config_not_kept" in said
    assert "alarm=state_not_kept" in said
    assert "No space left" in said
    assert "it goes on" in said


def test_what_is_published_is_heard_by_other_brokers(office: Office) -> None:
    message = ConfigAck(config_version=VERSION, identity="eu-1")
    other = Listener(office.context, make_log(is_quiet=True))
    other.listen([office.publisher.endpoint])
    heard: list[ConfigAck] = []

    def has_heard() -> bool:
        heard.extend(other.hear())
        return bool(heard)

    office.turn_until(has_heard, Publish(message))
    assert heard[0] == message
    other.close()


def test_publishers_that_are_listened_to_are_heard_by_the_core_and_what_it_asks_is_done(office: Office) -> None:
    other = Publisher(office.context, ANY)

    def has_heard() -> bool:
        other.publish(ConfigAck(config_version=VERSION, identity="eu-2"))
        return bool(office.core.heard)

    office.do(Listen([]), Listen([other.endpoint]))
    office.turn_until(has_heard)
    assert set(office.core.heard) == {("eu-2", VERSION)}
    assert "alarm=heard" in office.lines.getvalue()
    other.close()


def test_flood_of_announcements_is_heard_to_its_end(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scale0.transport.announcements.HEARD_MAX", 2)
    stranger = office.context.socket(zmq.XPUB)
    stranger.bind(ANY)
    office.do(Listen([stranger.get_string(zmq.LAST_ENDPOINT)]))
    office.turn_until(lambda: stranger.poll(0))
    stranger.recv()
    identities = [f"eu-{number}" for number in range(9)]
    for identity in identities:
        stranger.send_multipart(codec.encode(dialects.PEER, ConfigAck(config_version=VERSION, identity=identity)))
    office.turn_until(lambda: len(office.core.heard) == len(identities))
    assert [identity for identity, _ in office.core.heard] == identities
    stranger.close(0)


def test_link_is_dialed_and_its_end_is_told_to_the_core(office: Office) -> None:
    listener = office.context.socket(zmq.ROUTER)
    listener.bind(ANY)
    office.do(Dial(ROUTE, listener.get_string(zmq.LAST_ENDPOINT)), Send(ROUTE, dialects.PEER, Ping(time_us=1)))
    office.turn_until(lambda: listener.poll(0))
    listener.close(0)
    office.turn_until(lambda: office.core.broken)
    assert office.core.broken == [ROUTE]
    office.do(Send(ROUTE, dialects.PEER, Ping(time_us=2)))
    assert [reason for _, reason in office.core.failed] == ["unroutable"], "the core has hung up"


def test_broker_without_a_publisher_publishes_nothing() -> None:
    context = make_context()
    loop = Loop(FakeCore(), [], on_effect=lambda effect: None)
    errands = Errands(
        context,
        NetworkCore(),
        loop,
        state_file=StateFile(None),
        config_file=ConfigFile(None),
        publisher=None,
        log=make_log(is_quiet=True),
        clock=SYSTEM_CLOCK,
    )
    errands.run(Publish(ConfigAck(config_version=VERSION, identity="eu-1")))
    errands.close(0)
    loop.close()
    context.term()
