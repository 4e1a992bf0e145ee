"""Doubt: one that stood still, or hears of a higher epoch, dispatches nothing before its partner has answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scale0.core.broker import Broker
from scale0.core.doubt import EPOCH_LEAP_MAX
from scale0.core.effects import Effect, Route, Send
from scale0.core.star import Star
from scale0.protocol.dialects import PEER
from scale0.protocol.messages import Disconnect, PeerStatus, Task
from tests.core.mesh import SETTLED_S, Mesh, Node, pair_of
from tests.core.star_kit import SEEN, SHORTLY_S, TAKEOVER_S, pause
from tests.core.test_binary_star import as_pair, star


def say_to(node: Node, other: str, **status: object) -> None:
    """PEERSTATUS from the partner, by hand."""
    session = node.peer(other).session
    assert session is not None
    told = {"identity": other, "state": "passive", "epoch": 1, "config_version": bytes(16), **status}
    node.do(node.broker.receive(session.route, PEER, PeerStatus(**told), node.mesh.now))  # type: ignore[arg-type]


def in_doubt() -> tuple[Mesh, Node, Node]:
    """The primary has heard of a higher epoch, and its question waits behind a cut link."""
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", idempotent=True)
    primary.client("ada")
    mesh.cut("prim", "back")
    primary.client("eve", epochs={"prim": 4})
    assert (star(primary), primary.mode) == (Star.DOUBTFUL, "holding")
    return mesh, primary, fallback


# --- pauses ---------------------------------------------------------------------------------------------------------


def test_pause_shorter_than_takeover_timeout_leads_to_no_doubt() -> None:
    mesh, primary, fallback = pair_of()
    pause(mesh, primary, TAKEOVER_S - 2.5 - SHORTLY_S)
    mesh.run(SHORTLY_S)
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.PASSIVE)
    assert "in_doubt" not in primary.alarm_names()


def test_pause_longer_than_takeover_timeout_that_nobody_used_leads_to_doubt_and_back() -> None:
    mesh, primary, fallback = pair_of()
    pause(mesh, primary, TAKEOVER_S + SHORTLY_S)
    mesh.run(SHORTLY_S)
    assert primary.alarm_names().count("in_doubt") == 1
    mesh.run(20.0)
    assert (star(primary), star(fallback)) == (Star.ACTIVE, Star.PASSIVE)


@pytest.mark.parametrize(
    "comes",
    [
        lambda broker, route, now: broker.link_refused(route, now),
        lambda broker, route, now: broker.link_broken(route, now),
        lambda broker, route, now: broker.send_failed(Send(route, PEER, Disconnect()), "unroutable", now),
        lambda broker, route, now: broker.heard_version("back", b"\xff" * 16, now),
        lambda broker, route, now: broker.manage("balance", {}, now)[1],
    ],
)
def test_pause_is_noticed_whatever_comes_first_after_it(
    comes: Callable[[Broker, Route, float], list[Effect]],
) -> None:
    mesh, primary, _ = pair_of()
    session = primary.peer("back").session
    assert session is not None
    mesh.now += TAKEOVER_S + SHORTLY_S
    primary.do(comes(primary.broker, session.route, mesh.now))
    assert (star(primary), primary.mode) == (Star.DOUBTFUL, "holding")


def test_pause_in_which_the_fallback_took_over_ends_with_a_step_down() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    pause(mesh, primary, TAKEOVER_S + SHORTLY_S)
    fallback.client("eve", epochs=SEEN)
    mesh.run(20.0)
    assert (star(primary), star(fallback)) == (Star.PASSIVE, Star.ACTIVE)
    assert "stepped_down" in primary.alarm_names()
    assert primary.codes("ada") == [301]


def test_nothing_is_dispatched_between_a_pause_and_the_answer() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", idempotent=True)
    primary.client("ada")
    pause(mesh, primary, TAKEOVER_S + SHORTLY_S)
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    assert (star(primary), primary.heard("w", Task)) == (Star.DOUBTFUL, [])
    assert primary.state.ledger.queued == 1, "it was accepted"
    mesh.heal()
    mesh.run(20.0)
    assert (star(primary), len(primary.heard("w", Task))) == (Star.ACTIVE, 1)
    assert fallback.mode == "passive"


def test_standby_that_stood_still_waits_again_before_it_takes_over() -> None:
    mesh, _, fallback = pair_of()
    pause(mesh, fallback, 3 * TAKEOVER_S)
    fallback.client("eve", epochs=SEEN)
    assert (fallback.mode, fallback.codes("eve")) == ("passive", [503]), "what was said meanwhile is yet to be read"


# --- a higher epoch ---------------------------------------------------------------------------------------------------


def test_participant_that_has_seen_a_higher_epoch_puts_the_active_one_in_doubt() -> None:
    mesh, primary, _ = in_doubt()
    primary.submit("ada", 1, "echo")
    assert primary.heard("w", Task) == []
    assert "in_doubt" in primary.alarm_names()
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert len(primary.heard("w", Task)) == 1


def test_one_that_resumes_after_it_heard_of_a_higher_epoch_opens_one_above_it() -> None:
    mesh, primary, _ = in_doubt()
    mesh.heal()
    mesh.run(SHORTLY_S)
    assert (star(primary), primary.state.epoch) == (Star.ACTIVE, 5)
    assert primary.kept.epoch == 5


@pytest.mark.parametrize("epochs", [{"prim": 3}, {"other": 9}, {"prim": 3 + EPOCH_LEAP_MAX + 1}])
def test_no_doubt_comes_of_an_epoch_that_is_not_higher_or_another_pairs_or_absurd(epochs: dict[str, int]) -> None:
    _, primary, _ = pair_of()
    primary.client("eve", epochs=epochs)
    assert star(primary) is Star.ACTIVE


# --- the answer -------------------------------------------------------------------------------------------------------


def test_word_that_answers_no_question_is_not_believed() -> None:
    _, primary, _ = in_doubt()
    say_to(primary, "back", star="passive")
    assert star(primary) is Star.DOUBTFUL, "it may have been said before"


def test_word_that_answers_an_older_question_is_not_believed() -> None:
    _, primary, _ = in_doubt()
    assert primary.state.pair is not None
    first = primary.state.pair.challenge
    say_to(primary, "back", star="passive", echo=first)
    assert star(primary) is Star.ACTIVE
    primary.client("bob", epochs={"prim": 6})
    assert star(primary) is Star.DOUBTFUL
    say_to(primary, "back", star="passive", echo=first)
    assert star(primary) is Star.DOUBTFUL


def test_question_of_a_pair_that_was_made_again_has_a_number_that_was_not_used_before() -> None:
    mesh, primary, _ = pair_of()
    asked = []
    for _ in range(2):
        mesh.passed.clear()
        pause(mesh, primary, TAKEOVER_S + SHORTLY_S)
        mesh.run(20.0)
        assert star(primary) is Star.ACTIVE
        asked += [{status.ask for status in mesh.between("prim", "back", PeerStatus)} - {0}]
        for fallback in ("", "back"):
            as_pair(primary, fallback)
            mesh.run(SETTLED_S)
    first, second = asked
    assert all(asked)
    assert first.isdisjoint(second)


def test_answer_to_the_question_ends_the_doubt() -> None:
    _, primary, _ = in_doubt()
    assert primary.state.pair is not None
    say_to(primary, "back", star="passive", echo=primary.state.pair.challenge)
    assert star(primary) is Star.ACTIVE


def test_higher_epoch_is_believed_without_a_question() -> None:
    _, primary, _ = in_doubt()
    say_to(primary, "back", state="active", star="active", epoch=4)
    assert star(primary) is Star.PASSIVE


def test_question_is_answered_at_once_and_with_its_own_number() -> None:
    mesh, _, fallback = pair_of()
    say_to(fallback, "prim", state="holding", star="doubtful", epoch=3, ask=7)
    mesh.settle()
    assert 7 in [told.echo for told in mesh.between("back", "prim", PeerStatus)]


def test_one_in_doubt_whose_partner_is_silent_goes_on_in_a_new_epoch() -> None:
    mesh, primary, fallback = in_doubt()
    fallback.kill()
    mesh.heal()
    primary.submit("ada", 1, "echo")
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert (star(primary), primary.state.epoch) == (Star.ACTIVE, 5)
    assert len(primary.heard("w", Task)) == 1


def one_waits_in_doubt() -> tuple[Mesh, Node, Node]:
    """A task is with the only worker, and another one waits, when the primary hears of a higher epoch."""
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    primary.submit("ada", 2, "echo")
    assert len(primary.heard("w", Task)) == 1
    mesh.cut("prim", "back")
    primary.client("eve", epochs={"prim": 4})
    return mesh, primary, fallback


def test_one_in_doubt_whose_partner_is_silent_answers_502_to_what_waited_and_may_have_run_there() -> None:
    mesh, primary, fallback = one_waits_in_doubt()
    mesh.run(TAKEOVER_S + SHORTLY_S)
    assert (star(primary), primary.codes("ada")) == (Star.ACTIVE, [502])
    assert fallback.mode == "passive"


def test_one_in_doubt_whose_pair_is_dissolved_answers_502_to_what_waited_and_may_have_run_there() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    mesh.run(SHORTLY_S)
    mesh.cut("prim", "back")
    primary.client("eve", epochs={"prim": 4})
    assert star(primary) is Star.DOUBTFUL
    as_pair(primary, "")
    assert (primary.state.pair, primary.mode, primary.codes("ada")) == (None, "active", [502])


def test_what_expires_at_one_that_has_heard_of_a_higher_epoch_may_have_run_there_though_nobody_followed_here() -> None:
    mesh, primary, _ = pair_of()
    primary.client("ada")
    primary.worker("w", "echo", capacity=0)
    primary.submit("ada", 1, "echo", timeout_s=3 * TAKEOVER_S + 2.0)
    mesh.run(SHORTLY_S)
    mesh.cut("prim", "back")
    mesh.run(3 * TAKEOVER_S + 1.0)
    assert primary.state.stream is None, "the copy is old"
    primary.client("eve", epochs={"prim": 4})
    mesh.run(1.0)
    assert (star(primary), primary.codes("ada")) == (Star.DOUBTFUL, [504])


def test_broker_without_a_partner_never_doubts() -> None:
    mesh = Mesh()
    node = mesh.add("b1")
    node.client("eve", epochs={"b1": 99})
    pause(mesh, node, 100.0)
    mesh.run(SHORTLY_S)
    assert (node.mode, node.alarm_names()) == ("active", [])
