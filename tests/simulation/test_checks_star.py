"""One that stood still: whether it has to notice, or was merely slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scale0.core.effects import Route, Send
from scale0.core.star import Star
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import NO_VERSION, PeerStatus
from scale0.simulator.checks_star import StarChecks

TAKEOVER_S = 5.0
TOLD_S = 10.0  # when it last told its partner what it is


def is_slow(paused_s: float, went_on_s: float, *, is_linked: bool = True) -> bool:
    """Whether it counts as one that was merely slow, after it stood still for so long."""
    pair = SimpleNamespace(star=Star.ACTIVE, partner="back")
    network = SimpleNamespace(peers={"back": SimpleNamespace(is_linked=is_linked)})
    state = SimpleNamespace(pair=pair, network=network, mode="active", epoch=1)
    host: Any = SimpleNamespace(
        name="prim", incarnation=1, epoch=1, now=TOLD_S, settings=SimpleNamespace(takeover_s=TAKEOVER_S)
    )
    host.broker = SimpleNamespace(state=state)
    world: Any = SimpleNamespace(shape=object(), count=lambda *_: None)
    checks = StarChecks(world)
    slow: list[float] = []
    checks.splits.was_slow = lambda host, since_s: slow.append(since_s)  # type: ignore[method-assign]
    word = PeerStatus(identity="prim", state="active", epoch=1, config_version=NO_VERSION, star="active")
    checks.sent(host, Send(Route(b"r"), PEER, word))
    host.now = went_on_s
    checks.went_on(host, paused_s)
    return slow == [went_on_s - paused_s]


@pytest.mark.parametrize(
    ("paused_s", "went_on_s", "is_linked", "expected"),
    [
        (4.6, 14.9, True, True),
        (4.6, 15.1, True, False),
        (4.6, 15.1, False, True),
        (5.1, 15.1, False, False),
    ],
    ids=["its last word is young", "its last word is old", "nobody is told", "it stood still for long"],
)
def test_one_that_stood_still_is_slow_as_long_as_its_partner_would_wait(
    paused_s: float, went_on_s: float, is_linked: bool, expected: bool
) -> None:
    assert is_slow(paused_s, went_on_s, is_linked=is_linked) is expected


@pytest.mark.parametrize(("held_s", "expected"), [(0.5, set()), (1.0, {b"task"})])
def test_what_a_peer_has_is_left_behind_only_if_a_handover_has_waited_for_it_long_enough(
    held_s: float, expected: set[bytes]
) -> None:
    peer = SimpleNamespace(workers={"echo": SimpleNamespace(slots={b"task": 1})})
    state = SimpleNamespace(settings=SimpleNamespace(grace_s=1.0), network=SimpleNamespace(peers={"b2": peer}))
    host: Any = SimpleNamespace(name="prim", now=TOLD_S + held_s, broker=SimpleNamespace(state=state))
    world: Any = SimpleNamespace(shape=object())
    checks = StarChecks(world)
    checks._holds_s["prim"] = TOLD_S
    checks._gave_way(host)
    assert checks.left_behind == expected
