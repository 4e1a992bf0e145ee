"""Which of the two serves: start, takeover, restart, two that both serve, and pairs that the document makes or ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core import binary_star, peers
from scale0.core.effects import Persist, Route, Send
from scale0.core.star import Star
from scale0.protocol.dialects import CLIENT, MDP1_WORKER, PEER
from scale0.protocol.majordomo import MdpReady
from scale0.protocol.messages import Connect, Disconnect, Error, NeedBroker, PeerService, PeerStatus, Task
from scale0.protocol.network import Document
from tests.core.mesh import CLIENT_NONCE, SETTLED_S, Mesh, Node, document_of, network_of, pair_of
from tests.core.star_kit import SEEN, SHORTLY_S, TAKEOVER_S, die_and_be_asked_for, pair_and_third

PAIR: dict[str, dict[str, Any]] = {"prim": {"fallback_broker": "back"}, "back": {}}


def star(node: Node) -> Star:
    assert node.state.pair is not None
    return node.state.pair.star


def alone(name: str, **kept: Any) -> tuple[Mesh, Node]:
    """One of the two, whose partner was never there."""
    mesh = Mesh()
    written = document_of(PAIR)
    nodes = {each: mesh.add(each, document=written) for each in PAIR}
    for each, node in nodes.items():
        if each != name:
            node.kill()
    return mesh, nodes[name]


# --- start ----------------------------------------------------------------------------------------------------------


def test_of_two_that_start_the_primary_serves_and_the_fallback_follows() -> None:
    _, primary, fallback = pair_of()
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.PASSIVE)
    assert (primary.state.epoch, primary.kept) == (3, Persist("active", 3, True))
    assert not fallback.kept.is_serving


def test_primary_waits_until_it_has_heard_its_fallback() -> None:
    mesh, primary = alone("prim")
    mesh.run(20.0)
    assert (star(primary), primary.mode) == (Star.PRIMARY, "passive")


def test_primary_that_is_asked_serves_only_when_its_fallback_was_silent_for_long_enough() -> None:
    mesh, primary = alone("prim")
    mesh.run(TAKEOVER_S - SHORTLY_S)
    primary.client("ada")
    assert primary.codes("ada") == [503]
    mesh.run(2 * SHORTLY_S)
    primary.client("ada")
    assert (star(primary), primary.codes("ada")) == (Star.ACTIVE, [])


def test_primary_that_starts_alone_for_the_first_time_raises_no_alarm_of_a_takeover() -> None:
    mesh, primary = alone("prim")
    mesh.run(TAKEOVER_S + SHORTLY_S)
    primary.client("ada")
    assert "took_over" not in primary.alarm_names()


def test_fallback_that_has_never_seen_the_primary_serves_nobody() -> None:
    mesh, fallback = alone("back")
    mesh.run(3 * TAKEOVER_S)
    fallback.client("ada", epochs=SEEN)
    assert (star(fallback), fallback.mode, fallback.codes("ada")) == (Star.BACKUP, "passive", [503])


# --- takeover -------------------------------------------------------------------------------------------------------


def test_fallback_does_not_take_over_without_being_asked() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(5 * TAKEOVER_S)
    assert fallback.mode == "passive"


def test_fallback_does_not_take_over_while_the_primary_is_heard_though_it_is_asked() -> None:
    mesh, _, fallback = pair_of()
    for _ in range(6):
        mesh.run(TAKEOVER_S / 2)
        fallback.client("ada", epochs=SEEN)
    assert (fallback.mode, set(fallback.codes("ada"))) == ("passive", {503})


def test_fallback_takes_over_when_the_primary_is_silent_and_it_is_asked() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(TAKEOVER_S - SHORTLY_S - 2.5)
    fallback.client("ada", epochs=SEEN)
    assert fallback.mode == "passive"
    mesh.run(2.5 + 2 * SHORTLY_S)
    fallback.client("ada", epochs=SEEN)
    assert (star(fallback), fallback.state.epoch) == (Star.ACTIVE, 4)
    assert "took_over" in fallback.alarm_names()
    assert fallback.kept == Persist("active", 4, True)


@pytest.mark.parametrize(
    ("dialect", "asking"),
    [
        (CLIENT, Connect(identity="ada", nonce=CLIENT_NONCE)),
        (CLIENT, NeedBroker(identity="ada")),
        (MDP1_WORKER, MdpReady("echo")),
    ],
    ids=["CONNECT", "NEEDBROKER", "Majordomo"],
)
def test_whoever_wants_to_be_served_asks(dialect: Any, asking: Any) -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    fallback.say("ada", dialect, asking)
    assert fallback.mode == "active"


def test_epoch_is_persisted_before_anything_is_said_in_it() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    connect = Connect(identity="ada", nonce=CLIENT_NONCE, epochs=SEEN)
    effects = fallback.broker.receive(Route(b"\0ada"), CLIENT, connect, mesh.now)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Send)
    assert [effect for effect in effects if isinstance(effect, Persist)] == [Persist("active", 4, True)]


def test_takeover_timeout_of_the_document_counts() -> None:
    mesh, primary, fallback = pair_of(takeover_timeout_s=20.0)
    primary.kill()
    mesh.run(19.0 - 2.5)
    fallback.client("ada", epochs=SEEN)
    assert fallback.mode == "passive"
    mesh.run(4.0)
    fallback.client("ada", epochs=SEEN)
    assert fallback.mode == "active"


def test_one_that_took_over_serves_on_when_the_primary_comes_back() -> None:
    mesh, primary, fallback = pair_of()
    die_and_be_asked_for(mesh, primary, fallback)
    primary.restart()
    mesh.run(SETTLED_S)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    assert fallback.state.epoch == 4
    assert not primary.kept.is_serving


def test_takeovers_go_back_and_forth_in_rising_epochs() -> None:
    mesh, primary, fallback = pair_of()
    epochs = []
    serving, standing = primary, fallback
    for _ in range(4):
        die_and_be_asked_for(mesh, serving, standing)
        epochs.append(standing.state.epoch)
        serving.restart()
        mesh.run(SETTLED_S)
        serving, standing = standing, serving
    assert epochs == [4, 5, 6, 7]


# --- an active one that was restarted -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["restart", "restart_unnoticed"])
def test_restart_of_the_active_one_makes_the_other_serve_at_once(how: str) -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    getattr(primary, how)()
    mesh.run(3.0)
    assert (star(primary), star(fallback), fallback.state.epoch) == (Star.PASSIVE, Star.ACTIVE, 4)
    assert "ada" in fallback.state.sessions.by_identity, "it has the copy"


def test_restart_of_the_standby_changes_nothing_but_the_copy() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    fallback.restart()
    mesh.run(SETTLED_S)
    assert (star(primary), star(fallback), primary.state.epoch) == (Star.ACTIVE, Star.PASSIVE, 3)
    assert "ada" in fallback.state.sessions.by_identity


def test_both_are_restarted_and_the_one_that_served_last_may_serve_alone() -> None:
    mesh, primary, fallback = pair_of()
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.restart()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    fallback.client("ada", epochs={"prim": 4})
    assert (star(fallback), fallback.state.epoch) == (Star.ACTIVE, 6)


def test_one_that_did_not_serve_last_gives_way_to_the_one_that_did_when_both_are_restarted() -> None:
    mesh, primary, fallback = pair_of()
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.restart()
    primary.restart()
    mesh.run(SETTLED_S)
    assert {star(primary), star(fallback)} == {Star.ACTIVE, Star.PASSIVE}
    serving = primary if star(primary) is Star.ACTIVE else fallback
    assert serving.state.epoch > 4, "participants that have seen epoch 4 obey"


# --- two that both serve --------------------------------------------------------------------------------------------


def both_serve() -> tuple[Mesh, Node, Node]:
    """Cut from one another, and each reached by somebody."""
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    mesh.cut("prim", "back")
    mesh.run(2 * TAKEOVER_S)
    fallback.client("eve", epochs=SEEN)
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.ACTIVE)
    return mesh, primary, fallback


def test_of_two_that_both_serve_the_lower_epoch_steps_down_when_they_meet() -> None:
    mesh, primary, fallback = both_serve()
    mesh.heal()
    mesh.run(20.0)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    assert "stepped_down" in primary.alarm_names()
    (moved,) = [error for error in primary.heard("ada", Error) if error.code == 301]
    assert (moved.fatal, moved.detail["identity"], moved.detail["endpoints"]) == (True, "back", [fallback.endpoint])
    assert not primary.kept.is_serving


@pytest.mark.parametrize("is_absent", [True, False])
def test_who_could_not_be_told_that_its_task_is_lost_is_not_told_that_it_never_started(is_absent: bool) -> None:
    mesh, primary, _, third = pair_and_third()
    primary.worker("w", "once")
    mesh.run(SHORTLY_S)
    third.client("ada")
    third.submit("ada", 1, "once")
    mesh.settle()
    assert primary.heard("w", Task), "it crossed, and its worker has it"
    if is_absent:
        peers.set_absent(primary.state, primary.peer("third"))
    told = PeerStatus(identity="back", state="active", epoch=8, config_version=bytes(16), star="active")
    session = primary.peer("back").session
    assert session is not None
    effects = primary.broker.receive(session.route, PEER, told, mesh.now)
    assert star(primary) is Star.PASSIVE
    said = [effect.message for effect in effects if isinstance(effect, Send)]
    assert [message.is_drained for message in said if isinstance(message, Disconnect)] == [not is_absent]
    lost = [message.code for message in said if isinstance(message, Error) and message.id]
    assert lost == ([] if is_absent else [502])


def test_one_that_stepped_down_follows() -> None:
    mesh, primary, fallback = both_serve()
    mesh.heal()
    mesh.run(20.0)
    assert set(primary.state.sessions.by_identity) == set(fallback.state.sessions.by_identity) == {"eve"}


def test_one_that_serves_opens_a_new_epoch_when_the_other_has_served_in_a_higher_one() -> None:
    mesh, primary, _ = pair_of()
    told = PeerStatus(identity="back", state="passive", epoch=8, config_version=bytes(16), star="passive")
    session = primary.peer("back").session
    assert session is not None
    primary.do(primary.broker.receive(session.route, PEER, told, mesh.now))
    assert (star(primary), primary.state.epoch, primary.kept.epoch) == (Star.ACTIVE, 9, 9)


def test_word_of_a_broker_that_is_not_the_partner_is_no_word_of_the_pair() -> None:
    mesh, primary, _, third = pair_and_third()
    told = PeerStatus(identity="third", state="active", epoch=99, config_version=bytes(16), star="active")
    session = primary.peer("third").session
    assert session is not None
    primary.do(primary.broker.receive(session.route, PEER, told, mesh.now))
    assert (star(primary), primary.state.epoch) == (Star.ACTIVE, 3)
    assert third.state.pair is None


# --- links ----------------------------------------------------------------------------------------------------------


def test_standby_is_linked_with_its_partner_only() -> None:
    mesh, *_ = pair_and_third()
    assert mesh.links_between("back", "prim") == mesh.links_between("prim", "third") == 1
    assert mesh.links_between("back", "third") == 0
    mesh.run(40.0)
    assert mesh.links_between("back", "third") == 0, "nobody insists"


def test_one_that_takes_over_links_with_all_others() -> None:
    mesh, primary, fallback, third = pair_and_third()
    die_and_be_asked_for(mesh, primary, fallback)
    mesh.run(3.0)
    assert mesh.links_between("back", "third") == 1
    primary.restart()
    mesh.run(20.0)
    assert mesh.links_between("prim", "third") == 0, "now the primary is the standby"
    assert mesh.links_between("prim", "back") == 1
    assert third.mode == "active"


def test_work_is_forwarded_to_the_one_that_took_over() -> None:
    mesh, primary, fallback, third = pair_and_third()
    die_and_be_asked_for(mesh, primary, fallback)
    fallback.worker("w", "echo", epochs=SEEN)
    mesh.run(SETTLED_S)
    third.client("bob")
    third.submit("bob", 1, "echo")
    mesh.run(SHORTLY_S)
    fallback.answer("w")
    mesh.run(SHORTLY_S)
    assert third.bodies("bob") == [b"done"]


# --- the document ---------------------------------------------------------------------------------------------------


def as_pair(node: Node, fallback: str) -> Any:
    """Make `fallback` the fallback of prim, or nobody."""
    brokers = [
        msgspec.structs.replace(entry, fallback_broker=fallback if entry.identity == "prim" else "")
        for entry in node.document.brokers
    ]
    return node.apply(brokers=brokers)


def test_pair_is_made_at_run_time_and_the_primary_serves_on() -> None:
    mesh, (primary, fallback) = network_of({"prim": {}, "back": {}})
    primary.worker("w", "echo")
    fallback.client("eve")
    assert as_pair(primary, "back")["changed"]
    mesh.run(SETTLED_S)
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.PASSIVE)
    assert fallback.codes("eve") == [301]
    assert set(fallback.state.sessions.by_identity) == {"w"}, "it follows"
    primary.client("eve")
    primary.submit("eve", 1, "echo")
    assert len(primary.answer("w")) == 1
    assert primary.bodies("eve") == [b"done"]


def test_what_a_peer_granted_is_void_when_it_becomes_the_partner() -> None:
    mesh, (primary, fallback) = network_of({"prim": {}, "back": {}})
    fallback.worker("w", "echo")
    primary.client("eve")
    mesh.run(SHORTLY_S)
    mesh.cut("prim", "back")
    as_pair(primary, "back")
    primary.submit("eve", 1, "echo")
    assert primary.peer("back").forwarded == 0


def one_waits_at(name: str) -> tuple[Mesh, dict[str, Node], Document]:
    """prim, back, and third in another group. A task waits at `name`. The document: a pair, and third is near."""
    mesh, nodes = network_of({"prim": {"group": "eu"}, "back": {"group": "eu"}, "third": {"group": "us"}})
    by_name = {node.name: node for node in nodes}
    by_name["third"].worker("w3", "echo")
    by_name[name].worker("w", "echo")
    by_name[name].client("eve")
    mesh.run(SHORTLY_S)
    by_name[name].submit("eve", 1, "echo")
    by_name[name].submit("eve", 2, "echo")
    pair = {"prim": {"group": "eu", "fallback_broker": "back"}, "back": {"group": "eu"}, "third": {"group": "eu"}}
    return mesh, by_name, document_of(pair)


def test_what_waits_does_not_leave_when_the_document_that_brings_a_peer_nearer_makes_a_standby() -> None:
    mesh, nodes, document = one_waits_at("back")
    nodes["prim"].apply(document)
    mesh.run(SHORTLY_S)
    assert (nodes["back"].mode, nodes["back"].codes("eve")) == ("passive", [301])
    assert nodes["third"].heard("w3", Task) == [], "eve asks the primary for it"


def test_primary_that_the_document_makes_gives_nothing_out_before_its_epoch_is_kept() -> None:
    mesh, nodes, document = one_waits_at("prim")
    arguments = {"document": msgspec.json.encode(document)}
    _, effects = nodes["prim"].broker.manage("config_apply", arguments, mesh.now)
    kinds = [type(effect.message if isinstance(effect, Send) else effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Task)


def test_pair_is_dissolved_at_run_time_and_both_serve_for_themselves() -> None:
    mesh, primary, fallback, third = pair_and_third()
    primary.worker("w", "echo")
    mesh.run(SHORTLY_S)
    assert as_pair(primary, "")["changed"]
    mesh.run(SETTLED_S)
    assert (primary.state.pair, fallback.state.pair, fallback.mode) == (None, None, "active")
    assert (set(primary.state.sessions.by_identity), set(fallback.state.sessions.by_identity)) == ({"w"}, set())
    assert mesh.links_between("back", "third") == mesh.links_between("prim", "back") == 1
    fallback.client("eve")
    fallback.submit("eve", 1, "echo")
    mesh.run(SHORTLY_S)
    primary.answer("w")
    mesh.run(SHORTLY_S)
    assert fallback.bodies("eve") == [b"done"]
    assert third.mode == "active"


def test_what_a_partner_could_do_for_us_counts_when_the_pair_is_dissolved() -> None:
    mesh, primary, _, _ = pair_and_third()
    session = primary.peer("back").session
    assert session is not None
    mesh.cut("prim", "back")
    word = PeerStatus(
        identity="back",  # it knows already that it is nobody's fallback, and says this once
        state="active",
        epoch=1,
        config_version=primary.state.config.packed_version,
        is_full=True,
        services=[PeerService("echo", workers=1, credit=3)],
    )
    primary.do(primary.broker.receive(session.route, PEER, word, mesh.now))
    assert primary.peer("back").workers == {}, "of a pair only one has work"
    as_pair(primary, "")
    assert {name: worker.capacity for name, worker in primary.peer("back").workers.items()} == {"echo": 3}


def pair_that_holds_a_task() -> tuple[Mesh, Node, Node]:
    """The link is cut: the fallback does not hear of it."""
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo", timeout_s=100.0)
    assert primary.heard("w", Task) == []
    return mesh, primary, fallback


def test_held_tasks_leave_when_the_fallback_has_heard_that_the_pair_is_dissolved() -> None:
    mesh, primary, fallback = pair_that_holds_a_task()
    as_pair(primary, "")
    mesh.run(SHORTLY_S)
    assert primary.heard("w", Task) == [], "it may yet take over, from its copy"
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert fallback.state.pair is None
    assert len(primary.heard("w", Task)) == 1


def test_held_tasks_wait_for_the_copy_of_a_fallback_that_cannot_hear_that_the_pair_is_dissolved() -> None:
    mesh, primary, _ = pair_that_holds_a_task()
    as_pair(primary, "")
    mesh.run(2 * TAKEOVER_S - SHORTLY_S)
    assert primary.heard("w", Task) == []
    mesh.run(2 * SHORTLY_S)
    assert len(primary.heard("w", Task)) == 1, "by now the fallback does not trust its copy"


def test_one_that_holds_tasks_for_a_former_fallback_and_is_made_a_standby_sends_them_no_more() -> None:
    mesh, primary, _ = pair_that_holds_a_task()
    as_pair(primary, "")
    in_pairs(primary, back="prim")
    assert (primary.mode, primary.state.stream) == ("passive", None)
    mesh.run(2 * TAKEOVER_S + SHORTLY_S)
    assert primary.heard("w", Task) == []


def test_epochs_go_on_rising_when_a_pair_is_made_again() -> None:
    mesh, primary, fallback = pair_of()
    as_pair(primary, "")
    mesh.run(3.0)
    as_pair(primary, "back")
    mesh.run(SETTLED_S)
    assert (star(primary), star(fallback), primary.state.epoch) == (Star.ACTIVE, Star.PASSIVE, 5)


def in_pairs(node: Node, **fallbacks: str) -> Any:
    """Each broker gets the fallback that is named for it, or none."""
    brokers = [
        msgspec.structs.replace(entry, fallback_broker=fallbacks.get(entry.identity, ""))
        for entry in node.document.brokers
    ]
    return node.apply(brokers=brokers)


def test_primary_and_fallback_that_change_roles_keep_what_waits() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo", timeout_s=100.0)
    assert in_pairs(primary, back="prim")["changed"]
    mesh.run(SETTLED_S)
    assert (star(fallback), star(primary)) == (Star.ACTIVE, Star.PASSIVE)
    assert primary.codes("ada") == [301]
    assert fallback.state.ledger.queued == 1
    assert fallback.state.epoch > primary.state.epoch


def test_primary_that_gets_another_fallback_serves_on_and_is_followed_by_the_new_one() -> None:
    mesh, primary, fallback, third = pair_and_third()
    primary.client("ada")
    third.client("bob")
    assert in_pairs(primary, prim="third")["changed"]
    mesh.run(SETTLED_S)
    assert (star(primary), star(third)) == (Star.ACTIVE, Star.PASSIVE)
    assert (fallback.mode, fallback.state.pair, third.codes("bob")) == ("active", None, [301])
    assert set(third.state.sessions.by_identity) == {"ada"}


def test_other_changes_of_the_document_leave_the_pair_as_it_is() -> None:
    mesh, primary, fallback = pair_of()
    assert primary.apply(grace_s=2.0)["changed"]
    mesh.run(3.0)
    assert (star(primary), star(fallback), primary.state.epoch) == (Star.ACTIVE, Star.PASSIVE, 3)
    assert fallback.state.settings.grace_s == 2.0


def meet_a_new_one_that_has_served(primary: Node) -> list[Any]:
    """The fallback was started anew, and has served in a higher epoch before that: the effects of hearing so."""
    status = PeerStatus(
        identity="back",
        state="passive",
        star="backup",
        epoch=primary.state.epoch + 1,
        config_version=primary.state.config.packed_version,
    )
    binary_star.heard(primary.state, primary.peer("back"), status)
    return primary.state.take_effects()


def test_epoch_that_is_above_the_others_is_kept_before_anything_is_said_in_it() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo")
    primary.client("eve")
    mesh.run(SHORTLY_S)
    mesh.cuts.add(frozenset(("prim", "back")))
    primary.submit("eve", 1, "echo")
    kinds = [type(effect) for effect in meet_a_new_one_that_has_served(primary)]
    assert kinds.index(Persist) < kinds.index(Send)


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_what_waits_when_the_other_has_served_meanwhile_runs_here_only_if_it_may_run_twice(
    is_idempotent: bool,
) -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", idempotent=is_idempotent)
    primary.client("eve")
    mesh.run(SHORTLY_S)
    mesh.cuts.add(frozenset(("prim", "back")))
    for sequence in (1, 2):  # the first waits for the fallback's word, the second for the first
        primary.submit("eve", sequence, "echo")
    primary.do(meet_a_new_one_that_has_served(primary))
    assert primary.codes("eve") == ([] if is_idempotent else [502, 502])
    assert len(primary.answer("w")) == is_idempotent
