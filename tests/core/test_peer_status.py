"""PEERSTATUS: the heartbeat between brokers, news and its pace, and the credit that each peer gets (rule 28)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.core.peer_status import CREDIT_MAX, NEWS_S
from scale0.protocol.messages import (
    Connect,
    Disconnect,
    PeerService,
    PeerStatus,
    Ready,
    ServiceOffer,
    Status,
    TaskReply,
)
from tests.core.desk import Desk, Sent, only_task
from tests.core.mesh import group_of, network_of
from tests.core.neighbour import Neighbour, joining, said, status

PAUSE_S = 2 * NEWS_S  # longer than the pace of news


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://10.0.0.1:5555"])


def told(sent: Sent, to: str = "b2") -> dict[str, PeerService]:
    """What PEERSTATUS said to this peer, by service."""
    return {service.name: service for message in said(sent, PeerStatus, to) for service in message.services}


def credit(desk: Desk, to: str = "b2", service: str = "echo") -> int:
    """What this peer was told last that it may have."""
    return desk.broker.state.network.peers[to].told[service].credit


# --- heartbeat and news ---------------------------------------------------------------------------------------------


def test_status_leaves_each_interval_even_without_news(desk: Desk) -> None:
    b2 = Neighbour(desk)
    beats = 0
    for _ in range(90):
        beats += len(said(desk.pass_time(0.25), PeerStatus))
        b2.say(status())
    assert 9 <= beats <= 11, "22.5 s are 9 intervals"


def test_status_tells_state_epoch_version_interval_and_counts(desk: Desk) -> None:
    Neighbour(desk)
    desk.worker("w", "echo")
    desk.client("ada")
    (message,) = said(desk.pass_time(PAUSE_S), PeerStatus)
    assert (message.identity, message.state, message.epoch) == ("b1", "active", 1)
    assert message.config_version == desk.broker.state.config.packed_version
    assert (message.heartbeat_interval_ms, message.workers, message.clients) == (2500, 1, 1)


def test_news_is_told_soon_and_lists_only_what_changed(desk: Desk) -> None:
    Neighbour(desk)
    desk.worker("w1", "echo")
    assert told(desk.pass_time(PAUSE_S)) == {"echo": PeerService("echo", 1, 1, 0, False, 3)}
    desk.worker("w2", "render")
    (message,) = said(desk.pass_time(PAUSE_S), PeerStatus)
    assert [service.name for service in message.services] == ["render"]
    assert not message.is_full


def test_news_is_paced(desk: Desk) -> None:
    Neighbour(desk)
    worker = desk.worker("w", "echo", capacity=100)
    client = desk.client("ada")
    sent: Sent = []
    for _ in range(100):
        worker.reply(only_task(client.submit("echo"), "w"))
        client.submit("echo")
        sent += desk.pass_time(0.01)
    assert len(said(sent, PeerStatus)) <= 1.0 / NEWS_S + 1


def test_news_that_comes_within_the_pace_is_told_when_the_pace_allows(desk: Desk) -> None:
    Neighbour(desk)
    desk.worker("w1", "echo")
    desk.pass_time(PAUSE_S)
    desk.worker("w2", "render")
    desk.pass_time(NEWS_S / 10)
    assert desk.broker.next_deadline() <= desk.now + PAUSE_S
    assert set(told(desk.pass_time(PAUSE_S, steps=10))) == {"render"}


def test_nothing_is_told_early_when_nothing_has_changed_for_the_peer(desk: Desk) -> None:
    Neighbour(desk)
    worker = desk.worker("w", "echo", capacity=2000)
    desk.pass_time(PAUSE_S)
    client = desk.client("ada")
    worker.reply(only_task(client.submit("echo"), "w"))
    assert said(desk.pass_time(PAUSE_S), PeerStatus) == [], "there is more room than anybody is granted"


def test_change_of_state_is_news_even_without_workers() -> None:
    mesh, (b1, b2, _) = group_of(3)
    b2.worker("w", "echo")
    mesh.run(1.0)
    b1.client("ada")
    b1.manage("drain")
    mesh.run(PAUSE_S)
    assert b2.peer("b1").status is not None
    assert b2.rows("network")[0]["state"] == "draining"


def test_change_of_config_is_news() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.listens_to.clear()
    b1.apply(liveness=4)
    mesh.run(PAUSE_S)
    assert b2.document.liveness == 4


def test_service_that_lost_its_workers_is_told(desk: Desk) -> None:
    Neighbour(desk)
    worker = desk.worker("w", "echo")
    desk.pass_time(PAUSE_S)
    worker.say(Ready(services=[ServiceOffer("render")]))
    assert told(desk.pass_time(PAUSE_S)) == {
        "echo": PeerService("echo"),
        "render": PeerService("render", 1, 1, 0, False, 3),
    }


def test_name_that_is_forgotten_is_told_once() -> None:
    desk = Desk(identity="b1", is_settled=False)
    Neighbour(desk)
    desk.client("ada").submit("nothing", timeout_s=1.0)
    assert told(desk.pass_time(PAUSE_S)) == {"nothing": PeerService("nothing", queued=1)}
    assert told(desk.pass_time(2.0, steps=20)) == {"nothing": PeerService("nothing")}
    assert told(desk.pass_time(5.0, steps=20)) == {}
    assert desk.broker.state.network.peers["b2"].told == {}, "and takes no room any more"


# --- credit ---------------------------------------------------------------------------------------------------------


def test_peer_that_does_not_wait_gets_all_that_is_free(desk: Desk) -> None:
    Neighbour(desk)
    desk.worker("w1", "echo", capacity=3)
    desk.worker("w2", "echo", capacity=4)
    desk.pass_time(PAUSE_S)
    assert credit(desk) == 7


def test_credit_counts_what_the_peer_has_here_already(desk: Desk) -> None:
    b2 = Neighbour(desk)
    worker = desk.worker("w", "echo", capacity=3)
    desk.pass_time(PAUSE_S)
    task = only_task(b2.forward(1, "echo"), "w")
    desk.pass_time(PAUSE_S)
    assert credit(desk) == 3, "1 in flight and 2 free"
    desk.client("ada").submit("echo")
    desk.pass_time(PAUSE_S)
    assert credit(desk) == 2
    worker.reply(task)
    desk.pass_time(PAUSE_S)
    assert credit(desk) == 2


def test_what_a_peer_gave_up_when_it_left_is_neither_listed_nor_counted_when_it_is_back(desk: Desk) -> None:
    b2 = Neighbour(desk)
    desk.worker("w", "echo", capacity=3)
    desk.pass_time(PAUSE_S)
    task = only_task(b2.forward(1, "echo"), "w")
    b2.say(Disconnect(reason="no longer listed"))
    (answer,) = said(b2.say(joining()), Connect)
    assert answer.in_flight == []
    desk.pass_time(PAUSE_S)
    assert credit(desk) == 2, "2 are free, and of the one that runs it knows nothing"
    assert task.id in desk.broker.state.ledger.entries, "its client may come here"


def test_no_credit_without_a_free_slot(desk: Desk) -> None:
    Neighbour(desk)
    desk.worker("w", "echo")
    desk.client("ada").submit("echo")
    assert told(desk.pass_time(PAUSE_S)) == {"echo": PeerService("echo", 1, 0, 0, False, 3)}


def test_peers_that_wait_share_what_is_free(desk: Desk) -> None:
    b2, b3, b4 = (Neighbour(desk, name) for name in ("b2", "b3", "b4"))
    for peer in (b2, b3):
        peer.offer("echo", 0, 0, queued=50)
    desk.worker("w", "echo", capacity=12)
    desk.pass_time(PAUSE_S)
    assert (credit(desk, "b2"), credit(desk, "b3"), credit(desk, "b4")) == (6, 6, 4)
    b4.offer("echo", 0, 0, queued=1)
    b3.offer("echo", 0, 0)
    desk.client("ada").submit("scale0.services")  # whatever is done here makes it look again
    desk.pass_time(PAUSE_S)
    assert (credit(desk, "b2"), credit(desk, "b3"), credit(desk, "b4")) == (6, 4, 6)


def test_one_free_slot_may_be_granted_to_several_and_who_is_late_gets_its_task_back_at_once(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    desk.worker("w", "echo")
    desk.pass_time(PAUSE_S)
    assert (credit(desk, "b2"), credit(desk, "b3")) == (1, 1)
    only_task(b2.forward(1, "echo"), "w")
    (back,) = said(b3.forward(2, "echo", attempt=4), TaskReply, "b3")
    assert (back.status, back.attempt, back.final) == (Status.RETURNED, 4, True)
    assert told(desk.pass_time(PAUSE_S), "b3")["echo"].credit == 0


def test_peer_whose_task_came_back_is_told_again_even_if_nothing_has_changed_for_it(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    worker = desk.worker("w", "echo")
    desk.pass_time(PAUSE_S)
    task = only_task(b2.forward(1, "echo"), "w")
    b3.forward(2, "echo")
    worker.reply(task)
    assert told(desk.pass_time(PAUSE_S), "b3")["echo"].credit == 1


def test_credit_has_a_limit(desk: Desk) -> None:
    Neighbour(desk)
    desk.worker("w", "echo", capacity=4000)
    desk.pass_time(PAUSE_S)
    assert credit(desk) == CREDIT_MAX


def test_peers_are_told_our_own_terms_and_not_those_that_we_heard_from_them(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo", 1, 0, idempotent=False, max_attempts=1)
    desk.worker("w", "echo", idempotent=True, max_attempts=5)
    service = told(desk.pass_time(PAUSE_S))["echo"]
    assert (service.idempotent, service.max_attempts) == (True, 5)
    assert not desk.broker.state.services.by_name["echo"].idempotent, "who disagree make it not idempotent"


@pytest.mark.parametrize("command", ["drain", "disable"])
def test_broker_that_is_not_active_grants_nothing(desk: Desk, command: str) -> None:
    Neighbour(desk)
    desk.worker("w", "echo")
    desk.worker("busy", "render")
    desk.client("ada").submit("render")
    desk.pass_time(PAUSE_S)
    desk.manage(command)
    (message,) = said(desk.pass_time(PAUSE_S), PeerStatus)
    assert message.state in ("draining", "disabling")
    assert [(service.name, service.workers, service.credit) for service in message.services] == [
        ("echo", 0, 0),
        ("render", 0, 0),
    ]


@settings(deadline=None)
@given(free=st.integers(1, 2000), queued=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_shares_of_those_who_wait_are_equal_and_nobody_is_left_out(free: int, queued: list[int]) -> None:
    desk = Desk(identity="b0")
    names = [f"c{n}" for n in range(len(queued))]
    for name, waiting in zip(names, queued, strict=True):
        Neighbour(desk, name).offer("echo", 0, 0, queued=waiting)
    desk.worker("w", "echo", capacity=free)
    desk.pass_time(PAUSE_S)
    granted = {name: credit(desk, name) for name in names}
    shares = [granted[name] for name, waiting in zip(names, queued, strict=True) if waiting]
    assert all(1 <= share <= min(free, CREDIT_MAX) for share in granted.values())
    assert len(set(shares)) <= 1
    if shares and free >= len(shares):
        assert sum(shares) <= free
        assert sum(shares) > min(free, CREDIT_MAX * len(shares)) - len(shares), "next to nothing lies idle"
