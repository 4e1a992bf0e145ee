"""A link's handshakes: a broker with two keys, and a key that is refused at first."""

from __future__ import annotations

from scale0.core.link import Phase
from scale0.core.link_settings import KEY_REFUSED
from scale0.core.participant import Open
from scale0.core.rounds import RESEND_S
from scale0.protocol import documents
from scale0.protocol.messages import Connect
from scale0.protocol.network import GroupBroker, GroupConfig, Part
from tests.core.keys_kit import key
from tests.core.sessions_kit import HOME, ack, config, of, sent
from tests.core.test_link import Net

BROKER = GroupBroker(identity="home", endpoints=[HOME], public_key=key("old"), next_public_key=key("new"))
PART = Part(identity="me", preferred_broker="home", group_config=[GroupConfig(name="eu", brokers=[BROKER])])


def keys_opened(net: Net, until_s: float) -> list[str]:
    return [effect.public_key for _, effects in net.run(until_s) for effect in of(effects, Open)]


def test_a_handshake_that_fails_is_tried_with_the_next_key() -> None:
    net = Net(HOME, public_keys={HOME: key("old")})
    net.start()
    net.say(config(1, documents.encode(PART, "JSON")), 0.0)
    assert net.link.phase is Phase.UP
    net.fail("disconnected", 1.0)
    assert keys_opened(net, 6.0)[:1] == [key("old")]
    (opened,) = of(net.fail("no handshake: another key", 6.5), Open)
    assert opened.public_key == key("new")
    net.say(ack(), 7.0)
    assert net.link.phase is Phase.UP
    net.fail("disconnected", 8.0)
    assert keys_opened(net, 12.0)[:1] == [key("new")], "which is the one that works"


def test_both_keys_are_tried_once_in_a_round() -> None:
    net = Net(HOME, public_keys={HOME: key("old")})
    net.start()
    net.say(config(1, documents.encode(PART, "JSON")), 0.0)
    net.fail("disconnected", 1.0)
    net.run(6.0)
    assert of(net.fail("no handshake", 6.1), Open)
    assert not of(net.fail("no handshake", 6.2), Open), "then it is the round that ends"


def test_a_refused_key_is_tried_again_on_another_socket() -> None:
    """ZeroMQ gives such a connection up, and the operator may have allowed the key meanwhile."""
    net = Net(HOME, public_keys={HOME: key("home")}, connect_timeout_s=3.0)
    net.start()
    net.fail(f"{KEY_REFUSED}; on the broker: scale0 keys allow", 0.1)
    ((now, effects),) = net.run(1.5)
    assert now >= RESEND_S
    assert [effect.public_key for effect in of(effects, Open)] == [key("home")]
    assert len(sent(effects, Connect)) == 1


def test_other_failures_leave_the_socket_to_try_by_itself() -> None:
    net = Net(HOME, connect_timeout_s=3.0)
    net.start()
    net.fail("nothing listens on that port", 0.1)
    ((_, effects),) = net.run(1.5)
    assert not of(effects, Open)
    assert len(sent(effects, Connect)) == 1
