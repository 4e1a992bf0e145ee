"""Who belongs to the network: brokers that join, leave, or move, as the document says (rules 21, 25)."""

from __future__ import annotations

import pytest

from scale0.core.settings import Limits
from scale0.errors import ProtocolError
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import ChangeBroker, Connect, Error, Task
from tests.core.desk import Desk
from tests.core.mesh import Mesh, Node, document_of, endpoint_of, group_of, network_of
from tests.core.neighbour import joining, said
from tests.core.star_kit import die_and_be_asked_for, pair_and_third

SHORTLY_S = 0.5  # long enough for news between brokers


def listed(node: Node) -> list[str]:
    return [entry.identity for entry in node.document.brokers]


# --- joining --------------------------------------------------------------------------------------------------------


def test_broker_that_joins_is_entered_and_becomes_active() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", group="eu")
    b2 = mesh.add("b2", seeds=[b1.endpoint])
    assert b2.mode == "joining"
    mesh.run(0.5)
    assert b2.mode == "active"
    assert listed(b1) == listed(b2) == ["b1", "b2"]
    assert b1.version == b2.version
    entry = b1.document.broker("b2")
    assert entry is not None
    assert (entry.endpoints, entry.config_pub, entry.joined) == ([b2.endpoint], b2.publisher, True)
    assert entry.group == "eu", "it names none, and gets that of the broker that it came by"
    assert b1.state.config.record.author == "b2"


def test_broker_that_names_a_group_is_entered_into_it() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", group="eu")
    b2 = mesh.add("b2", seeds=[b1.endpoint], group="us", services=["render"])
    mesh.run(0.5)
    entry = b2.document.broker("b2")
    assert entry is not None
    assert (entry.group, entry.services) == ("us", ["render"])
    assert b2.state.settings.group == "us"


def test_broker_that_joins_keeps_its_config_and_comes_back_without_joining() -> None:
    mesh, (b1, b2) = group_of(2)
    version = b1.version
    b2.restart(seeds=[b1.endpoint])
    assert b2.mode == "active"
    mesh.run(5.0)
    assert (b1.version, b2.version) == (version, version)
    assert b1.peer("b2").is_linked


def test_two_that_join_at_once_at_different_brokers_are_both_entered() -> None:
    mesh, (b1, b2) = group_of(2)
    b3 = mesh.add("b3", seeds=[b1.endpoint])
    b4 = mesh.add("b4", seeds=[b2.endpoint])
    mesh.run(8.0)
    assert (b3.mode, b4.mode) == ("active", "active")
    for node in (b1, b2, b3, b4):
        assert sorted(listed(node)) == ["b1", "b2", "b3", "b4"]
        assert node.version == b1.version


def test_three_that_join_at_once_at_the_same_broker_are_all_entered() -> None:
    _, nodes = group_of(4)
    assert {tuple(sorted(listed(node))) for node in nodes} == {("b1", "b2", "b3", "b4")}


def test_listed_broker_may_join_a_closed_network_and_no_other() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", document=document_of({"b1": {}, "b2": {}}, join="listed"))
    b2 = mesh.add("b2", seeds=[b1.endpoint])
    b3 = mesh.add("b3", seeds=[b1.endpoint])
    mesh.run(12.0)
    assert (b2.mode, b3.mode) == ("active", "joining")
    assert listed(b1) == ["b1", "b2"]
    assert {error.code for error in mesh.between("b1", "b3", Error)} == {403}


def test_closed_network_enters_nobody_not_even_one_with_a_newer_config() -> None:
    desk = Desk(identity="b1", join="listed")
    desk.say("b2", PEER, joining(config_version=b"\0\0\0\2" + bytes(12)))
    desk.pass_time(5.0, steps=5)
    assert desk.broker.state.config.document.broker("b2") is None


def test_broker_of_another_network_is_refused_and_its_operator_is_told() -> None:
    mesh, (b1, _) = group_of(2)
    stray = mesh.add("b9", document=document_of({"b8": {}, "b9": {}}, network="test"))
    mesh.run(9.0)
    stray.apply(liveness=4)
    stray.restart(seeds=[b1.endpoint])
    mesh.run(12.0)
    assert listed(b1) == ["b1", "b2"]
    assert "b9" not in b1.state.network.peers
    assert stray.alarm_names() == ["link_refused"]
    assert "belongs to network scale0, not to test" in stray.alarms[0].text


def test_broker_that_may_not_join_is_told_why_once_also_if_it_was_there_first() -> None:
    mesh = Mesh()
    stray = mesh.add("b9", seeds=[endpoint_of(2)])
    mesh.run(5.0)
    assert stray.alarm_names() == [], "nobody answers yet"
    first = mesh.add("b1", document=document_of({"b1": {}}, join="listed"))
    assert first.endpoint == endpoint_of(2)
    mesh.run(60.0)
    assert stray.mode == "joining"
    assert stray.alarm_names() == ["link_refused"]
    assert stray.alarms[0].text.endswith(
        "refuses us: 403 b9 is not listed in this network's config; list it, or set join to open"
    )


def test_broker_whose_file_names_another_network_does_not_join_this_one() -> None:
    mesh, (b1, _) = group_of(2)
    stray = mesh.add("b9", seeds=[b1.endpoint], network="test")
    mesh.run(12.0)
    assert listed(b1) == ["b1", "b2"]
    assert stray.mode == "joining"
    assert "belongs to network scale0, not to test" in stray.alarms[0].text


def test_entry_that_does_not_validate_is_refused_at_both_ends() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1")
    b2 = mesh.add("b2", seeds=[b1.endpoint], services=["mmi.mine"])
    mesh.run(5.0)
    assert listed(b1) == ["b1"]
    assert b1.alarm_names() == ["join_refused"]
    assert b2.alarm_names() == ["link_refused"]
    assert "mmi.mine" in b2.alarms[0].text
    assert b2.mode == "joining"


def test_entry_under_another_name_is_refused() -> None:
    desk = Desk(identity="b1")
    desk.say("b2", PEER, joining("b2", broker={"identity": "b1"}))
    (refusal,) = said(desk.pass_time(0.1), Error, "b2")
    assert (refusal.code, refusal.fatal) == (403, True)


@pytest.mark.parametrize(
    "entry", [{}, {"identity": 7}, {"identity": "b2", "group": ["x"]}, {"identity": "b2", "no": 1}]
)
def test_entry_that_is_none_is_refused(entry: dict[str, object]) -> None:
    desk = Desk(identity="b1")
    desk.say("b2", PEER, joining("b2", broker=entry))
    (refusal,) = said(desk.pass_time(0.1), Error, "b2")
    assert refusal.code == 403


def test_network_has_a_limit_of_brokers() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1", limits=Limits(brokers=2))
    mesh.add("b2", seeds=[b1.endpoint])
    mesh.run(1.0)
    b3 = mesh.add("b3", seeds=[b1.endpoint])
    mesh.run(8.0)
    assert listed(b1) == ["b1", "b2"]
    assert b3.mode == "joining"
    assert {error.code for error in mesh.between("b1", "b3", Error)} == {429}


def test_broker_joins_as_soon_as_a_sequencer_can_be_reached() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}}, config_brokers=["b1"])
    mesh.cut("b1", "b2")
    mesh.run(10.0)
    mesh.cut("b1", "b3")
    b3 = mesh.add("b3", seeds=[b2.endpoint])
    mesh.run(10.0)
    assert b3.mode == "joining"
    assert b2.alarm_names() == ["peer_lost"]
    mesh.heal()
    mesh.run(20.0)
    assert b3.mode == "active"
    assert listed(b1) == ["b1", "b2", "b3"]


def test_joining_broker_lets_nobody_else_join() -> None:
    desk = Desk(identity="b1", seeds=["tcp://10.0.0.9:1"])
    answer = desk.say("b2", PEER, joining())[0][1]
    assert isinstance(answer, Connect)
    assert (answer.network, answer.is_joining) == ("", True)
    assert said(desk.pass_time(5.0, steps=5), Error) == []
    assert desk.broker.state.mode == "joining"


def test_broker_that_was_alone_leaves_its_own_config_behind_when_it_joins() -> None:
    mesh = Mesh()
    b1, b2 = mesh.add("b1"), mesh.add("b2")
    for liveness in (4, 5, 6, 7):
        b2.apply(liveness=liveness)
    assert b2.version > b1.version
    b2.restart(seeds=[b1.endpoint])
    mesh.run(5.0)
    assert (b1.mode, b2.mode) == ("active", "active")
    assert b2.version == b1.version
    assert b2.document.liveness == 3
    assert b1.alarms == b2.alarms == []


# --- the document says who belongs ----------------------------------------------------------------------------------


def test_new_broker_in_the_document_is_linked() -> None:
    mesh, (b1, _) = network_of({"b1": {}, "b2": {}})
    b1.apply(document_of({"b1": {}, "b2": {}, "b3": {}}))
    b3 = mesh.add("b3", seeds=[b1.endpoint])
    mesh.run(3.0)
    assert b3.mode == "active"
    assert mesh.links_between("b2", "b3") == 1


def test_broker_that_is_no_longer_listed_drains_and_the_others_let_it_go() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b3.worker("w", "echo")
    b3.client("ada")
    b3.submit("ada", 1, "echo")
    assert b1.apply(document_of({"b1": {}, "b2": {}}))["changed"]
    mesh.run(2.0)
    assert b3.mode == "draining"
    assert b3.alarm_names() == ["not_listed"]
    assert [list(node.state.network.peers) for node in (b1, b2)] == [["b2"], ["b1"]]
    assert not b3.is_stopped, "a task is still running"
    b3.answer("w")
    assert b3.bodies("ada") == [b"done"]
    mesh.run(12.0)
    assert b3.is_stopped


def test_broker_that_is_being_dialed_when_it_leaves_the_document_is_no_longer_dialed() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.kill()
    mesh.run(12.0)
    b2.apply(document_of({"b2": {}}))
    dials = len(b2.dials)
    mesh.run(20.0)
    assert len(b2.dials) == dials
    assert b2.mode == "active"


def test_broker_that_was_taken_out_may_ask_to_be_entered_again() -> None:
    mesh, (b1, b2) = group_of(2)
    b1.manage("forget_broker", broker="b2")
    mesh.run(3.0)
    assert b2.mode == "draining"
    b2.restart(seeds=[b1.endpoint])
    assert b2.mode == "joining"
    mesh.run(6.0)
    assert b2.mode == "active"
    assert listed(b1) == listed(b2) == ["b1", "b2"]


def test_only_broker_of_a_network_is_not_forgotten() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1")
    with pytest.raises(ProtocolError, match="the only broker of this network"):
        b1.manage("forget_broker", broker="b1")
    assert (listed(b1), b1.mode) == (["b1"], "active")


def test_forgotten_broker_is_no_longer_listed() -> None:
    mesh, (b1, b2, b3) = group_of(3)
    b3.kill()
    assert b2.manage("forget_broker", broker="b3") is not None
    mesh.run(1.0)
    assert listed(b1) == listed(b2) == ["b1", "b2"]
    assert "b3" not in b1.state.network.peers


def test_state_in_the_document_disables_and_enables() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.apply(document_of({"b1": {}, "b2": {"state": "disabled"}}))
    mesh.run(1.0)
    assert b2.mode == "disabled"
    assert b2.kept.state == "disabled"
    assert b1.rows("network")[1]["state"] == "disabled"
    b1.apply(document_of({"b1": {}, "b2": {}}))
    mesh.run(1.0)
    assert b2.mode == "active"


def test_broker_that_is_listed_as_disabled_starts_so() -> None:
    _, (b1, b2) = network_of({"b1": {}, "b2": {"state": "disabled"}})
    assert (b1.mode, b2.mode) == ("active", "disabled")


def test_operators_word_outlives_changes_of_other_keys() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.manage("disable")
    b1.apply(liveness=4)
    mesh.run(3.0)
    assert b2.mode == "disabled"
    assert b2.document.liveness == 4


def test_broker_that_listens_elsewhere_after_its_restart_says_so() -> None:
    mesh, (b1, b2) = group_of(2)
    b2.kill()
    b2.endpoint, b2.publisher = "tcp://10.7.7.7:5555", "tcp://10.7.7.7:5556"
    b2.start()
    mesh.run(10.0)
    entry = b1.document.broker("b2")
    assert entry is not None
    assert (entry.endpoints, entry.config_pub) == (["tcp://10.7.7.7:5555"], "tcp://10.7.7.7:5556")
    assert b1.version == b2.version


def test_written_address_of_a_listed_broker_is_left_alone() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.restart(document=b1.document, advertise=["tcp://192.168.0.2:5555"])
    mesh.run(10.0)
    entry = b1.document.broker("b2")
    assert entry is not None
    assert entry.endpoints == [b2.endpoint]


def test_broker_that_joins_knows_at_once_what_the_others_serve() -> None:
    mesh = Mesh()
    b1 = mesh.add("b1")
    b1.worker("w", "echo")
    b2 = mesh.add("b2", seeds=[b1.endpoint])
    mesh.run(SHORTLY_S)
    b2.client("ada")
    b2.submit("ada", 1, "echo")
    b1.answer("w")
    assert b2.bodies("ada") == [b"done"]


def test_peer_that_is_put_into_a_strange_group_gets_no_tasks_any_more() -> None:
    mesh, (b1, b2) = network_of({"b1": {"group": "eu"}, "b2": {"group": "eu"}})
    b1.worker("w", "echo", capacity=5)
    b2.client("ada")
    mesh.run(SHORTLY_S)
    b2.submit("ada", 1, "echo")
    b1.apply(document_of({"b1": {"group": "eu"}, "b2": {"group": "us"}}))
    mesh.run(SHORTLY_S)
    b2.submit("ada", 2, "echo")
    mesh.run(3.0)
    assert len(b1.heard("w", Task)) == 1
    b1.apply(document_of({"b1": {"group": "eu"}, "b2": {"group": "us", "fallback_groups": ["eu"]}}))
    mesh.run(SHORTLY_S)
    assert len(b1.heard("w", Task)) == 1, "as a fallback group it gets what waits"


def test_task_that_runs_at_a_peer_when_it_leaves_the_group_gets_its_reply() -> None:
    mesh, (b1, b2) = network_of({"b1": {"group": "eu"}, "b2": {"group": "eu"}})
    b1.worker("w", "echo")
    b2.client("ada")
    mesh.run(SHORTLY_S)
    b2.submit("ada", 1, "echo")
    b1.apply(document_of({"b1": {"group": "eu"}, "b2": {"group": "us"}}))
    mesh.run(SHORTLY_S)
    b1.answer("w")
    assert b2.bodies("ada") == [b"done"]


def test_removed_broker_tells_its_workers_where_to_go() -> None:
    mesh, (b1, _, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b3.worker("w", "echo")
    b1.apply(document_of({"b1": {}, "b2": {}}))
    mesh.run(1.0)
    assert [told.reason for told in b3.heard("w", ChangeBroker)] == ["drain"]


def test_broker_that_removed_itself_is_listed_again_when_it_joins_anew() -> None:
    mesh, (b1, b2) = group_of(2)
    b1.manage("forget_broker", broker="b2")
    mesh.run(3.0)
    assert b2.mode == "draining"
    b2.restart(seeds=[b1.endpoint], is_fresh=True)
    mesh.run(6.0)
    assert b2.mode == "active"
    assert b1.document == b2.document


def test_who_joins_by_a_standby_is_sent_to_the_one_that_serves() -> None:
    mesh, primary, fallback, _ = pair_and_third(join="open")
    die_and_be_asked_for(mesh, primary, fallback)
    primary.restart()
    mesh.run(20.0)
    assert primary.mode == "passive"
    newcomer = mesh.add("new", seeds=[primary.endpoint])
    mesh.run(20.0)
    assert newcomer.mode == "active"
    assert newcomer.version == fallback.version
    assert mesh.links_between("new", "back") == 1
