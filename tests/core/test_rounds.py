"""From broker to broker when the preferred one has a fallback: who is tried, in which order, and for how long."""

from __future__ import annotations

import pytest

from scale0.core.link import RETRY_MS_MAX, Phase
from scale0.core.participant import Connected, Open
from scale0.core.rounds import LOSS_PAUSE_INTERVALS, PATIENCE
from scale0.protocol import documents, limits
from scale0.protocol.messages import Connect, Error, NeedBroker, Pong
from scale0.protocol.network import GroupBroker, GroupConfig, Part
from tests.core.sessions_kit import HOME, SPARE, THIRD, ack, config, of, sent
from tests.core.test_link import Net

INTERVAL_S = 2.5
BROKERS = [
    GroupBroker(identity="prim", endpoints=[HOME], partner="back"),
    GroupBroker(identity="back", endpoints=[SPARE], partner="prim"),
    GroupBroker(identity="third", endpoints=[THIRD]),
]
PART = Part(identity="me", preferred_broker="prim", group_config=[GroupConfig(name="eu", brokers=BROKERS)])
STANDBY = Error(code=503, text="this broker is a standby", detail={"retry_ms": 4000})


def up(*endpoints: str, epoch: int = 3) -> Net:
    """A link with the primary, in this epoch."""
    net = Net(*(endpoints or (HOME,)), connect_timeout_s=5.0)
    net.start()
    net.say(config(1, documents.encode(PART, "JSON"), pair="prim", epoch=epoch), 0.0)
    assert net.link.phase is Phase.UP
    return net


def opened(net: Net, until_s: float) -> list[tuple[float, str]]:
    """Which brokers are tried, and when."""
    return [(now, effect.endpoint) for now, effects in net.run(until_s) for effect in of(effects, Open)]


def lose(net: Net, now: float) -> float:
    """The primary is lost, and its partner is tried: when that is."""
    net.fail("disconnected", now)
    ((tried_s, endpoint),) = opened(net, now + LOSS_PAUSE_INTERVALS * INTERVAL_S)
    assert endpoint == SPARE
    return tried_s


# --- the partner ------------------------------------------------------------------------------------------------------


def test_partner_of_a_lost_broker_is_tried_first_and_soon_and_with_connect() -> None:
    net = up()
    net.fail("disconnected", 10.0)
    ((now, effects),) = net.run(10.0 + LOSS_PAUSE_INTERVALS * INTERVAL_S)
    assert [effect.endpoint for effect in of(effects, Open)] == [SPARE]
    (connect,) = sent(effects, Connect)
    assert connect.epochs == {"prim": 3}
    assert now <= 10.0 + LOSS_PAUSE_INTERVALS * INTERVAL_S


def test_partner_that_serves_takes_the_session() -> None:
    net = up()
    now = lose(net, 10.0)
    assert of(net.say(ack(epoch=4, pair="prim"), now + 0.1), Connected) == [Connected(SPARE, 4)]


def test_broker_that_a_standby_names_is_asked_by_one_who_knew_the_standby_alone() -> None:
    net = Net(HOME, connect_timeout_s=5.0, retry_forever=True)
    net.start()
    detail = {"retry_ms": 100, "identity": "back", "endpoints": [SPARE]}
    tried = []
    for now in (0.1, 0.4, 0.7, 1.0):  # the standby says the same each time
        answered = net.say(Error(code=503, text="this broker is a standby", detail=detail), now)
        tried += [effect.endpoint for effect in of(answered, Open)]
        tried += [endpoint for _, endpoint in opened(net, now + 0.2)]
    assert SPARE in tried


def test_broker_that_asks_for_patience_is_asked_again_when_it_said_and_the_other_meanwhile() -> None:
    net = up()
    now = lose(net, 10.0)
    soon = Error(code=503, text="standby", detail={"retry_ms": 2000})  # sooner than an interval
    assert [effect.endpoint for effect in of(net.say(soon, now), Open)] == [HOME]
    net.fail("refused", now + 0.1)
    assert opened(net, now + 2.0) == [(now + 2.0, SPARE)], "and nobody else is asked yet"


def test_standby_is_asked_each_interval_for_it_may_serve_sooner_than_it_said() -> None:
    net = up()
    now = lose(net, 10.0)
    net.say(Error(code=503, text="standby", detail={"retry_ms": 60_000}), now)
    net.fail("refused", now + 0.1)
    assert opened(net, now + 0.1 + INTERVAL_S) == [(now + 0.1 + INTERVAL_S, SPARE)]
    assert of(net.say(ack(epoch=4, pair="prim"), now + 3.0), Connected) == [Connected(SPARE, 4)]


def test_primary_that_is_back_before_the_standby_serves_takes_the_session() -> None:
    net = up()
    now = lose(net, 10.0)
    net.say(STANDBY, now)
    assert of(net.say(ack(epoch=5, pair="prim"), now + 0.5), Connected) == [Connected(HOME, 5)]


def test_others_are_asked_when_patience_is_over() -> None:
    net = up()
    now = lose(net, 10.0)
    asked = []
    net.say(STANDBY, now)
    while now < 60.0 and THIRD not in asked:
        now = max(now, net.link.next_deadline())
        asked += [effect.endpoint for effect in of(net.tick(now), Open)]
        if asked and net.link.phase is Phase.CONNECTING:
            effects = net.say(STANDBY, now) if asked[-1] == SPARE else net.fail("refused", now)
            asked += [effect.endpoint for effect in of(effects or [], Open)]
    assert THIRD in asked
    assert now >= 10.0 + PATIENCE * 4.0 - 1.0


def test_standby_is_asked_again_later_though_it_asks_for_a_very_long_time() -> None:
    net = up()
    now = lose(net, 10.0)
    net.say(Error(code=503, text="standby", detail={"retry_ms": 10**12}), now)
    net.fail("refused", now + 0.1)
    assert net.link.next_deadline() <= now + RETRY_MS_MAX / 1000


@pytest.mark.parametrize("detail", [{}, {"retry_ms": "soon"}, {"retry_ms": -1}, {"retry_ms": 0}, {"retry_ms": None}])
def test_refusal_that_names_no_time_is_an_ordinary_one(detail: dict[str, object]) -> None:
    net = up()
    now = lose(net, 10.0)
    net.say(Error(code=503, text="draining", detail=detail), now)
    effects = net.fail("refused", now + 0.1)
    assert [effect.endpoint for effect in of(effects, Open)] in ([HOME], [THIRD])


def test_first_start_goes_to_the_preferred_broker_and_then_to_its_partner() -> None:
    net = up()
    net.link.close("", [])
    again = Net(HOME, connect_timeout_s=5.0)
    again.start()
    assert opened(again, 4.0) == []
    again.say(config(1, documents.encode(PART, "JSON"), pair="prim", epoch=3), 4.0)
    assert again.link.endpoints.partners_of(HOME) == [SPARE]
    assert again.link.endpoints.partners_of(THIRD) == []


def test_broker_without_a_partner_is_tried_again_itself_and_others_are_asked_with_needbroker() -> None:
    net = Net(HOME, SPARE, connect_timeout_s=5.0)
    net.start()
    net.say(ack(), 0.0)
    net.fail("disconnected", 10.0)
    ((_, endpoint),) = opened(net, 11.0)
    assert endpoint == HOME
    effects = net.fail("refused", 11.0)
    assert [effect.endpoint for effect in of(effects, Open)] == [SPARE]
    assert len(sent(effects, NeedBroker)) == 1


# --- epochs -----------------------------------------------------------------------------------------------------------


def test_highest_epoch_of_each_pair_is_named_in_connect() -> None:
    net = up(epoch=3)
    net.say(Pong(0, 0, epoch=7), 1.0)
    now = lose(net, 10.0)
    net.say(ack(epoch=9, pair="other"), now + 0.1)
    net.fail("disconnected", now + 1.0)
    effects = [effect for _, step in net.run(now + 3.0) for effect in step]
    assert sent(effects, Connect)[0].epochs == {"prim": 7, "other": 9}


def test_lower_epoch_of_one_pair_says_nothing_of_another() -> None:
    net = up(epoch=9)
    now = lose(net, 10.0)
    assert of(net.say(ack(epoch=1, pair="other"), now + 0.1), Connected) == [Connected(SPARE, 1)]


def test_partner_in_a_lower_epoch_is_not_obeyed() -> None:
    net = up(epoch=9)
    now = lose(net, 10.0)
    effects = net.say(ack(epoch=8, pair="prim"), now + 0.1)
    assert of(effects, Connected) == []
    assert net.link.phase is not Phase.UP


def test_epochs_of_brokers_without_a_partner_are_not_named() -> None:
    net = Net(HOME)
    net.start()
    net.say(ack(epoch=5), 0.0)
    net.fail("disconnected", 1.0)
    effects = [effect for _, step in net.run(3.0) for effect in step]
    assert sent(effects, Connect)[0].epochs == {}


def test_epochs_of_so_many_pairs_are_remembered_as_connect_may_name() -> None:
    net = Net(HOME)
    net.start()
    for number in range(limits.EPOCHS_MAX + 10):
        net.say(ack(epoch=1, pair=f"b{number}"), 0.0)
    assert len(net.link.epochs) <= limits.EPOCHS_MAX
    assert f"b{limits.EPOCHS_MAX + 9}" in net.link.epochs
