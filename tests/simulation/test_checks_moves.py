"""Hops in a row: who follows each switch of a pair makes none, and who goes round within one epoch does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scale0.core.link_settings import Phase
from scale0.core.rounds import HOPS_MAX
from scale0.protocol.messages import NO_VERSION, ChangeBroker, ConfigAck
from scale0.simulator.checks_moves import MoveChecks

HOPS = 2 * HOPS_MAX


def violations(
    epochs: list[int], pairs: tuple[str, ...] = ("prim",), phase: Phase = Phase.CONNECTING, at: str = "here"
) -> list[str]:
    """A participant is sent on at once after it was taken in each of `epochs`, by each of `pairs` in turn."""
    found: list[str] = []
    world: Any = SimpleNamespace(
        profile=SimpleNamespace(interval_s=1.0),
        is_healed=False,
        count=lambda *_: None,
        violation=lambda rule, _text: found.append(rule),
    )
    process: Any = Participant(at)
    checks = MoveChecks(world)
    for number, epoch in enumerate(epochs):
        checks.heard(process, ConfigAck(config_version=NO_VERSION, epoch=epoch, pair=pairs[number % len(pairs)]))
        checks.heard(process, ChangeBroker(identity="b", endpoints=["there"]))
        checks.opened(process, "there", phase)
    return found


class Participant:
    """A participant that is always at the same time."""

    now = 0.5
    label = "client0#1"

    def __init__(self, endpoint: str) -> None:
        self.session = SimpleNamespace(link=SimpleNamespace(endpoint=endpoint))


def test_a_row_begins_anew_with_each_switch() -> None:
    assert violations(list(range(1, HOPS))) == []


def test_a_loop_within_one_epoch_is_found() -> None:
    assert "I8" in violations([3] * HOPS)


def test_a_loop_between_pairs_of_different_epochs_is_found() -> None:
    assert "I8" in violations([3, 7] * HOPS, ("prim", "other"))


def test_a_loop_between_brokers_without_a_partner_is_found() -> None:
    assert "I8" in violations(list(range(1, HOPS)), ("",))


def test_who_asks_where_it_was_told_to_go_obeys_no_longer() -> None:
    assert violations([3] * HOPS, phase=Phase.ASKING) == []


def test_who_asks_already_where_it_is_told_to_go_follows_nobody_there() -> None:
    assert violations([3] * HOPS, at="there") == []
