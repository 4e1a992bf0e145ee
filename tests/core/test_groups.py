"""Which broker a worker or client should use: NEEDBROKER, 301, drains, equal shares, and going back (rules 25–29)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.core.groups import MOVES_PER_STEP, surplus
from scale0.core.settings import Limits
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, MDP1_WORKER, REQ_CLIENT, REQ_WORKER, WORKER, Dialect
from scale0.protocol.majordomo import MdpReady
from scale0.protocol.messages import (
    ChangeBroker,
    Connect,
    Disconnect,
    Error,
    NeedBroker,
    Ready,
    ReadyOk,
    ServiceOffer,
    Task,
)
from scale0.protocol.network import GroupEntry
from tests.core.desk import Desk, codes
from tests.core.mesh import WORKER_NONCE, Mesh, Node, group_of, network_of

SHORTLY_S = 0.2


def ask(node: Node, dialect: Dialect = WORKER, **needs: Any) -> str | int:
    """NEEDBROKER of somebody: the broker that was named, or the error's code."""
    node.say("who", dialect, NeedBroker(identity="who", **needs))
    (answer,) = node.said.pop("who")
    if isinstance(answer, ChangeBroker):
        assert answer.endpoints == [node.mesh.nodes[answer.identity].endpoint]
        return answer.identity
    assert isinstance(answer, Error)
    return answer.code


def told(node: Node, name: str) -> list[tuple[str, str]]:
    """Where this participant was sent, and why."""
    return [(message.identity, message.reason) for message in node.heard(name, ChangeBroker)]


# --- NEEDBROKER -----------------------------------------------------------------------------------------------------


def test_lone_broker_names_itself_unless_it_was_tried() -> None:
    desk = Desk(advertise=["tcp://127.0.0.1:5555"])
    (_, answer), *_ = desk.say("c", CLIENT, NeedBroker(identity="c"))
    assert getattr(answer, "endpoints", None) == ["tcp://127.0.0.1:5555"]
    asked = NeedBroker(identity="c", tried=["tcp://127.0.0.1:5555"])
    assert codes(desk.say("c", CLIENT, asked)) == [("c", 503)]
    desk.manage("drain")
    assert codes(desk.say("c", CLIENT, NeedBroker(identity="c"))) == [("c", 503)]


def test_broker_with_most_room_is_named() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    for node, count in ((b1, 3), (b2, 1), (b3, 2)):
        for n in range(count):
            node.worker(f"{node.name}-{n}", "echo")
            node.client(f"{node.name}-c{3 - count}-{n}")
    mesh.run(SHORTLY_S)
    assert ask(b1) == "b2"
    assert ask(b3) == "b2"


def test_workers_and_clients_are_counted_apart() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.worker("w", "echo")
    b2.client("ada")
    mesh.run(SHORTLY_S)
    assert ask(b1, WORKER) == "b2"
    assert ask(b2, CLIENT) == "b1"


def test_asked_broker_names_itself_if_it_has_as_much_room_as_any() -> None:
    _, (b1, b2) = network_of({"b1": {}, "b2": {}})
    assert (ask(b1), ask(b2)) == ("b1", "b2")


def test_assignments_count_at_once_so_that_a_crowd_is_spread() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    for n in range(10):
        b1.worker(f"w{n}", "echo")
    mesh.run(SHORTLY_S)
    named = [ask(b1) for _ in range(10)]
    assert (named.count("b2"), named.count("b3")) == (5, 5)
    assert b2.state.sessions.workers == b3.state.sessions.workers == 0


def test_assignments_count_until_those_who_were_sent_have_come() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    for n in range(4):
        b1.worker(f"w{n}", "echo")
    mesh.run(SHORTLY_S)
    assert [ask(b1) for _ in range(2)] == ["b2", "b2"]
    b2.client("news")  # a status with news, before anybody can have come
    mesh.run(SHORTLY_S)
    assert b1.state.network.peers["b2"].assigned_workers == 2
    b2.worker("v1", "echo")
    mesh.run(SHORTLY_S)
    assert b1.state.network.peers["b2"].assigned_workers == 1
    mesh.run(8.0)
    assert b1.state.network.peers["b2"].assigned_workers == 0, "who has not come by now went elsewhere"


def test_broker_that_was_tried_is_not_named() -> None:
    _, (b1, b2) = network_of({"b1": {}, "b2": {}})
    assert ask(b1, tried=[b1.endpoint]) == "b2"
    assert ask(b1, tried=[b2.endpoint]) == "b1"
    assert ask(b1, tried=[b1.endpoint, b2.endpoint]) == 503


def test_broker_is_named_only_if_it_manages_all_that_is_asked_for() -> None:
    _, (b1, _, _) = network_of({"b1": {"services": ["a"]}, "b2": {"services": ["a", "b"]}, "b3": {"services": ["c"]}})
    assert ask(b1, services=["a"]) == "b1"
    assert ask(b1, services=["a", "b"]) == "b2"
    assert ask(b1, services=["c"]) == "b3"
    assert ask(b1, services=["a", "c"]) == 503


def test_fallback_groups_are_named_in_their_order_when_the_group_has_nobody() -> None:
    brokers = {"eu-1": {"group": "eu"}, "us-1": {"group": "us"}, "ap-1": {"group": "ap"}}
    mesh, (eu, us, ap) = network_of(brokers, groups=[GroupEntry(name="eu", fallback_groups=["ap", "us"])])
    assert ask(eu) == "eu-1"
    assert ask(eu, tried=[eu.endpoint]) == "ap-1"
    assert ask(eu, tried=[eu.endpoint, ap.endpoint]) == "us-1"
    assert ask(us, tried=[us.endpoint]) == 503, "its group falls back to nobody"
    ap.kill()
    mesh.run(10.0)
    assert ask(eu, tried=[eu.endpoint]) == "us-1"


@pytest.mark.parametrize("command", ["drain", "disable"])
def test_broker_that_is_not_active_is_not_named(command: str) -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    for n in range(3):
        b1.worker(f"w{n}", "echo")
    mesh.run(SHORTLY_S)
    b2.manage(command)
    mesh.run(SHORTLY_S)
    assert ask(b1) == "b1"


def test_draining_broker_names_another_and_503_only_if_there_is_none() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.client("ada")
    b1.manage("drain")
    assert ask(b1) == "b2"
    b2.kill()
    mesh.run(10.0)
    assert ask(b1) == 503


@pytest.mark.parametrize("dialect", [CLIENT, WORKER, REQ_CLIENT])
def test_who_comes_to_a_draining_broker_knowing_no_other_is_sent_to_one(dialect: Dialect) -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.worker("w", "echo")
    b1.manage("drain")
    for name in ("new", "newer"):
        b1.say(name, dialect, Connect(identity=name, nonce=WORKER_NONCE))
        (answer,) = b1.said.pop(name)
        assert isinstance(answer, Error)
        assert (answer.code, answer.text) == (301, "this broker is draining; go to b2")
        assert (answer.detail["identity"], answer.detail["endpoints"]) == ("b2", [b2.endpoint])
    b2.kill()
    mesh.run(10.0)
    b1.say("last", dialect, Connect(identity="last", nonce=WORKER_NONCE))
    assert [message.code for message in b1.said.pop("last") if isinstance(message, Error)] == [503]


def test_who_comes_to_a_broker_without_room_for_another_session_is_sent_to_one() -> None:
    _, (b1, _) = network_of({"b1": {}, "b2": {}}, limits=Limits(sessions=1))
    b1.client("ada")
    b1.say("bob", CLIENT, Connect(identity="bob", nonce=WORKER_NONCE))
    (answer,) = b1.said.pop("bob")
    assert isinstance(answer, Error)
    assert (answer.code, answer.text) == (301, "this broker has no room for more than 1 session; go to b2")


def test_broker_without_room_for_another_session_does_not_name_itself() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}}, limits=Limits(sessions=1))
    b1.client("ada")
    assert ask(b1) == "b2"
    b2.kill()
    mesh.run(10.0)
    assert ask(b1) == 503


def test_req_socket_may_ask_too() -> None:
    _, (b1, _) = network_of({"b1": {}, "b2": {}})
    assert ask(b1, REQ_CLIENT, tried=[b1.endpoint]) == "b2"


def test_refusal_says_what_is_known() -> None:
    _, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.say("who", WORKER, NeedBroker(identity="who", tried=[b1.endpoint, b2.endpoint]))
    (error,) = b1.heard("who", Error)
    assert "knows 1 other" in error.text


# --- 301 ------------------------------------------------------------------------------------------------------------


def ready(node: Node, *services: str) -> None:
    node.say("w", WORKER, Connect(identity="w", nonce=WORKER_NONCE, services=list(services)))
    node.say("w", WORKER, Ready(services=[ServiceOffer(service) for service in services]))


def test_worker_whose_services_are_all_refused_gets_301_with_a_target() -> None:
    _, (b1, b2) = network_of({"b1": {"services": ["a"]}, "b2": {"services": ["b", "c"]}})
    ready(b1, "b", "c")
    (error,) = b1.heard("w", Error)
    assert error.code == 301
    assert error.detail == {"identity": "b2", "endpoints": [b2.endpoint], "public_key": ""}
    assert "go to b2" in error.text


def test_worker_gets_301_without_a_target_if_no_broker_manages_its_services() -> None:
    _, (b1, _) = network_of({"b1": {"services": ["a"]}, "b2": {"services": ["b"]}})
    ready(b1, "c")
    (error,) = b1.heard("w", Error)
    assert (error.code, error.detail) == (301, {})
    assert "NEEDBROKER" in error.text


def test_worker_of_which_some_services_are_refused_stays() -> None:
    _, (b1, _) = network_of({"b1": {"services": ["a"]}, "b2": {"services": ["b"]}})
    ready(b1, "a", "b")
    (answer,) = b1.heard("w", ReadyOk)
    assert list(answer.refused) == ["b"]
    assert b1.codes("w") == []


# --- drain ----------------------------------------------------------------------------------------------------------


def test_drain_sends_workers_and_clients_away_and_ends_when_they_have_gone() -> None:
    mesh, (b1, _) = group_of(2)
    b1.worker("w", "echo")
    b1.client("ada")
    b1.manage("drain")
    mesh.run(SHORTLY_S)
    assert told(b1, "w") == [("b2", "drain")]
    assert told(b1, "ada") == [("b2", "drain")]
    assert not b1.is_stopped
    b1.say("w", WORKER, Disconnect())
    b1.say("ada", CLIENT, Disconnect())
    assert b1.is_stopped


def test_drain_spreads_its_workers() -> None:
    mesh, (b1, b2, b3) = group_of(3)
    for n in range(8):
        b1.worker(f"w{n}", "echo")
    mesh.run(SHORTLY_S)
    b1.manage("drain")
    mesh.run(SHORTLY_S)
    assert mesh.move_told() == 8
    assert (b2.state.sessions.workers, b3.state.sessions.workers) == (4, 4)
    assert b1.is_stopped


def test_drain_sends_idle_workers_first() -> None:
    mesh, (b1, _) = group_of(2)
    for n in range(MOVES_PER_STEP + 10):
        b1.worker(f"busy{n}" if n < 10 else f"idle{n}", "echo")
    b1.client("ada")
    for sequence in range(1, 11):
        b1.submit("ada", sequence, "echo")
    busy = [f"busy{n}" for n in range(10)]
    assert all(b1.heard(name, Task) for name in busy), "the first to come are the first to be used"
    b1.manage("drain")
    b1.do(b1.broker.tick(mesh.now, mesh.now))
    assert not any(told(b1, name) for name in busy)
    mesh.run(SHORTLY_S)
    assert all(told(b1, name) for name in busy)


def test_worker_stays_while_tasks_wait_here_for_its_services() -> None:
    mesh, (b1, _) = group_of(2)
    b1.worker("w", "echo")
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    b1.submit("ada", 2, "echo")
    b1.manage("drain")
    mesh.run(1.0)
    assert told(b1, "w") == []
    b1.answer("w")
    mesh.run(SHORTLY_S)
    assert told(b1, "w") == [("b2", "drain")]
    b1.answer("w")
    assert b1.bodies("ada") == [b"done", b"done"]


def test_waiting_tasks_of_a_draining_broker_go_to_where_its_workers_have_gone() -> None:
    mesh, (b1, b2) = group_of(2)
    b2.worker("w2", "echo")
    b1.client("ada")
    mesh.run(SHORTLY_S)
    for sequence in (1, 2, 3):
        b1.submit("ada", sequence, "echo")
    b1.manage("drain")
    for _ in range(3):
        b2.answer("w2")
        mesh.run(SHORTLY_S)
    assert b1.bodies("ada") == [b"done"] * 3
    assert b1.codes("ada") == []


def test_who_does_not_go_is_told_again_after_two_intervals_and_waited_for_within_a_limit() -> None:
    mesh, (b1, _) = group_of(2)
    b1.worker("w", "echo")
    b1.manage("drain")
    mesh.run(1.0)
    assert len(told(b1, "w")) == 1
    mesh.run(4.5)
    assert len(told(b1, "w")) == 1
    assert not b1.is_stopped
    mesh.run(5.0)
    assert b1.is_stopped, "twice the grace"


def test_nothing_is_pushed_to_req_sockets_and_majordomo_and_nobody_waits_for_them() -> None:
    mesh, (b1, _) = group_of(2)
    b1.say("req", REQ_WORKER, Connect(identity="req", nonce=WORKER_NONCE, services=["echo"]))
    b1.say("mdp", MDP1_WORKER, MdpReady("echo"))
    b1.manage("drain")
    mesh.run(SHORTLY_S)
    assert told(b1, "req") == told(b1, "mdp") == []
    assert b1.is_stopped


def test_drain_without_anywhere_to_go_ends_when_nothing_is_held() -> None:
    _, (b1, _) = network_of({"b1": {}, "b2": {"services": ["other"]}})
    b1.worker("w", "echo")
    b1.manage("drain")
    assert b1.is_stopped
    assert told(b1, "w") == []


# --- equal shares ---------------------------------------------------------------------------------------------------

counted = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 60), min_size=1)


@settings(deadline=None)
@given(counted)
def test_after_all_gifts_shares_differ_by_at_most_one_and_nobody_moves_needlessly(counts: dict[str, int]) -> None:
    after = dict(counts)
    moved = 0
    for giver in counts:
        for taker, number in surplus(counts, giver):
            assert number > 0
            after[giver] -= number
            after[taker] += number
            moved += number
    assert sum(after.values()) == sum(counts.values())
    assert max(after.values()) - min(after.values()) <= 1
    share = sum(counts.values()) // len(counts)
    needed = max(sum(max(0, n - share - 1) for n in counts.values()), sum(max(0, share - n) for n in counts.values()))
    assert moved == needed, "as few as possible"


@settings(deadline=None)
@given(counted)
def test_nobody_gives_to_itself_or_both_gives_and_takes(counts: dict[str, int]) -> None:
    gifts = {giver: surplus(counts, giver) for giver in counts}
    givers = {giver for giver, given_ in gifts.items() if given_}
    takers = {taker for given_ in gifts.values() for taker, _ in given_}
    assert not givers & takers


def shares(nodes: list[Node]) -> list[int]:
    return [node.state.sessions.workers for node in nodes]


def run_and_move(mesh: Mesh, seconds: float) -> int:
    moved = 0
    for _ in range(round(seconds)):
        mesh.run(1.0)
        moved += mesh.move_told()
    return moved


def test_broker_that_joins_takes_its_share_of_the_workers() -> None:
    mesh, nodes = group_of(2)
    for n in range(30):
        nodes[n % 2].worker(f"w{n}", "echo" if n % 3 else "render")
    nodes.append(mesh.add("b3", seeds=[nodes[0].endpoint]))
    moved = run_and_move(mesh, 15.0)
    assert shares(nodes) == [10, 10, 10]
    assert moved == 10, "nobody moved twice"
    served = {session.services[0] for session in nodes[2].state.sessions.by_identity.values()}
    assert served == {"echo", "render"}, "of each kind some"


def test_only_brokers_of_the_same_group_share() -> None:
    brokers = {"b1": {"group": "eu"}, "b2": {"group": "us"}}
    mesh, nodes = network_of(brokers)
    for n in range(6):
        nodes[0].worker(f"w{n}", "echo")
    nodes[0].manage("balance")
    assert run_and_move(mesh, 10.0) == 0


def test_balance_by_command_evens_out_what_has_become_uneven() -> None:
    mesh, nodes = network_of({"b1": {}, "b2": {}})
    mesh.run(60.0)
    for n in range(7):
        nodes[0].worker(f"w{n}", "echo")
    assert run_and_move(mesh, 10.0) == 0, "nobody is moved about unasked"
    assert nodes[0].manage("balance") == {"workers": 7}
    assert run_and_move(mesh, 10.0) == 3
    assert shares(nodes) == [4, 3]


def test_idle_workers_move_before_busy_ones() -> None:
    mesh, (b1, _) = network_of({"b1": {}, "b2": {}})
    for n in range(4):
        b1.worker(f"w{n}", "echo")
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    b1.submit("ada", 2, "echo")
    b1.manage("balance")
    mesh.run(1.0)
    assert [bool(told(b1, f"w{n}")) for n in range(4)] == [False, False, True, True]


def test_worker_is_not_sent_to_a_broker_that_does_not_manage_its_services() -> None:
    mesh, (b1, _) = network_of({"b1": {}, "b2": {"services": ["echo"]}})
    for n in range(4):
        b1.worker(f"w{n}", "render" if n else "echo")
    b1.manage("balance")
    mesh.run(3.0)
    assert [len(told(b1, f"w{n}")) for n in range(4)] == [1, 0, 0, 0]


# --- going back -----------------------------------------------------------------------------------------------------


def away_from_home(**document: Any) -> tuple[Mesh, Node, Node]:
    """A worker and a client whose home is b1 are at b2; b1 has just come back."""
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}}, **document)
    mesh.run(60.0)
    b1.kill()
    b2.worker("w", "echo", home="b1")
    b2.client("ada", home="b1")
    b2.worker("w2", "echo")
    mesh.run(10.0)
    b1.restart()
    return mesh, b1, b2


def test_failback_is_manual_by_default() -> None:
    mesh, _, b2 = away_from_home(failback_after_s=5.0)
    mesh.run(60.0)
    assert told(b2, "w") == []
    assert b2.manage("failback") == {"brokers": ["b1"]}
    mesh.run(3.0)
    assert told(b2, "w") == [("b1", "failback: b1 is back")]
    assert told(b2, "ada") == [("b1", "failback: b1 is back")]
    assert told(b2, "w2") == [], "it is at home"


def test_automatic_failback_waits_until_the_broker_has_settled() -> None:
    mesh, _, b2 = away_from_home(failback="automatic", failback_after_s=20.0)
    mesh.run(15.0)
    assert told(b2, "w") == []
    mesh.run(15.0)
    assert ("b1", "failback: b1 is back") in told(b2, "w")
    assert told(b2, "w2") == []


def test_worker_that_fled_from_a_broker_whose_death_is_not_noticed_yet_is_not_sent_back() -> None:
    mesh, (b1, _) = network_of({"b1": {}, "b2": {}}, failback="automatic", failback_after_s=20.0)
    mesh.run(60.0)
    mesh.cut("b1", "b2")
    b1.worker("w", "echo", home="b2")
    mesh.run(4.0)
    assert b1.rows("network")[1]["state"] == "active", "only silence will tell that it is gone"
    assert told(b1, "w") == []


def test_failback_of_many_goes_on_by_itself() -> None:
    mesh, _, b2 = away_from_home()
    for n in range(3 * MOVES_PER_STEP):
        b2.worker(f"more{n}", "echo", home="b1")
    mesh.run(5.0)
    b2.manage("failback", broker="b1")
    mesh.run(2.0)
    assert all(told(b2, f"more{n}") for n in range(3 * MOVES_PER_STEP))


def test_worker_that_has_not_said_ready_is_not_sent_to_a_broker_that_may_not_manage_its_services() -> None:
    mesh, (_, b2) = network_of({"b1": {"services": ["other"]}, "b2": {}})
    mesh.run(60.0)
    b2.say("w", WORKER, Connect(identity="w", nonce=WORKER_NONCE, services=["echo"], home="b1"))
    b2.manage("failback", broker="b1")
    mesh.run(1.0)
    b2.say("w", WORKER, Ready(services=[ServiceOffer("echo")]))
    mesh.run(3.0)
    assert told(b2, "w") == []


def test_failback_to_a_broker_that_is_not_there_yet_waits_for_it() -> None:
    mesh, b1, b2 = away_from_home()
    b1.kill()
    mesh.run(10.0)
    b2.manage("failback", broker="b1")
    mesh.run(10.0)
    assert told(b2, "w") == []
    b1.restart()
    mesh.run(12.0)
    assert told(b2, "w") != []


def test_failback_to_an_unknown_broker_is_refused() -> None:
    _, (_, b2) = network_of({"b1": {}, "b2": {}})
    with pytest.raises(ProtocolError, match="no broker 'b7'"):
        b2.manage("failback", broker="b7")


def test_home_of_a_participant_is_what_its_last_connect_says() -> None:
    mesh, _, b2 = away_from_home()
    b2.worker("w", "echo")
    mesh.run(5.0)
    b2.manage("failback", broker="b1")
    mesh.run(3.0)
    assert told(b2, "w") == []


def test_balance_does_not_undo_a_failback() -> None:
    mesh, b1, b2 = away_from_home()
    mesh.run(5.0)
    b2.manage("failback")
    mesh.run(2.0)
    assert mesh.move_told() == 1
    moved = run_and_move(mesh, 20.0)
    assert moved == 0
    assert shares([b1, b2]) == [1, 1]
