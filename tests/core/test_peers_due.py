"""When something falls due with a peer: whatever comes first counts."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from scale0.core import peers_due
from scale0.core.network import Peer
from tests.core.desk import Desk
from tests.core.neighbour import Neighbour

SOON_S = 0.01


def peer_of(desk: Desk) -> Peer:
    """A peer with which nothing is due but its next PEERSTATUS."""
    Neighbour(desk)
    desk.pass_time(0.2)
    return desk.broker.state.network.peers["b2"]


def test_nothing_is_due_without_peers(desk: Desk) -> None:
    assert peers_due.next_s(desk.broker.state) == math.inf


def test_next_status_is_due_before_an_interval_is_over(desk: Desk) -> None:
    peer = peer_of(desk)
    state = desk.broker.state
    assert peers_due.next_s(state) == peer.told_s + 0.9 * state.settings.default_heartbeat_interval_s


def speaks_no_more(desk: Desk, peer: Peer) -> None:
    assert peer.session is not None
    settings = desk.broker.state.settings
    peer.session.last_seen_s = desk.now + SOON_S - settings.liveness * settings.default_heartbeat_interval_s


def has_missed_a_table(desk: Desk, peer: Peer) -> None:
    peer.table_due, peer.table_at_s = {"w": None}, desk.now + SOON_S


def wants_to_join(desk: Desk, peer: Peer) -> None:
    peer.is_joining, peer.join_at_s = True, desk.now + SOON_S


def has_no_link(desk: Desk, peer: Peer) -> None:
    peer.is_linked, peer.dialing.route = False, None
    settings = desk.broker.state.settings
    peer.dialing.at_s = desk.now + SOON_S
    peer.unlinked_s = desk.now + SOON_S - 2 * settings.liveness * settings.default_heartbeat_interval_s


@pytest.mark.parametrize("cause", [speaks_no_more, has_missed_a_table, wants_to_join, has_no_link])
def test_whatever_comes_sooner_is_due_sooner(desk: Desk, cause: Callable[[Desk, Peer], None]) -> None:
    peer = peer_of(desk)
    cause(desk, peer)
    assert peers_due.next_s(desk.broker.state) == pytest.approx(desk.now + SOON_S)
