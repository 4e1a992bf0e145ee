"""Which broker makes the link of a pair, when it dials, and what it says first."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scale0.core.effects import Dial, HangUp, Route, Send
from scale0.protocol.dialects import CLIENT, PEER, WORKER, Dialect
from scale0.protocol.messages import Connect, Error, ForceNegotiate, PeerStatus
from tests.core.desk import Desk
from tests.core.mesh import Mesh, document_of, endpoint_of, group_of, network_of


def test_higher_identity_dials_and_says_connect_first() -> None:
    mesh = Mesh()
    document = document_of({"b1": {}, "b2": {}})
    mesh.add("b1", document=document)
    b2 = mesh.add("b2", document=document)
    mesh.run(0.05)
    assert [endpoint for _, endpoint in b2.dials] == [endpoint_of(1)]
    sender, receiver, first = mesh.passed[0]
    assert (sender, receiver) == ("b2", "b1")
    assert isinstance(first, Connect)
    assert (first.identity, first.network, first.is_joining) == ("b2", "scale0", False)
    assert first.config_version == b2.state.config.packed_version


def test_lower_identity_dials_only_if_nobody_has_come_for_twice_the_silence() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", document=document_of({"b1": {}, "b2": {}}))
    mesh.run(14.9)
    assert b1.dials == []
    mesh.run(0.3)
    assert len(b1.dials) == 1


def test_lower_identity_links_if_the_higher_one_cannot_reach_it() -> None:
    mesh = Mesh()
    document = document_of({"b1": {}, "b2": {}})
    b1 = mesh.add("b1", document=document)
    b1.endpoint = "tcp://10.9.9.9:1"  # as b2 is not told
    mesh.add("b2", document=document)
    mesh.run(14.0)
    assert mesh.links_between("b1", "b2") == 0
    mesh.run(3.0)
    assert mesh.links_between("b1", "b2") == 1
    assert b1.peer("b2").is_linked


def test_address_where_nobody_answers_is_dialed_again_later_and_later_up_to_an_interval() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", seeds=["tcp://10.9.9.9:1"])
    mesh.run(40.0)
    pauses = [later - sooner for (sooner, _), (later, _) in pairwise(b1.dials)]
    assert pauses == sorted(pauses), "2 s for an answer, then a pause that doubles"
    assert pauses[0] == pytest.approx(2.2, abs=0.11)
    assert pauses[-1] == pytest.approx(4.5, abs=0.11)


def test_link_that_nobody_answers_is_hung_up_before_the_next_is_dialed() -> None:
    desk = Desk(is_settled=False, seeds=["tcp://10.9.9.9:1"])
    desk.pass_time(0.1)
    (first,) = [effect for effect in desk.others if isinstance(effect, Dial)]
    assert [(send.route, type(send.message)) for send in desk.sends] == [(first.route, Connect)]
    desk.pass_time(2.1)
    assert [effect for effect in desk.others if isinstance(effect, HangUp)] == [HangUp(first.route)]
    desk.pass_time(0.3)
    (second,) = [effect for effect in desk.others if isinstance(effect, Dial)]
    assert second.route != first.route, "what comes late from the old link is not taken for the new one"


@pytest.mark.parametrize("dialect", [CLIENT, WORKER])
def test_whoever_answers_a_dialed_link_as_a_participant_gets_no_session(dialect: Dialect) -> None:
    desk = Desk(seeds=["tcp://10.9.9.9:1"], is_settled=False)
    desk.pass_time(0.1)
    (dial,) = [effect for effect in desk.others if isinstance(effect, Dial)]
    effects = desk.broker.receive(dial.route, dialect, Connect(identity="eve", nonce=bytes(8)), desk.now)
    (told,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert isinstance(told, Error)
    assert told.code == 501
    assert len(desk.broker.state.sessions) == 0


def test_seeds_are_left_alone_while_somebody_is_linked() -> None:
    mesh, (b1, _) = group_of(2)
    b3 = mesh.add("b3", seeds=[b1.endpoint, "tcp://10.9.9.9:1"])
    mesh.run(12.0)
    assert [endpoint for _, endpoint in b3.dials].count("tcp://10.9.9.9:1") == 1


def test_broken_connection_is_dialed_again_at_once_and_nobody_is_lost() -> None:
    mesh, (b1, b2) = group_of(2)
    mesh.sever("b1", "b2")
    assert b2.peer("b1").session.is_absent, "it gets no tasks now"  # type: ignore[union-attr]
    mesh.run(0.5)
    assert mesh.links_between("b1", "b2") == 1
    assert not b2.peer("b1").session.is_absent  # type: ignore[union-attr]
    mesh.run(10.0)
    assert b1.alarms == b2.alarms == []
    assert b2.state.counters["links_lost"] == 0


def test_unreachable_peer_is_dialed_until_it_is_back() -> None:
    mesh, (b1, b2) = group_of(2)
    b1.kill()
    mesh.run(30.0)
    assert not b2.peer("b1").is_linked
    b1.start()
    mesh.run(5.0)
    assert b2.peer("b1").is_linked
    assert mesh.links_between("b1", "b2") == 1


def test_restarted_broker_asks_for_connect_on_the_same_link() -> None:
    mesh, (b1, b2) = group_of(2)
    dials = len(b2.dials)
    b1.restart_unnoticed()
    mesh.run(3.0)
    assert [type(message) for message in mesh.between("b1", "b2", ForceNegotiate)] == [ForceNegotiate]
    assert len(b2.dials) == dials, "the connection came back by itself"
    assert b1.peer("b2").is_linked
    assert b2.peer("b1").is_linked
    assert mesh.links_between("b1", "b2") == 1


def test_dialer_that_restarts_is_taken_when_its_former_process_is_quiet() -> None:
    mesh, (b1, b2) = group_of(2)
    b2.restart()
    mesh.run(1.0)
    assert [error.code for error in mesh.between("b1", "b2", Error)] != []
    assert {error.code for error in mesh.between("b1", "b2", Error)} == {409}
    mesh.run(5.0)
    assert b1.peer("b2").is_linked
    assert mesh.links_between("b1", "b2") == 1
    assert b2.alarms == [], "nobody need look at that"


def test_fatal_refusal_is_told_to_the_operator_once() -> None:
    desk = Desk(is_settled=False, seeds=["tcp://10.9.9.9:1"])
    alarms = []
    for _ in range(3):
        while not desk.sends:
            desk.pass_time(0.1)
        refusal = Error(code=403, text="this broker belongs to another network", fatal=True)
        desk.broker.check()
        effects = desk.broker.receive(desk.sends[0].route, PEER, refusal, desk.now)
        alarms += [effect for effect in effects if not isinstance(effect, Send | HangUp)]
        desk.pass_time(0.01)
    (alarm,) = alarms
    assert "tcp://10.9.9.9:1 refuses us: 403 this broker belongs to another network" in str(alarm)


def test_seed_that_leads_to_ourselves_is_told_to_the_operator() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", seeds=[endpoint_of(1)])
    mesh.run(10.0)
    assert "link_refused" in b1.alarm_names()
    assert "own identity" in b1.alarms[0].text
    assert b1.mode == "joining"


def test_address_to_join_by_whose_connection_ends_is_dialed_again() -> None:
    desk = Desk(is_settled=False, seeds=["tcp://10.9.9.9:1"])
    desk.pass_time(0.1)
    (dial,) = [effect for effect in desk.others if isinstance(effect, Dial)]
    assert desk.broker.link_broken(dial.route, desk.now) == [HangUp(dial.route)]
    desk.pass_time(0.25)
    assert len([effect for effect in desk.others if isinstance(effect, Dial)]) == 1


def test_peer_without_an_address_is_waited_for() -> None:
    mesh = Mesh()
    document = document_of({"b1": {"endpoints": []}, "b2": {}})
    b1, b2 = (mesh.add(name, document=document) for name in ("b1", "b2"))
    mesh.run(14.0)
    assert b2.dials == []
    mesh.run(2.0)
    assert [endpoint for _, endpoint in b1.dials] == [b2.endpoint]
    assert mesh.links_between("b1", "b2") == 1


def test_two_entries_with_one_address_are_dialed_one_at_a_time() -> None:
    mesh = Mesh()
    document = document_of({"b1": {}, "b2": {"endpoints": [endpoint_of(1)]}, "b3": {}})
    b1 = mesh.add("b1", document=document)
    mesh.add("b2")
    b3 = mesh.add("b3", document=document)
    mesh.run(8.0)
    assert b3.peer("b1").is_linked
    assert mesh.links_between("b1", "b3") == 1
    assert b1.state.counters["links_up"] == 1


def test_end_of_a_connection_that_nobody_knows_does_nothing() -> None:
    desk = Desk()
    assert desk.broker.link_broken(Route(b"\xffL\x00\x00\x00\x09"), desk.now) == []


def test_peers_that_a_broker_is_told_to_link_with_are_the_only_ones_that_it_dials() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    only_b1 = document_of({"b1": {}, "b2": {}, "b3": {"peers": [{"identity": "b1"}]}})
    assert b1.apply(only_b1)["changed"]
    mesh.run(3.0)
    b3.restart()
    mesh.run(8.0)
    assert {endpoint for _, endpoint in b3.dials} == {b1.endpoint}
    assert mesh.between("b3", "b1", PeerStatus)
    mesh.run(17.0)
    assert b3.endpoint in {endpoint for _, endpoint in b2.dials}, "who links with all others dials it in the end"
    assert mesh.links_between("b2", "b3") == 1


def test_standby_is_dialed_by_nobody_but_its_partner_and_links_with_all_when_it_serves() -> None:
    mesh = Mesh()
    document = document_of({"a": {"fallback_broker": "b"}, "b": {}, "c": {}})
    a, b, c = (mesh.add(name, document=document) for name in ("a", "b", "c"))
    mesh.run(12.0)
    assert (a.mode, b.mode) == ("active", "passive")
    c.dials.clear()
    mesh.run(30.0)
    assert not c.dials
    a.manage("handover")
    mesh.run(3.0)
    assert (a.mode, b.mode) == ("passive", "active")
    assert mesh.links_between("b", "c") == 1
    a.kill()
    b.kill()
    mesh.run(12.0)
    assert {endpoint for _, endpoint in c.dials} >= {a.endpoint, b.endpoint}, "whoever comes back is found"
