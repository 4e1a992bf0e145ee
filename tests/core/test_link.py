"""A link: finding a broker, keeping it, noticing its loss. Inputs in, effects out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from scale0.core.held_config import SavedConfig
from scale0.core.link import Effects, Link, LinkSettings, Phase
from scale0.core.participant import Connected, Failed, Keep, Note, Open, Transmit
from scale0.core.rounds import HOPS_MAX, RETRY_S
from scale0.errors import Scale0Error, SessionRefused, Unreachable, UsageError
from scale0.protocol.messages import (
    NO_VERSION,
    ChangeBroker,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    Message,
    NeedBroker,
    Ping,
    Pong,
    ReadyOk,
)
from tests.core.sessions_kit import (
    HOME,
    SPARE,
    THIRD,
    WALL_S,
    Dice,
    ack,
    all_sent,
    config,
    document,
    of,
    sent,
    settings,
    version,
)


class Net:
    """A link with a user that only writes down what it is told."""

    def __init__(self, *endpoints: str, throw: float = 0.5, may_move: bool = True, **changes: Any) -> None:
        self.dice = Dice(throw)
        self.link = Link(settings(*endpoints, **changes), self.dice, self)
        self.heard: list[str] = []
        self.may_move = may_move

    def link_services(self) -> list[str]:
        return ["echo"]

    def link_in_flight(self) -> list[bytes]:
        return [b"held"]

    def link_covers_ms(self, now: float) -> int:
        return 0

    def link_oldest_unanswered(self) -> int:
        return 42

    def link_up(self, now: float, out: Effects) -> None:
        self.heard.append("up")

    def link_down(self, now: float, out: Effects) -> None:
        self.heard.append("down")

    def link_in_vain(self, now: float, out: Effects) -> None:
        self.heard.append("in vain")

    def link_over(self, error: Scale0Error, now: float, out: Effects) -> None:
        self.heard.append("over")

    def link_may_move(self, now: float, out: Effects) -> bool:
        self.heard.append("may move")
        return self.may_move

    def start(self) -> Effects:
        out: Effects = []
        self.link.start(0.0, WALL_S, out)
        return out

    def say(self, message: Message, now: float) -> Effects:
        out: Effects = []
        self.link.receive(message, now, out)
        return out

    def tick(self, now: float) -> Effects:
        out: Effects = []
        self.link.tick(now, WALL_S + now, out)
        return out

    def fail(self, reason: str, now: float) -> Effects:
        out: Effects = []
        self.link.failed(reason, now, out)
        return out

    def run(self, until_s: float) -> list[tuple[float, Effects]]:
        """Tick exactly when the link asks for it."""
        steps = []
        while (now := self.link.next_deadline()) <= until_s:
            steps.append((now, self.tick(now)))
        return steps


def up(*endpoints: str, **changes: Any) -> Net:
    """A link that its broker took at 0.0."""
    net = Net(*endpoints, **changes)
    net.start()
    net.say(ack(), 0.0)
    return net


# --- start-up -------------------------------------------------------------------------------------------------------


def test_start_opens_the_preferred_broker_and_connects() -> None:
    saved = SavedConfig(config_version=version(3), config=document())
    net = Net(HOME, SPARE, public_keys={HOME: "key"}, saved=saved)
    assert net.start() == [Open(HOME, "key"), *net_connect(version(3), serial=1)]
    assert net.link.next_deadline() == 1.0


def net_connect(config_version: bytes = NO_VERSION, serial: int = 2) -> list[Any]:
    """The CONNECT of this number."""
    connect = Connect(
        identity="me",
        nonce=b"noncenon",
        services=["echo"],
        config_version=config_version,
        in_flight=[b"held"],
        serial=serial,
        bundles=True,
    )
    return [Transmit(connect)]


@pytest.mark.parametrize("answer", [ack(epoch=4), config(1, epoch=4)])
def test_config_or_configack_takes_the_session(answer: Message) -> None:
    net = Net()
    net.start()
    assert net.say(answer, 0.1) == [Connected(HOME, 4)]
    assert net.heard == ["up"]
    assert net.link.phase is Phase.UP


@pytest.mark.parametrize("takes_bundles", [True, False])
def test_whether_the_broker_takes_bundles_is_told_when_it_has_taken_the_session(takes_bundles: bool) -> None:
    net = Net()
    net.start()
    assert net.say(ack(bundles=takes_bundles), 0.1) == [Connected(HOME, 1, takes_bundles)]


def test_connect_is_repeated_while_it_is_not_answered() -> None:
    net = Net()
    net.start()
    steps = net.run(2.5)
    assert [now for now, _ in steps] == [1.0, 2.0]
    assert [effects for _, effects in steps] == [net_connect(serial=2), net_connect(serial=3)]


def test_a_single_broker_is_waited_for_until_the_connect_timeout() -> None:
    net = Net()
    net.start()
    assert net.fail("nothing listens on that port", 0.01) == []
    steps = net.run(10.0)
    assert steps[-1][0] == 3.0
    failed = of(steps[-1][1], Failed)[0].error
    assert isinstance(failed, Unreachable)
    assert failed.tried == {HOME: "nothing listens on that port"}
    assert failed.waited_s == 3.0
    assert net.heard == ["over"]
    assert net.link.next_deadline() == math.inf


def test_a_broker_that_comes_up_within_the_connect_timeout_is_taken() -> None:
    net = Net()
    net.start()
    net.fail("nothing listens on that port", 0.01)
    assert of(net.say(ack(), 2.9), Connected)


def test_a_silent_broker_is_named_with_the_time_that_was_waited() -> None:
    net = Net()
    net.start()
    error = of(net.run(10.0)[-1][1], Failed)[0].error
    assert isinstance(error, Unreachable)
    assert error.tried == {HOME: "no answer within 3 s"}


def test_the_next_broker_is_asked_with_needbroker() -> None:
    net = Net(HOME, SPARE)
    net.start()
    effects = net.fail("nothing listens on that port", 0.2)
    assert effects[0] == Open(SPARE)
    assert sent(effects, NeedBroker) == [NeedBroker(identity="me", services=["echo"], tried=[HOME])]
    assert sent(effects, Connect) == []
    assert net.link.next_deadline() == pytest.approx(3.2)


def test_a_silent_broker_is_left_after_the_connect_timeout() -> None:
    net = Net(HOME, SPARE)
    net.start()
    steps = net.run(3.0)
    assert of(steps[-1][1], Open) == [Open(SPARE)]


def test_the_answer_to_needbroker_becomes_the_preferred_broker() -> None:
    net = Net(HOME, SPARE)
    net.start()
    net.fail("refused", 0.2)
    effects = net.say(ChangeBroker(identity="b3", endpoints=[THIRD], public_key="k3"), 0.3)
    assert effects == [Open(THIRD, "k3"), *net_connect()]
    assert net.link.endpoints.preferred == THIRD
    assert of(net.say(ack(), 0.4), Connected) == [Connected(THIRD, 1)]


@pytest.mark.parametrize("endpoints", [[SPARE], [], [THIRD, SPARE]])
def test_a_broker_that_names_itself_is_connected_to_on_the_same_socket(endpoints: list[str]) -> None:
    net = Net(HOME, SPARE)
    net.start()
    net.fail("refused", 0.2)
    assert net.say(ChangeBroker(identity="b2", endpoints=endpoints), 0.3) == net_connect()
    net.say(ack(), 0.4)
    assert net.link.endpoints.preferred == SPARE


def test_forcenegotiate_while_asking_leads_to_connect() -> None:
    net = Net(HOME, SPARE)
    net.start()
    net.fail("refused", 0.2)
    assert sent(net.say(ForceNegotiate(reason="who are you"), 0.3), Connect)


def test_503_after_needbroker_goes_on_to_the_next_broker() -> None:
    net = Net(HOME, SPARE, THIRD)
    net.start()
    net.fail("refused", 0.2)
    effects = net.say(Error(code=503, text="no broker to name"), 0.3)
    assert effects[0] == Open(THIRD)
    assert sent(effects, NeedBroker)[0].tried == [HOME, SPARE]


def test_a_broker_that_names_only_tried_ones_is_of_no_use() -> None:
    net = Net(HOME, SPARE, THIRD)
    net.start()
    net.fail("refused", 0.2)
    assert net.say(ChangeBroker(identity="b1", endpoints=[HOME]), 0.3)[0] == Open(THIRD)


def test_start_up_with_several_brokers_tries_for_the_connect_timeout_and_then_fails() -> None:
    net = Net(HOME, SPARE, throw=1.0)
    net.start()
    rounds = 0
    now = 0.0
    failed: list[Failed] = []
    while not failed:
        rounds += 1
        net.fail("refused", now)
        failed = of(net.fail("refused too", now), Failed)
        if not failed:
            assert net.link.phase is Phase.PAUSED
            now = net.link.next_deadline()
            assert of(net.tick(now), Open) == [Open(HOME)]
    assert now == pytest.approx(3.0)
    assert rounds == 5
    error = failed[0].error
    assert isinstance(error, Unreachable)
    assert error.tried == {HOME: "refused", SPARE: "refused too"}


def test_retry_forever_never_fails() -> None:
    net = Net(retry_forever=True, throw=1.0)
    net.start()
    steps = net.run(60.0)
    assert not any(of(effects, Failed) for _, effects in steps)
    assert sum(len(of(effects, Open)) for _, effects in steps) > 5


@pytest.mark.parametrize("code", [401, 403, 498])
def test_a_refusal_at_start_is_final_and_says_why(code: int) -> None:
    net = Net(HOME, SPARE)
    net.start()
    effects = net.say(Error(code=code, text="no", fatal=True), 0.1)
    error = of(effects, Failed)[0].error
    assert isinstance(error, SessionRefused)
    assert (error.endpoint, error.code, error.text) == (HOME, code, "no")
    assert net.link.error is error


def test_an_identity_in_use_is_waited_for_until_the_start_up_is_over() -> None:
    net = Net(throw=1.0)
    net.start()
    in_use = Error(code=409, text="in use", fatal=True)
    assert not of(net.say(in_use, 0.1), Failed), "a predecessor that was killed counts as alive for an interval"
    assert net.link.phase is Phase.PAUSED
    net.run(3.0)
    error = of(net.say(in_use, 3.1), Failed)[0].error
    assert isinstance(error, SessionRefused)
    assert error.code == 409


def test_an_identity_in_use_is_waited_for_with_retry_forever() -> None:
    net = Net(retry_forever=True)
    net.start()
    assert not of(net.say(Error(code=409, text="in use", fatal=True), 0.1), Failed)
    assert net.link.phase is Phase.PAUSED


def test_503_to_connect_at_a_single_broker_is_asked_again() -> None:
    net = Net()
    net.start()
    assert net.say(Error(code=503, text="joining"), 0.1) == []
    assert net.tick(1.0) == net_connect()
    assert net.say(ack(), 1.1) == [Connected(HOME, 1)]


def test_a_full_pipe_delays_connect_a_little() -> None:
    net = Net()
    connect = sent(net.start(), Connect)[0]
    net.link.send_failed(connect, 0.0)
    assert net.link.next_deadline() == RETRY_S
    assert net.tick(RETRY_S) == net_connect()


def test_brokers_of_the_saved_config_are_known() -> None:
    net = Net(HOME, saved=SavedConfig("XML", version(1), document({"b2": SPARE}, config_type="XML"), [THIRD]))
    assert sent(net.start(), Connect)[0].config_version == version(1)
    assert of(net.fail("refused", 0.1), Open) == [Open(SPARE)]
    assert of(net.fail("refused", 0.2), Open) == [Open(THIRD)]


def test_a_saved_config_that_cannot_be_read_is_ignored_with_a_note() -> None:
    net = Net(HOME, saved=SavedConfig("JSON", version(1), b"{", [SPARE]))
    effects = net.start()
    assert "cannot be read" in of(effects, Note)[0].text
    assert sent(effects, Connect)[0].config_version == NO_VERSION, "else the broker would not send one"
    assert of(net.fail("refused", 0.1), Open) == [Open(SPARE)]


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoints": []},
        {"identity": ""},
        {"identity": "x" * 129},
        {"identity": "a\nb"},
        {"nonce": b"short"},
        {"heartbeat_interval_s": 0.0},
        {"liveness": 0},
        {"connect_timeout_s": 0.0},
        {"config_type": "YAML"},
    ],
)
def test_settings_that_cannot_be_right_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        LinkSettings(**({"endpoints": [HOME], "identity": "me", "nonce": b"noncenon"} | changes))


# --- heartbeats -----------------------------------------------------------------------------------------------------


def test_a_ping_leaves_in_every_interval() -> None:
    net = up()
    now = 0.0
    for _ in range(20):
        before, now = now, net.link.next_deadline()
        assert now - before <= 2.5
        ping = sent(net.tick(now), Ping)[0]
        assert ping.oldest_unanswered == 42
        net.say(Pong(ping.time_us, ping.time_us, epoch=1), now)


def test_the_offset_is_reported_in_the_next_ping() -> None:
    net = up()
    now = net.link.next_deadline()
    ping = sent(net.tick(now), Ping)[0]
    assert not ping.has_offset
    net.say(Pong(ping.time_us - 7_000_000, ping.time_us, epoch=1), now)
    ping = sent(net.tick(net.link.next_deadline()), Ping)[0]
    assert ping.has_offset
    assert ping.offset_us == 7_000_000


def test_silence_for_liveness_times_interval_means_that_the_broker_is_gone() -> None:
    net = up()
    steps = net.run(7.5)
    now, effects = steps[-1]
    assert now == 7.5
    assert "silent for 7.5 s" in of(effects, Note)[0].text
    assert net.heard == ["up", "down"]
    assert of(net.tick(net.link.next_deadline()), Open) == [Open(HOME)]


def test_after_a_loss_by_silence_another_broker_is_asked_first() -> None:
    net = up(HOME, SPARE)
    net.run(7.5)
    effects = net.tick(net.link.next_deadline())
    assert of(effects, Open) == [Open(SPARE)]
    assert sent(effects, NeedBroker)[0].tried == [HOME]


def test_after_a_broken_link_the_same_broker_is_tried_first() -> None:
    net = up(HOME, SPARE)
    net.fail("disconnected", 1.0)
    assert of(net.tick(net.link.next_deadline()), Open) == [Open(HOME)]


def test_any_message_is_a_sign_of_life() -> None:
    net = up()
    net.run(7.0)
    net.say(Error(code=501, text="what?"), 7.4)
    net.run(14.8)
    assert net.heard == ["up"]


def test_interval_and_liveness_of_the_broker_are_adopted() -> None:
    net = Net()
    net.start()
    net.say(ack(heartbeat_interval_ms=1000, liveness=5), 0.0)
    net.run(4.99)
    assert net.heard == ["up"]
    net.run(5.0)
    assert net.heard == ["up", "down"]


def test_after_its_own_standstill_it_connects_before_all_else() -> None:
    net = up()
    effects = net.tick(100.0)
    assert "stood still" in of(effects, Note)[0].text
    assert all_sent(effects) == sent(effects, Connect)
    assert not of(effects, Open)
    assert net.heard == ["up", "down"]
    net.say(ack(), 100.1)
    assert net.heard == ["up", "down", "up"]


def test_a_wall_clock_jump_loses_nobody() -> None:
    net = up()
    ping = sent(net.tick(net.link.next_deadline()), Ping)[0]
    net.say(Pong(ping.time_us, ping.time_us, epoch=1), 1.3)
    out: Effects = []
    net.link.tick(2.0, WALL_S + 3600.0, out)
    assert out == []
    assert net.link.heartbeat.clock.offset_us is None


# --- loss and return ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("throw", [0.0, 0.3, 1.0])
def test_a_broken_link_is_mended_after_a_jittered_pause(throw: float) -> None:
    net = up(throw=throw)
    effects = net.fail("disconnected", 1.0)
    assert [type(effect) for effect in effects] == [Note]
    assert net.link.next_deadline() == pytest.approx(1.0 + throw * 0.25)
    assert net.tick(net.link.next_deadline()) == [Open(HOME), *net_connect()]


def test_a_running_link_tries_for_ever_with_growing_pauses() -> None:
    net = up(throw=1.0)
    net.fail("disconnected", 1.0)
    opened = [now for now, effects in net.run(200.0) if of(effects, Open)]
    gaps = [later - earlier for earlier, later in pairwise(opened)]
    assert gaps[0] == pytest.approx(3.5)
    assert gaps[-1] == pytest.approx(8.0)
    assert len(opened) > 20


def test_after_an_interval_of_peace_the_backoff_starts_anew() -> None:
    net = up(throw=1.0)
    for now in (1.0, 2.0, 3.0):
        net.fail("disconnected", now)
        net.tick(net.link.next_deadline())
        net.say(ack(), net.link.next_deadline() - 1.0)
    connected_s = net.link.heartbeat.heard_at_s
    net.tick(net.link.next_deadline())
    net.fail("disconnected", connected_s + 3.0)
    assert net.link.next_deadline() == pytest.approx(connected_s + 3.25)


def test_a_running_link_whose_broker_does_not_return_asks_the_others() -> None:
    net = up(HOME, SPARE)
    net.fail("disconnected", 1.0)
    net.tick(net.link.next_deadline())
    effects = net.fail("refused", 1.2)
    assert effects[0] == Open(SPARE)
    assert sent(effects, NeedBroker)[0].tried == [HOME]


def test_disconnect_from_the_broker_leads_back_to_it() -> None:
    net = up()
    assert "it ended the session: bye" in of(net.say(Disconnect(reason="bye"), 1.0), Note)[0].text
    assert of(net.tick(net.link.next_deadline()), Open) == [Open(HOME)]


def test_forcenegotiate_leads_to_connect_on_the_same_socket() -> None:
    net = up()
    effects = net.say(ForceNegotiate(reason="restarted"), 1.0)
    assert not of(effects, Open)
    assert sent(effects, Connect)
    assert net.heard == ["up", "down"]
    assert net.say(ForceNegotiate(reason="restarted"), 1.01) == []
    assert of(net.say(ack(), 1.1), Connected)


def test_messages_during_a_pause_are_ignored() -> None:
    net = up()
    net.fail("disconnected", 1.0)
    for message in (ack(), Pong(0, 0, epoch=1), ForceNegotiate(reason=""), Disconnect(), Error(code=409, text="")):
        assert net.say(message, 1.05) == []
    assert net.fail("refused", 1.06) == []
    assert net.link.phase is Phase.PAUSED


def test_a_running_link_heals_from_409_and_498() -> None:
    for code in (409, 498):
        net = up()
        effects = net.say(Error(code=code, text="no", fatal=True), 1.0)
        assert not of(effects, Failed)
        assert of(net.tick(net.link.next_deadline()), Open)


def test_a_running_link_whose_credentials_are_refused_is_over() -> None:
    net = up()
    assert isinstance(of(net.say(Error(code=401, text="no", fatal=True), 1.0), Failed)[0].error, SessionRefused)
    assert net.heard == ["up", "over"]


def test_another_fatal_error_is_a_loss() -> None:
    net = up()
    assert "413 too large" in of(net.say(Error(code=413, text="too large", fatal=True), 1.0), Note)[0].text
    assert net.link.phase is Phase.PAUSED


def test_an_error_that_is_not_fatal_is_only_noted() -> None:
    net = up()
    assert of(net.say(Error(code=501, text="unexpected"), 1.0), Note)
    assert net.link.phase is Phase.UP


# --- config ---------------------------------------------------------------------------------------------------------


def test_426_leads_to_connect_and_the_link_stays_up() -> None:
    net = up()
    effects = net.say(Error(code=426, text="config version differs"), 1.0)
    assert [type(message) for message in all_sent(effects)] == [Connect]
    assert net.link.phase is Phase.UP
    assert not of(net.say(config(2), 1.1), Connected)
    assert net.heard == ["up"]
    assert net.link.config_version == version(2)


def test_the_newest_config_is_kept_and_named_in_connect() -> None:
    net = Net()
    net.start()
    net.say(config(5, b'{"a": 1}'), 0.1)
    assert (net.link.config, net.link.config_version) == (b'{"a": 1}', version(5))
    assert sent(net.say(ForceNegotiate(reason=""), 1.0), Connect)[0].config_version == version(5)


def test_a_config_version_never_goes_back() -> None:
    net = up()
    net.say(config(5, b'{"a": 1}'), 0.1)
    net.say(config(4, b'{"a": 2}'), 0.2)
    assert net.link.config == b'{"a": 1}'
    net.say(ack(config_version=version(6)), 0.3)
    assert (net.link.config, net.link.config_version) == (b'{"a": 1}', version(6))


def test_brokers_of_a_pushed_config_are_known_from_then_on() -> None:
    net = up()
    net.say(config(2, document({"b2": SPARE})), 0.5)
    net.fail("disconnected", 1.0)
    net.tick(net.link.next_deadline())
    assert of(net.fail("refused", 1.5), Open) == [Open(SPARE)]


def test_the_config_is_asked_for_in_the_type_that_was_chosen() -> None:
    net = Net(config_type="zfl")
    assert sent(net.start(), Connect)[0].config_type == "ZPL"
    net.say(config(2, document({"b2": SPARE}, config_type="ZPL"), config_type="ZPL"), 0.1)
    assert net.link.endpoints.known == [HOME, SPARE]


def pong_every_interval(net: Net, number: int, until_s: float) -> list[tuple[float, Message]]:
    """PINGs are answered by a broker at this config version; returns all else that was sent, and when."""
    said: list[tuple[float, Message]] = []
    while (now := net.link.next_deadline()) <= until_s:
        for message in all_sent(net.tick(now)):
            if isinstance(message, Ping):
                net.say(Pong(message.time_us, message.time_us, version(number), epoch=1), now)
            else:
                said.append((now, message))
    return said


def test_a_newer_version_that_was_heard_and_not_pushed_is_fetched_once() -> None:
    net = up()
    net.say(config(1), 0.0)
    ((now, connect),) = pong_every_interval(net, 2, until_s=100.0)
    assert isinstance(connect, Connect)
    assert connect.config_version == version(1)
    assert now == pytest.approx(1.25 + 2 * 2.5), "two intervals after it was heard"
    assert net.heard == ["up"]
    assert not of(net.say(config(2), 100.0), Connected)
    assert pong_every_interval(net, 2, until_s=200.0) == []
    assert len(pong_every_interval(net, 3, until_s=300.0)) == 1


def test_a_newer_version_that_is_pushed_in_time_is_not_fetched() -> None:
    net = up()
    net.say(config(1), 0.0)
    assert pong_every_interval(net, 2, until_s=5.0) == []
    net.say(config(2), 5.0)
    assert pong_every_interval(net, 2, until_s=100.0) == []


def test_an_older_version_that_is_heard_means_nothing() -> None:
    net = up()
    net.say(config(5), 0.0)
    assert pong_every_interval(net, 4, until_s=100.0) == []


def test_a_version_heard_on_a_lost_link_is_not_fetched_on_the_next() -> None:
    net = up()
    net.say(config(1), 0.0)
    pong_every_interval(net, 2, until_s=2.0)
    net.fail("disconnected", 2.1)
    net.tick(net.link.next_deadline())
    net.say(config(2), 2.5)
    assert pong_every_interval(net, 2, until_s=100.0) == []


# --- what the next process should know ------------------------------------------------------------------------------


def test_what_is_worth_keeping_is_told_when_it_changes_and_only_by_choice() -> None:
    listed = document({"b1": HOME})
    net = Net(keeps_config=True)
    net.start()
    assert of(net.say(config(1, listed), 0.1), Keep) == [Keep(SavedConfig("JSON", version(1), listed))]
    assert of(net.say(config(1, listed), 0.2), Keep) == []
    assert of(net.say(ack(config_version=version(2)), 0.3), Keep) == [Keep(SavedConfig("JSON", version(2), listed))]
    net.say(ChangeBroker(identity="b2", endpoints=[SPARE]), 0.4)
    kept = of(net.say(ack(config_version=version(2)), 0.5), Keep)
    assert kept == [Keep(SavedConfig("JSON", version(2), listed, [SPARE]))]
    other = Net()
    other.start()
    assert of(other.say(config(1, listed), 0.1), Keep) == []


def test_what_was_kept_already_is_not_told_again() -> None:
    saved = SavedConfig("JSON", version(1), document({"b1": HOME}))
    net = Net(keeps_config=True, saved=saved)
    net.start()
    assert net.say(ack(config_version=version(1)), 0.1) == [Connected(HOME, 1)]


def test_a_config_that_cannot_be_read_is_not_worth_keeping() -> None:
    net = Net(keeps_config=True)
    net.start()
    assert of(net.say(config(1, b"?"), 0.1), Keep) == []


def test_a_saved_version_is_a_hint_and_the_first_broker_knows_better() -> None:
    net = Net(saved=SavedConfig("JSON", version(9), document({"b2": SPARE})))
    net.start()
    net.say(config(3, document({"b3": THIRD})), 0.1)
    assert net.link.config_version == version(3)
    assert net.link.endpoints.known == [HOME, THIRD]


# --- home -----------------------------------------------------------------------------------------------------------


def at_home(**changes: Any) -> Net:
    """Up at b1, which is home; b2 is known."""
    net = Net(**changes)
    net.start()
    net.say(config(1, document({"b1": HOME, "b2": SPARE}, preferred="b1")), 0.0)
    return net


def moved(net: Net, reason: str, there: str = SPARE, identity: str = "b2") -> str:
    """The home that CONNECT names after a CHANGEBROKER for this reason."""
    effects = net.say(ChangeBroker(identity=identity, endpoints=[there], reason=reason), 1.0)
    net.say(ack(config_version=version(1)), 1.1)
    return sent(effects, Connect)[0].home


def test_home_is_where_the_process_was_first_up_and_is_named_at_other_brokers_only() -> None:
    net = at_home()
    assert net.link.home == "b1"
    assert sent(net.say(Error(code=426, text="config version differs"), 0.5), Connect)[0].home == ""
    assert moved(net, "draining") == "b1"
    assert moved(net, "back", HOME, "b1") == ""


def test_home_stays_after_a_loss() -> None:
    net = at_home()
    net.fail("disconnected", 1.0)
    assert sent(net.tick(net.link.next_deadline()), Connect)[0].home == ""
    net.fail("refused", 1.5)
    effects = net.say(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.6)
    assert sent(effects, Connect)[0].home == "b1"
    net.say(ack(config_version=version(1)), 1.7)
    assert net.link.home == "b1"


@pytest.mark.parametrize("reason", ["balance: it has more room", "failback"])
def test_after_a_move_for_balance_or_back_the_new_broker_is_home(reason: str) -> None:
    net = at_home()
    assert moved(net, reason) == ""
    assert net.link.home == "b2"


def test_a_link_lost_before_a_move_for_balance_makes_the_new_broker_home_too() -> None:
    net = at_home(may_move=False)
    net.say(ChangeBroker(identity="b2", endpoints=[SPARE], reason="balance"), 1.0)
    net.fail("disconnected", 1.1)
    effects = net.tick(net.link.next_deadline())
    assert of(effects, Open) == [Open(SPARE)]
    assert sent(effects, Connect)[0].home == ""


def test_home_at_an_address_that_the_config_does_not_list_is_told_by_the_config() -> None:
    net = Net("tcp://alias:5555")
    net.start()
    net.say(config(1, document({"b1": HOME, "b2": SPARE}, preferred="b1")), 0.0)
    assert net.link.home == "b1"
    assert sent(net.say(ForceNegotiate(reason="restarted"), 1.0), Connect)[0].home == ""


def test_with_a_saved_config_home_is_the_broker_that_took_the_session() -> None:
    net = Net(SPARE, saved=SavedConfig("JSON", version(1), document({"b1": HOME, "b2": SPARE}, preferred="b1")))
    net.start()
    net.say(ack(config_version=version(1)), 0.1)
    assert net.link.home == "b2"


# --- epochs ---------------------------------------------------------------------------------------------------------


def test_a_lower_epoch_is_refused_in_the_answer_to_connect() -> None:
    net = Net(HOME, SPARE)
    net.start()
    net.say(ack(epoch=5, pair="b1"), 0.0)
    net.fail("disconnected", 1.0)
    net.tick(net.link.next_deadline())
    effects = net.say(ack(epoch=4, pair="b1"), 1.2)
    assert not of(effects, Connected)
    assert "epoch 4 is over" in of(effects, Note)[0].text
    assert of(effects, Open) == [Open(SPARE)]


def test_epochs_of_brokers_without_a_partner_are_not_compared() -> None:
    net = Net(HOME, SPARE)
    net.start()
    net.say(ack(epoch=5), 0.0)
    net.fail("disconnected", 1.0)
    net.tick(net.link.next_deadline())
    assert of(net.say(ack(epoch=1), 1.2), Connected)


def test_a_pong_of_a_lower_epoch_ends_the_link() -> None:
    net = up()
    net.say(ack(epoch=5, pair="b1"), 0.1)
    net.say(Pong(0, 0, epoch=4), 1.0)
    assert net.heard == ["up", "down", "in vain"]
    assert net.link.phase is Phase.PAUSED


def test_an_epoch_that_a_pong_tells_while_connect_is_under_way_again_has_been_seen() -> None:
    net = up(HOME, SPARE)
    net.say(ack(epoch=5, pair="b1"), 0.1)
    assert sent(net.tick(100.0), Connect)  # it stood still, and has not read yet what was sent meanwhile
    net.say(Pong(0, 0, epoch=9), 100.0)
    net.fail("disconnected", 100.1)
    net.tick(net.link.next_deadline())
    net.say(ack(epoch=8, pair="b1"), 100.3)
    assert (net.link.epoch, net.link.phase is Phase.UP) == (9, False)


def test_a_readyok_of_a_lower_epoch_ends_the_link() -> None:
    net = up()
    net.say(ack(pair="b1"), 0.05)
    out: Effects = []
    assert net.link.agree(ReadyOk(heartbeat_interval_ms=5000, time_us=0, capacity=1, epoch=3), 0.1, out)
    assert net.link.heartbeat.interval_s == 5.0
    assert not net.link.agree(ReadyOk(heartbeat_interval_ms=5000, time_us=0, capacity=1, epoch=2), 0.2, out)
    assert net.heard == ["up", "down", "in vain"]


def test_an_epoch_of_zero_says_nothing() -> None:
    net = up()
    net.say(ack(epoch=5), 0.1)
    net.say(Pong(0, 0), 1.0)
    assert net.heard == ["up"]


# --- redirects ------------------------------------------------------------------------------------------------------


def test_a_pushed_changebroker_is_followed_at_once_if_the_user_may_move() -> None:
    net = up()
    effects = net.say(ChangeBroker(identity="b2", endpoints=[SPARE], reason="maintenance"), 1.0)
    assert [type(message) for message in all_sent(effects)] == [Disconnect, Connect]
    assert of(effects, Open) == [Open(SPARE)]
    assert net.heard == ["up", "may move", "down"]
    assert net.link.endpoints.known == [SPARE, HOME]


def test_a_pushed_changebroker_waits_for_the_user() -> None:
    net = up(may_move=False)
    assert net.say(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.0) == []
    assert net.link.phase is Phase.UP
    out: Effects = []
    net.link.move(2.0, out)
    assert of(out, Open) == [Open(SPARE)]


@pytest.mark.parametrize("end", [Disconnect(), Error(code=413, text="too large", fatal=True), None])
def test_a_link_that_is_lost_before_a_move_goes_where_it_was_to_move(end: Message | None) -> None:
    net = up(may_move=False)
    net.say(ChangeBroker(identity="b2", endpoints=[SPARE], public_key="k2"), 1.0)
    if end is None:
        net.fail("disconnected", 1.5)
    else:
        net.say(end, 1.5)
    out: Effects = []
    net.link.move(1.5, out)
    assert out == [], "there is nothing to move any more"
    assert of(net.tick(net.link.next_deadline()), Open) == [Open(SPARE, "k2")]
    assert of(net.fail("refused", 2.0), Open) == [Open(HOME)]


# --- a broker that takes no tasks -----------------------------------------------------------------------------------


def seek(net: Net, now: float, code: int = 503, **detail: Any) -> tuple[bool, Effects]:
    out: Effects = []
    return net.link.seek(Error(code=code, text="draining", id=b"task", detail=detail), now, out), out


def test_a_broker_that_takes_no_tasks_is_asked_for_another_while_the_link_stays_up() -> None:
    net = up(HOME, SPARE)
    is_going, effects = seek(net, 1.0)
    assert is_going
    assert all_sent(effects) == [NeedBroker(identity="me", services=["echo"], tried=[HOME])]
    assert seek(net, 1.01) == (True, []), "asked once"
    assert net.link.phase is Phase.UP
    effects = net.say(ChangeBroker(identity="b3", endpoints=[THIRD]), 1.1)
    assert of(effects, Open) == [Open(THIRD)]
    assert net.heard == ["up", "may move", "down"]


def test_if_it_knows_no_other_the_known_ones_are_asked() -> None:
    net = up(HOME, SPARE)
    seek(net, 1.0)
    effects = net.say(Error(code=503, text="no broker to name"), 1.1)
    assert [type(message) for message in all_sent(effects)] == [Disconnect, NeedBroker]
    assert of(effects, Open) == [Open(SPARE)]
    assert sent(effects, NeedBroker)[0].tried == [HOME]


def test_if_it_names_only_itself_the_known_ones_are_asked() -> None:
    net = up(HOME, SPARE)
    seek(net, 1.0)
    assert of(net.say(ChangeBroker(identity="b1", endpoints=[HOME]), 1.1), Open) == [Open(SPARE)]


def test_if_it_does_not_answer_the_known_ones_are_asked() -> None:
    net = up(HOME, SPARE)
    seek(net, 1.0)
    steps = net.run(4.0)
    assert of(steps[-1][1], Open) == [Open(SPARE)]
    assert steps[-1][0] == 4.0


def test_with_no_other_broker_known_there_is_nowhere_to_go() -> None:
    assert seek(up(), 1.0) == (False, [])


def test_301_names_where_to_go_even_if_no_other_broker_is_known() -> None:
    net = up()
    is_going, effects = seek(net, 1.0, 301, endpoints=[SPARE], identity="b2", public_key="k2")
    assert is_going
    assert of(effects, Open) == [Open(SPARE, "k2")]


def test_301_that_names_nobody_is_in_vain_if_nobody_is_known() -> None:
    net = up()
    is_going, effects = seek(net, 1.0, 301)
    assert is_going
    assert sent(effects, NeedBroker)
    net.say(Error(code=503, text="no broker to name"), 1.1)
    assert net.heard == ["up", "in vain"]
    assert net.link.phase is Phase.UP


def test_seeking_never_loops() -> None:
    net = up(HOME, SPARE)
    for hop in range(HOPS_MAX):
        assert seek(net, 0.1)[0]
        net.say(ChangeBroker(identity="b", endpoints=[SPARE if hop % 2 == 0 else HOME]), 0.1)
        net.say(ack(), 0.1)
    assert seek(net, 0.1) == (False, [])


def test_a_round_in_vain_is_told_and_goes_on() -> None:
    net = up(HOME, SPARE)
    net.fail("disconnected", 1.0)
    net.tick(net.link.next_deadline())
    net.fail("refused", 1.3)
    net.fail("refused", 1.3)
    assert net.heard == ["up", "down", "in vain"]
    assert of(net.tick(net.link.next_deadline()), Open) == [Open(HOME)]


@pytest.mark.parametrize("throw", [0.0, 1.0])
def test_a_dead_broker_costs_one_short_pause_if_another_is_there(throw: float) -> None:
    net = up(HOME, SPARE, THIRD, throw=throw)
    net.fail("disconnected", 1.0)
    now = net.link.next_deadline()
    assert now <= 1.25, "a tenth of a heartbeat interval"
    assert of(net.tick(now), Open) == [Open(HOME)]
    assert of(net.fail("nothing listens on that port", now), Open) == [Open(SPARE)]
    net.say(ChangeBroker(identity="b2", endpoints=[SPARE]), now)
    assert of(net.say(ack(), now), Connected) == [Connected(SPARE, 1)]


# --- redirects of the session ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoints", [[], [HOME]])
def test_a_pushed_changebroker_to_nowhere_else_is_ignored(endpoints: list[str]) -> None:
    net = up()
    assert not of(net.say(ChangeBroker(identity="b", endpoints=endpoints), 1.0), Open)
    assert net.link.phase is Phase.UP


def test_301_with_a_target_leads_there() -> None:
    net = Net()
    net.start()
    detail = {"identity": "b2", "endpoints": [SPARE], "public_key": "k2"}
    effects = net.say(Error(code=301, text="moved", detail=detail), 0.1)
    assert of(effects, Open) == [Open(SPARE, "k2")]
    assert sent(effects, Connect)


def test_301_without_a_target_asks_needbroker() -> None:
    net = up()
    effects = net.say(Error(code=301, text="moved"), 1.0)
    assert sent(effects, NeedBroker)
    assert not of(effects, Open)
    assert net.heard == ["up", "down"]
    assert of(net.say(ChangeBroker(identity="b2", endpoints=[SPARE]), 1.1), Open) == [Open(SPARE)]


def test_301_in_answer_to_needbroker_goes_on_to_the_next_broker() -> None:
    net = Net(HOME, SPARE, THIRD)
    net.start()
    net.fail("refused", 0.1)
    assert of(net.say(Error(code=301, text="moved"), 0.2), Open) == [Open(THIRD)]


def test_redirects_never_loop() -> None:
    net = up()
    for hop in range(HOPS_MAX):
        there = SPARE if hop % 2 == 0 else HOME
        assert of(net.say(ChangeBroker(identity="b", endpoints=[there]), 0.1), Open) == [Open(there)]
        net.say(ack(), 0.1)
    assert not of(net.say(ChangeBroker(identity="b", endpoints=[SPARE]), 0.1), Open)
    assert net.link.phase is Phase.UP


def test_an_interval_of_peace_ends_a_row_of_redirects_also_if_no_ping_was_due_in_it() -> None:
    net = up()
    for hop in range(2 * HOPS_MAX):
        now = (hop + 1) * 1.1 * net.link.heartbeat.interval_s
        there = SPARE if hop % 2 == 0 else HOME
        assert of(net.say(ChangeBroker(identity="b", endpoints=[there]), now), Open) == [Open(there)]
        net.say(ack(), now)


def hand_over(net: Net, there: str, epoch: int) -> Effects:
    """301 for the session, and the one that it names takes it."""
    detail = {"identity": "b", "endpoints": [there]}
    effects = net.say(Error(code=301, text="it serves", detail=detail, fatal=True), 0.1)
    net.say(ack(epoch=epoch, pair="b1"), 0.1)
    return effects


def test_who_follows_each_switch_of_a_pair_goes_in_no_loop() -> None:
    net = Net(HOME)
    net.start()
    net.say(ack(epoch=1, pair="b1"), 0.0)
    for epoch in range(2, 2 * HOPS_MAX):
        there = SPARE if epoch % 2 == 0 else HOME
        assert of(hand_over(net, there, epoch), Open) == [Open(there)]
    assert of(net.say(ChangeBroker(identity="b3", endpoints=[THIRD]), 0.1), Open) == [Open(THIRD)]


def test_redirects_within_one_epoch_of_a_pair_never_loop() -> None:
    net = Net(HOME)
    net.start()
    net.say(ack(epoch=1, pair="b1"), 0.0)
    for hop in range(HOPS_MAX):
        hand_over(net, SPARE if hop % 2 == 0 else HOME, 1)
    assert not of(net.say(ChangeBroker(identity="b3", endpoints=[THIRD]), 0.1), Open)


def test_redirects_at_connect_never_loop() -> None:
    net = Net(HOME, SPARE)
    net.start()
    for _ in range(20):
        if net.link.phase is Phase.PAUSED:
            break
        there = f"tcp://b{net.link.endpoint[-1]}:{len(net.link.endpoints.known)}"
        net.say(ChangeBroker(identity="b", endpoints=[there]), 0.1)
    assert net.link.phase is Phase.PAUSED


# --- the end --------------------------------------------------------------------------------------------------------


def test_close_says_disconnect_and_nothing_more_happens() -> None:
    net = up()
    out: Effects = []
    net.link.close("done", out)
    assert all_sent(out) == [Disconnect(reason="done")]
    assert net.link.next_deadline() == math.inf
    assert net.tick(100.0) == []
    assert net.say(ForceNegotiate(reason=""), 100.0) == []


def test_close_during_a_pause_has_nobody_to_tell() -> None:
    net = up()
    net.fail("disconnected", 1.0)
    out: Effects = []
    net.link.close("done", out)
    assert out == []


def test_trouble_names_each_broker_and_what_went_wrong() -> None:
    net = Net(HOME, SPARE)
    assert net.link.trouble() == "the client was not started"
    net.start()
    net.fail("nothing listens on that port", 0.1)
    assert net.link.trouble() == f"{HOME}: nothing listens on that port; {SPARE}: no answer"
