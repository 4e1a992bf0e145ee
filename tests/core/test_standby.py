"""What the two say of themselves: to who asks the wrong one, and to other brokers."""

from __future__ import annotations

import pytest

from scale0.core import binary_star
from scale0.core.standby import RETRY_S
from scale0.protocol.dialects import CLIENT, MDP1_CLIENT, MDP2_WORKER, PEER, REQ_CLIENT, WORKER, Dialect
from scale0.protocol.majordomo import MdpReady, MdpRequest
from scale0.protocol.messages import (
    ChangeBroker,
    Config,
    Connect,
    Disconnect,
    Error,
    ForceNegotiate,
    NeedBroker,
    PeerStatus,
    Ping,
)
from tests.core.mesh import CLIENT_NONCE, SETTLED_S, pair_of
from tests.core.star_kit import SEEN, SHORTLY_S, TAKEOVER_S, pair_and_third


@pytest.mark.parametrize("dialect", [CLIENT, WORKER, REQ_CLIENT], ids=lambda dialect: dialect.name)
def test_who_does_not_know_the_pair_is_sent_to_the_one_that_serves(dialect: Dialect) -> None:
    _, primary, fallback = pair_of()
    fallback.say("ada", dialect, Connect(identity="ada", nonce=CLIENT_NONCE))
    (moved,) = fallback.heard("ada", Error)
    assert (moved.code, moved.fatal) == (301, False)
    assert moved.detail == {"identity": "prim", "endpoints": [primary.endpoint], "public_key": ""}
    assert "ada" not in fallback.state.sessions.by_identity


def test_who_knows_the_pair_is_asked_to_come_again() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(3.0)
    fallback.client("ada", epochs=SEEN)
    (later,) = fallback.heard("ada", Error)
    assert later.code == 503
    assert 0 < later.detail["retry_ms"] <= (TAKEOVER_S - 3.0 + 2.5) * 1000
    mesh.run(later.detail["retry_ms"] / 1000 + 0.05)
    fallback.client("ada", epochs=SEEN)
    assert (fallback.mode, fallback.heard("ada", Error)) == ("active", [])


def test_who_knows_the_pair_hears_where_the_one_is_that_serves() -> None:
    _, primary, fallback = pair_of()
    fallback.client("ada", epochs=SEEN)
    (later,) = fallback.heard("ada", Error)
    assert later.code == 503
    assert (later.detail["identity"], later.detail["endpoints"]) == ("prim", [primary.endpoint])


def test_nobody_is_asked_to_come_again_at_once() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    fallback.restart()
    mesh.run(3 * TAKEOVER_S)
    fallback.client("ada", epochs=SEEN)
    (later,) = fallback.heard("ada", Error)
    assert (later.code, later.detail) == (503, {"retry_ms": RETRY_S * 1000})


def test_who_does_not_know_the_pair_is_asked_to_come_again_when_the_other_seems_gone() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(6.0 - binary_star.silence_s(fallback.state))
    fallback.client("ada")
    assert fallback.codes("ada") == [503]


def test_needbroker_is_answered_with_the_one_that_serves_unless_it_was_tried() -> None:
    _, primary, fallback = pair_of()
    fallback.say("ada", CLIENT, NeedBroker(identity="ada"))
    (target,) = fallback.heard("ada", ChangeBroker)
    assert (target.identity, target.endpoints) == ("prim", [primary.endpoint])
    fallback.say("ada", CLIENT, NeedBroker(identity="ada", tried=[primary.endpoint]))
    assert fallback.heard("ada", ChangeBroker) == []
    assert len(fallback.codes("ada")) == 1


def test_majordomo_is_met_with_silence() -> None:
    _, _, fallback = pair_of()
    fallback.say("m", MDP2_WORKER, MdpReady("echo"))
    fallback.say("mc", MDP1_CLIENT, MdpRequest("echo", (b"body",)))
    assert fallback.said == {}
    assert fallback.state.counters["refused_while_passive"] == 2


def test_other_messages_of_strangers_are_answered_as_ever_and_are_no_question() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(2 * TAKEOVER_S)
    fallback.say("ada", CLIENT, Ping(0))
    fallback.say("bob", CLIENT, Disconnect())
    assert len(fallback.heard("ada", ForceNegotiate)) == 1
    assert fallback.mode == "passive"


def test_other_broker_is_refused_a_link_by_a_standby() -> None:
    _, _, fallback, third = pair_and_third()
    connect = Connect(identity="third", nonce=third.state.network.nonce, network="scale0")
    fallback.say("third", PEER, connect)
    (refused,) = fallback.heard("third", Error)
    assert (refused.code, "links with prim only" in refused.text) == (503, True)


def test_other_brokers_hear_how_the_standby_is() -> None:
    mesh, _, fallback, third = pair_and_third()
    mesh.run(3.0)
    assert {told.fallback for told in mesh.between("prim", "third", PeerStatus)} == {"in sync"}
    fallback.kill()
    mesh.run(SETTLED_S)
    assert mesh.between("prim", "third", PeerStatus)[-1].fallback == "lost"
    fallback.restart()
    mesh.run(SETTLED_S)
    assert mesh.between("prim", "third", PeerStatus)[-1].fallback == "in sync"
    assert mesh.between("prim", "third", PeerStatus)[-1].star == "", "that is between the two"
    assert third.mode == "active"


def test_the_two_tell_one_another_what_they_are() -> None:
    mesh, primary, _ = pair_of()
    primary.client("ada")
    mesh.run(3.0)
    last = mesh.between("prim", "back", PeerStatus)[-1]
    assert primary.state.stream is not None
    assert (last.star, last.epoch, last.stream, last.fallback) == ("active", 3, primary.state.stream.seq, "")
    answer = mesh.between("back", "prim", PeerStatus)[-1]
    assert (answer.star, answer.state, answer.workers, answer.clients) == ("passive", "passive", 0, 0)


def test_participant_of_a_pair_hears_its_name_and_epoch() -> None:
    _, primary, _ = pair_of()
    primary.client("ada")
    (config,) = primary.heard("ada", Config)
    assert (config.pair, config.epoch) == ("prim", 3)


def test_disabled_one_says_that_it_is_neither() -> None:
    mesh, _, fallback = pair_of()
    fallback.manage("disable")
    mesh.run(SHORTLY_S)
    assert mesh.between("back", "prim", PeerStatus)[-1].star == ""
