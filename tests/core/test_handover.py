"""Giving way on purpose: failback, handover, takeover by an operator, drain, stop, disable and enable."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core.effects import Persist
from scale0.core.star import Star
from scale0.errors import ProtocolError
from scale0.protocol.dialects import CLIENT, WORKER
from scale0.protocol.messages import Cancel, ConfigAck, Connect, Ping, Task, TaskReply
from tests.core.mesh import SETTLED_S, WORKER_NONCE, Mesh, Node, id_of, pair_of
from tests.core.star_kit import SEEN, SHORTLY_S, TAKEOVER_S, come_to, die_and_be_asked_for
from tests.core.test_binary_star import as_pair, star


def busy_pair(**document: Any) -> tuple[Mesh, Node, Node]:
    """w works on the first of ada's tasks, and the second waits."""
    mesh, primary, fallback = pair_of(**document)
    primary.worker("w", "echo")
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    primary.submit("ada", 2, "echo")
    return mesh, primary, fallback


# --- handover and failback --------------------------------------------------------------------------------------------


def test_handover_makes_the_other_serve_at_once_when_nothing_is_in_flight() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    assert primary.manage("handover") == {"state": "holding", "to": "back", "in_flight": 0}
    mesh.run(SHORTLY_S)
    assert (star(primary), star(fallback), fallback.state.epoch) == (Star.PASSIVE, Star.ACTIVE, 4)
    assert "took_over" not in fallback.alarm_names(), "nobody was lost"
    assert primary.codes("ada") == [301]
    assert primary.kept == Persist("active", 3, False)


def test_handover_waits_for_what_is_in_flight_and_dispatches_nothing_new() -> None:
    mesh, primary, fallback = busy_pair()
    primary.manage("handover")
    mesh.run(1.0)
    assert (star(primary), primary.mode) == (Star.ACTIVE, "holding")
    assert len(primary.answer("w")) == 1
    assert (primary.bodies("ada"), primary.heard("w", Task)) == ([b"done"], [])
    mesh.run(SHORTLY_S)
    assert star(fallback) is Star.ACTIVE
    fallback.worker("w", "echo", epochs=SEEN)
    assert [task.id for task in fallback.heard("w", Task)] == [id_of("ada", 2)]


def test_task_that_comes_during_a_handover_is_accepted_and_goes_with_the_copy() -> None:
    mesh, primary, fallback = busy_pair()
    primary.manage("handover")
    primary.submit("ada", 3, "echo")
    primary.answer("w")
    mesh.run(SHORTLY_S)
    assert fallback.state.ledger.queued == 2


def test_handover_waits_no_longer_than_grace() -> None:
    mesh, primary, fallback = busy_pair(grace_s=2.0)
    primary.manage("handover")
    mesh.run(2.0 + SHORTLY_S)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    come_to(fallback, "w", "echo", held=[id_of("ada", 1)])
    fallback.client("ada")
    fallback.say("w", WORKER, TaskReply(id_of("ada", 1), (b"late",), 1))
    assert fallback.bodies("ada") == [b"late"], "the worker has gone on with it"


def test_task_that_was_held_for_the_followers_word_goes_with_the_copy_and_runs_once() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    primary.manage("handover")
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert primary.heard("w", Task) == []
    assert star(fallback) is Star.ACTIVE
    fallback.worker("w", "echo", epochs=SEEN)
    assert [task.attempt for task in fallback.heard("w", Task)] == [1]


def test_what_waits_in_a_copy_that_lacks_the_last_word_of_one_that_gave_way_is_not_run() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    mesh.cut("prim", "back")
    primary.say("ada", CLIENT, Cancel(id=id_of("ada", 1)))
    primary.manage("handover")
    mesh.delayed.clear()  # as when a pipe is full
    mesh.heal()
    mesh.run(SETTLED_S)
    assert (primary.codes("ada"), star(fallback)) == ([499, 301], Star.ACTIVE)
    fallback.worker("w", "echo", epochs=SEEN)
    assert fallback.heard("w", Task) == []


def test_one_that_gave_way_in_vain_gives_nothing_to_a_worker_that_has_gone_meanwhile() -> None:
    mesh, primary, _ = pair_of(liveness=2)
    primary.worker("gone", "echo")
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.manage("handover")
    mesh.run(SHORTLY_S)
    assert (star(primary), primary.mode) == (Star.YIELDING, "passive")
    mesh.beats = False
    while star(primary) is Star.YIELDING:
        primary.say("w", WORKER, Ping(0))
        mesh.now += SHORTLY_S
        primary.do(primary.broker.tick(mesh.now, mesh.now))
    primary.submit("ada", 1, "echo")
    assert (len(primary.heard("gone", Task)), len(primary.heard("w", Task))) == (0, 1)


def test_failback_at_a_serving_fallback_hands_over_to_the_primary() -> None:
    mesh, primary, fallback = pair_of()
    die_and_be_asked_for(mesh, primary, fallback)
    primary.restart()
    mesh.run(SETTLED_S)
    fallback.client("ada", epochs={"prim": 4})
    fallback.manage("failback")
    mesh.run(SHORTLY_S)
    assert (star(primary), star(fallback), primary.state.epoch) == (Star.ACTIVE, Star.PASSIVE, 5)
    assert "ada" in primary.state.sessions.by_identity


def test_handover_is_refused_where_it_makes_no_sense() -> None:
    mesh, primary, fallback = pair_of()
    with pytest.raises(ProtocolError, match="ask prim"):
        fallback.manage("handover")
    fallback.kill()
    mesh.run(SETTLED_S)
    with pytest.raises(ProtocolError, match="does not follow now"):
        primary.manage("handover")
    single = Mesh().add("b1")
    with pytest.raises(ProtocolError, match="no fallback broker"):
        single.manage("handover")


def test_handover_that_finds_the_other_gone_is_given_up() -> None:
    mesh, primary, fallback = busy_pair()
    primary.manage("handover")
    fallback.kill()
    mesh.run(SHORTLY_S)
    primary.answer("w")
    mesh.run(2 * TAKEOVER_S + SHORTLY_S)
    assert (star(primary), primary.mode) == (Star.ACTIVE, "active")
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 2)]


def test_one_that_gave_way_in_vain_gives_nobody_what_is_too_late() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", idempotent=True)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.manage("handover")
    primary.submit("ada", 1, "echo", timeout_s=2.0)
    mesh.run(SHORTLY_S)
    assert star(primary) is Star.YIELDING
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert (star(primary), primary.heard("w", Task), len(primary.codes("ada"))) == (Star.ACTIVE, [], 1)


def test_one_that_yields_to_one_that_dies_serves_again() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.manage("handover")
    mesh.run(SHORTLY_S)
    assert star(primary) is Star.YIELDING
    fallback.kill()
    mesh.heal()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert (star(primary), primary.mode, primary.state.epoch) == (Star.ACTIVE, "active", 5)


def test_one_that_gave_way_in_vain_gives_nobody_what_is_overdue() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", idempotent=True)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.manage("handover")
    primary.submit("ada", 1, "echo", timeout_s=1.0)
    primary.submit("ada", 2, "echo", timeout_s=100.0)
    mesh.run(2.0)
    assert star(primary) is Star.YIELDING
    fallback.kill()
    mesh.heal()
    fallback.restart()
    mesh.run(SHORTLY_S)
    assert star(primary) is Star.ACTIVE
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 2)]
    assert primary.codes("ada") == [408]


def test_worker_that_left_its_connection_gets_nothing_there_from_one_that_gave_way_in_vain() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", idempotent=True)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.manage("handover")
    primary.submit("ada", 1, "echo", timeout_s=100.0)
    mesh.run(SHORTLY_S)
    assert star(primary) is Star.YIELDING
    anew = Connect(identity="w", nonce=WORKER_NONCE, services=["echo"], epochs=SEEN, serial=2)
    primary.say("w-anew", WORKER, anew)
    assert primary.codes("w-anew") == [503]
    fallback.kill()
    mesh.heal()
    fallback.restart()
    mesh.run(SHORTLY_S)
    assert star(primary) is Star.ACTIVE
    assert primary.heard("w", Task) == []


def test_pair_that_is_dissolved_during_a_handover_goes_on_where_it_was() -> None:
    mesh, primary, _ = busy_pair()
    primary.manage("handover")
    as_pair(primary, "")
    mesh.run(SHORTLY_S)
    assert primary.mode == "active"
    assert len(primary.answer("w")) == 1
    assert [task.id for task in primary.heard("w", Task)] == [id_of("ada", 2)]


# --- an operator's takeover -------------------------------------------------------------------------------------------


def test_operator_makes_a_standby_serve_whose_partner_is_gone() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    mesh.run(SETTLED_S)
    assert fallback.manage("takeover") == {"state": "active", "epoch": 4}


def test_operator_makes_a_fallback_serve_that_has_never_seen_the_primary() -> None:
    mesh, primary, fallback = pair_of()
    primary.kill()
    fallback.restart()
    mesh.run(1.0)
    assert star(fallback) is Star.BACKUP
    assert fallback.manage("takeover")["state"] == "active"


def test_takeover_is_refused_while_the_other_serves() -> None:
    _, primary, fallback = pair_of()
    with pytest.raises(ProtocolError, match="prim serves"):
        fallback.manage("takeover")
    assert primary.manage("takeover") == {"state": "active", "epoch": 3}, "it serves already"


def test_takeover_of_a_disabled_broker_is_refused() -> None:
    mesh, primary, fallback = pair_of()
    fallback.manage("disable")
    primary.kill()
    mesh.run(SETTLED_S)
    with pytest.raises(ProtocolError, match="enable it first"):
        fallback.manage("takeover")


# --- drain and stop ---------------------------------------------------------------------------------------------------


def test_drain_of_the_active_one_hands_over_and_then_stops() -> None:
    mesh, primary, fallback = busy_pair()
    assert primary.manage("drain")["to"] == "back"
    primary.answer("w")
    mesh.run(SHORTLY_S)
    assert (primary.is_stopped, star(fallback)) == (True, Star.ACTIVE)


def test_drain_of_an_active_one_that_nobody_follows_finishes_what_it_holds() -> None:
    mesh, primary, fallback = busy_pair()
    fallback.kill()
    mesh.run(3 * TAKEOVER_S + SHORTLY_S)
    assert primary.manage("drain")["state"] == "draining"
    primary.answer("w")
    primary.answer("w")
    mesh.run(2 * 5.0 + SHORTLY_S)
    assert primary.is_stopped
    assert primary.bodies("ada") == [b"done", b"done"]


def test_drain_whose_successor_dies_meanwhile_drains_without_it() -> None:
    mesh, primary, fallback = busy_pair()
    primary.manage("drain")
    fallback.kill()
    mesh.run(SHORTLY_S)
    primary.answer("w")
    mesh.run(2 * TAKEOVER_S + SHORTLY_S)
    assert primary.mode == "draining"
    primary.answer("w")
    mesh.run(2 * 5.0 + SHORTLY_S)
    assert primary.is_stopped
    assert primary.bodies("ada") == [b"done", b"done"]


def test_drain_whose_successor_is_disabled_meanwhile_gives_out_what_waits_to_those_that_are_free() -> None:
    mesh, primary, fallback = busy_pair()
    primary.manage("drain")
    primary.worker("v", "echo")
    assert (primary.mode, primary.heard("v", Task)) == ("holding", [])
    fallback.manage("disable")
    mesh.run(SHORTLY_S)
    assert primary.mode == "draining"
    assert [task.id for task in primary.heard("v", Task)] == [id_of("ada", 2)], "though v has said nothing since"


def test_drain_of_the_standby_stops_it_and_the_active_one_serves_on() -> None:
    mesh, primary, fallback = busy_pair()
    fallback.manage("drain")
    mesh.run(2 * 5.0 + SHORTLY_S)
    assert fallback.is_stopped
    assert (star(primary), primary.mode) == (Star.ACTIVE, "active")
    primary.answer("w")
    assert len(primary.answer("w")) == 1


def test_process_of_the_active_one_that_ends_makes_the_other_serve_at_once() -> None:
    mesh, primary, fallback = busy_pair()
    primary.do(primary.broker.stop(mesh.now))
    mesh.settle()
    primary.kill()
    assert (star(fallback), fallback.state.epoch) == (Star.ACTIVE, 4)
    assert fallback.state.ledger.queued == 1
    assert fallback.state.ledger.in_flight == 1, "its worker may still have it"


def test_process_of_the_standby_that_ends_releases_what_waited_for_its_word() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    assert primary.heard("w", Task) == []
    mesh.heal()
    mesh.wire.clear()  # what was on its way to it is lost with it
    fallback.do(fallback.broker.stop(mesh.now))
    mesh.settle()
    assert len(primary.heard("w", Task)) == 1


# --- disable and enable -----------------------------------------------------------------------------------------------


def test_disabled_standby_follows_no_more_and_takes_nothing_over() -> None:
    mesh, primary, fallback = pair_of()
    fallback.manage("disable")
    mesh.run(SHORTLY_S)
    assert primary.state.stream is None
    primary.worker("w", "echo")
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    assert len(primary.answer("w")) == 1, "nobody's word is waited for"
    primary.kill()
    mesh.run(2 * TAKEOVER_S)
    fallback.client("eve", epochs=SEEN)
    assert (fallback.mode, fallback.heard("eve", ConfigAck)) == ("disabled", [])


def test_standby_that_is_enabled_again_follows_again() -> None:
    mesh, primary, fallback = pair_of()
    fallback.manage("disable")
    mesh.run(3.0)
    primary.client("ada")
    fallback.manage("enable")
    mesh.run(3.0)
    assert (star(fallback), set(fallback.state.sessions.by_identity)) == (Star.PASSIVE, {"ada"})


def test_active_one_that_is_disabled_does_not_make_the_other_serve_by_itself() -> None:
    mesh, primary, fallback = pair_of()
    primary.manage("disable")
    mesh.run(2 * TAKEOVER_S)
    assert (primary.mode, fallback.mode) == ("disabled", "passive")


def test_active_one_that_was_disabled_and_is_enabled_gives_the_copy_its_right() -> None:
    mesh, primary, fallback = pair_of()
    primary.manage("disable")
    mesh.run(3.0)
    primary.manage("enable")
    mesh.run(SETTLED_S)
    assert {star(primary), star(fallback)} == {Star.ACTIVE, Star.PASSIVE}
    assert max(primary.state.epoch, fallback.state.epoch) > 3
