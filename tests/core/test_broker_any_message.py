"""Whatever a message says, and whoever says it, the broker goes on, and what it answers can be encoded and read.

Messages are drawn from a small world (three identities, a few ids and services), so that they often meet;
and from all that the codecs can express, so that nothing is left out.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scale0.core.broker import Broker
from scale0.core.effects import Effect, Route, Send
from scale0.core.settings import BrokerSettings, Limits
from scale0.protocol import codec, dialects
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Cancel, Connect, Disconnect, Ping, Ready, ServiceOffer, Task, TaskReply
from tests.core.record_reader import Reader
from tests.protocol import strategies

NONCE = bytes(8)
identities = st.sampled_from(["a", "b", "mdp-client-1"])
ids = st.builds(lambda identity, n: make_id(id_prefix(identity, NONCE), n), identities, st.integers(1, 5))
services = st.sampled_from(["x", "y", "mmi.service", "mmi.other", "scale0.services", "scale0.workers", "scale0.other"])
offers = st.lists(st.builds(ServiceOffer, services, st.booleans()), max_size=3)

related = st.one_of(
    st.builds(Connect, identity=identities, nonce=st.just(NONCE), in_flight=st.lists(ids, max_size=2)),
    st.builds(Ready, services=offers, capacity=st.integers(0, 3), heartbeat=st.booleans()),
    st.builds(Task, ids, services, st.just((b"body",)), st.sampled_from([0, 1, 60_000]), flags=st.integers(0, 1)),
    st.builds(TaskReply, ids, st.just((b"body",)), st.integers(0, 3), st.integers(0, 2), final=st.booleans()),
    st.builds(Cancel, id=ids),
    st.builds(Ping, strategies.I64, has_offset=st.booleans(), oldest_unanswered=st.integers(0, 6)),
    st.just(Disconnect()),
)
native_dialects = st.sampled_from(
    [dialects.CLIENT, dialects.WORKER, dialects.PEER, dialects.REQ_CLIENT, dialects.REQ_WORKER]
)
said = st.one_of(
    st.tuples(native_dialects, related),
    st.tuples(native_dialects, strategies.native),
    *[st.tuples(st.just(dialect), messages) for dialect, messages in strategies.MAJORDOMO.items()],
)
steps = st.lists(
    st.tuples(
        st.integers(0, 4),  # who
        said,
        st.sampled_from([0.0, 0.01, 1.0, 20.0]),  # how much later
        st.sampled_from(["goes out", "goes out", "unroutable", "full"]),
    ),
    max_size=25,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(steps=steps)
def test_any_message_leaves_the_broker_whole(steps: list[tuple[int, tuple[Any, Any], float, str]]) -> None:
    now = 100.0
    broker = Broker(BrokerSettings(limits=Limits(sessions=4, services=4)), now=now, wall_s=1e9, boot="any")
    reader = Reader(broker)
    for who, (dialect, message), later_s, fate in steps:
        now += later_s
        effects = broker.receive(Route(b"\0%d" % who), dialect, message, now)
        effects += broker.tick(now, 1e9 + now)
        broker.check()
        for effect in effects:
            carry_out(broker, effect, fate, now)
        reader.check()
    assert broker.next_deadline() > now - 1


def carry_out(broker: Broker, effect: Effect, fate: str, now: float) -> None:
    if not isinstance(effect, Send):
        return
    frames = codec.encode(effect.dialect, effect.message)
    if effect.dialect.is_native:  # what goes to Majordomo participants is not what comes from them
        assert codec.decode(frames) == (effect.dialect, effect.message)
    if fate != "goes out":
        broker.send_failed(effect, fate, now)
        broker.check()
