"""Testing the test: bugs planted in the binary star, each of which the simulator must find."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from scale0.core import binary_star, doubt, epochs, link, replica, replication, routing, takeover, verdicts
from scale0.core.broker import Broker
from scale0.core.effects import Effect, Persist, Send
from scale0.core.ledger import Entry
from scale0.core.network import Peer
from scale0.core.star import Event, Star
from scale0.core.state import State
from scale0.core.stream import Replied
from scale0.protocol.messages import PeerStatus
from scale0.simulator.profiles import PAIRS
from tests.simulation.planting import Bugs

STEPS = 2500
WITHIN = 1000  # seeds
FOUND_BY = {
    "a_copy_forgets_replies": 2000000,
    "a_standby_is_not_told_what_serves": 2000000,
    "a_standby_serves_who_asks": 2000000,
    "a_standby_takes_over_and_nobody_has_asked": 2000004,
    "a_standby_takes_over_without_silence": 2000000,
    "an_activation_opens_no_new_epoch": 2000001,
    "an_epoch_is_kept_after_it_was_used": 2000000,
    "an_epoch_is_not_kept": 2000000,
    "an_old_copy_is_trusted": 2000084,
    "a_task_does_not_wait_for_the_standby": 2000055,
    "any_word_ends_a_doubt": 2000024,
    "both_count_epochs_alike": 2000004,
    "one_that_doubted_goes_on_from_where_it_stood": 2000681,
    "one_that_doubts_dispatches": 2000007,
    "one_that_stood_still_does_not_notice": 2000004,
    "participants_obey_lower_epochs": 2000006,
    "the_lower_epoch_does_not_step_down": 2000018,
}
"""The first seed that finds it. It is tried first, so that this is fast; if it no longer does, others are tried."""

bug = Bugs()


@bug("I9")
def an_activation_opens_no_new_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(epochs, "next_epoch", lambda seen, *, is_primary: max(seen, 1))


@bug("I9")
def both_count_epochs_alike(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(epochs, "next_epoch", lambda seen, *, is_primary: seen + 1)


@bug("I9")
def an_epoch_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(epochs, "keep", lambda state, *, is_serving: None)


@bug("I9")
def an_epoch_is_kept_after_it_was_used(patch: pytest.MonkeyPatch) -> None:
    def late(verb: Callable[..., list[Effect]]) -> Callable[..., list[Effect]]:
        return lambda *given: sorted(verb(*given), key=lambda effect: isinstance(effect, Persist))

    patch.setattr(Broker, "receive", late(Broker.receive))
    patch.setattr(Broker, "tick", late(Broker.tick))


@bug("I9")
def participants_obey_lower_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(link.Link, "_has_old_epoch", lambda self, epoch, now, out: False)


@bug("I9")
def one_that_doubts_dispatches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(routing, "DISPATCHING", ("active", "draining", "holding"))


@bug("I9")
def a_standby_serves_who_asks(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: State) -> bool:
        state.mode = "active"
        return True

    patch.setattr(binary_star, "asked", wrong)


@bug("rule 31")
def a_standby_takes_over_without_silence(patch: pytest.MonkeyPatch) -> None:
    right = binary_star.asked

    def wrong(state: State) -> bool:
        patch.setattr(binary_star, "silence_s", lambda state: 1e9)
        try:
            return right(state)
        finally:
            patch.setattr(binary_star, "silence_s", silence_s)

    silence_s = binary_star.silence_s
    patch.setattr(binary_star, "asked", wrong)


@bug("rule 31")
def a_standby_takes_over_and_nobody_has_asked(patch: pytest.MonkeyPatch) -> None:
    right = binary_star.tick

    def wrong(state: State) -> None:
        right(state)
        pair = state.pair
        if pair is not None and pair.star is Star.PASSIVE and binary_star.silence_s(state) > state.settings.takeover_s:
            verdicts.obey(state, Event.ASKED)

    patch.setattr(binary_star, "tick", wrong)


@bug("rule 31")
def one_that_stood_still_does_not_notice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(doubt, "look_at_pause", doubt.look_again)


@bug("rule 31")
def any_word_ends_a_doubt(patch: pytest.MonkeyPatch) -> None:
    right = binary_star.heard

    def wrong(state: State, peer: Peer, message: PeerStatus) -> None:
        message.echo = state.pair.challenge if state.pair is not None else 0
        right(state, peer, message)

    patch.setattr(binary_star, "heard", wrong)


@bug("at most once", "502")
def a_task_does_not_wait_for_the_standby(patch: pytest.MonkeyPatch) -> None:
    right = replication.send

    def wrong(state: State, entry: Entry, effect: Send) -> None:
        right(state, entry, effect)
        if state.stream is not None and state.stream.held.pop(entry.id, None) is not None:
            state.effects.append(effect)

    patch.setattr(replication, "send", wrong)


@bug("at most once", "502", "rule 12")
def an_old_copy_is_trusted(patch: pytest.MonkeyPatch) -> None:
    right = takeover.wake
    patch.setattr(takeover, "wake", lambda state, *, trusted_until_s: right(state, trusted_until_s=math.inf))


@bug("at most once", "502")
def one_that_doubted_goes_on_from_where_it_stood(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(takeover, "distrust", lambda state: None)


@bug("copy")
def a_copy_forgets_replies(patch: pytest.MonkeyPatch) -> None:
    handlers: dict[Any, Any] = replica._APPLY
    patch.setitem(handlers, Replied, lambda state, change: None)


@bug("I14", "I9")
def the_lower_epoch_does_not_step_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdicts, "_step_down", lambda state: None)


@bug("I14")
def a_standby_is_not_told_what_serves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(binary_star, "copy_to", lambda state, peer: None)


@pytest.mark.parametrize("name", sorted(bug.by_name))
def test_a_planted_bug_of_the_binary_star_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.must_be_found(name, monkeypatch, [FOUND_BY[name], *range(PAIRS, PAIRS + WITHIN)], STEPS)
