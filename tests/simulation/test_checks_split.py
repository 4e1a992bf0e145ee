"""What is excused when both brokers of a pair were active: a task may run once for each side, and no more."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from scale0.core.star import Star
from scale0.simulator.checks_split import Splits

TOKEN = b"token-1"


class Pairs:
    """`prim` serves in epoch 5 and `back` in epoch 6, from 10.0 s on; the task was submitted before."""

    def __init__(self, *, is_slow: bool = False) -> None:
        self.hosts = {name: _host(name, epoch) for name, epoch in (("prim", 5), ("back", 6))}
        self.hosts["prim"].is_paused = is_slow
        world: Any = SimpleNamespace(
            shape=object(),
            schedule=SimpleNamespace(now=9.0),
            trace=SimpleNamespace(event=lambda *_: None),
            host_named=self.hosts.get,
            count=lambda *what: self.counts.update([what]),
        )
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.splits = Splits(world)
        self.splits.born(TOKEN)
        self.look(10.0)

    def look(self, now: float) -> None:
        self.at("prim", now)
        self.splits.look_at(self.hosts["prim"])

    def at(self, name: str, now: float) -> Any:
        host = self.hosts[name]
        host.now = now
        return host

    def step_down(self, name: str, now: float) -> None:
        self.hosts[name].broker.state.pair.star = Star.PASSIVE
        self.look(now)

    def serve_and_die(self, name: str, given_out_s: float) -> None:
        """From 10.0 s to 12.0 s."""
        self.splits.look_at(self.at(name, 10.0))
        self.give_out(name, 6, given_out_s)
        self.hosts[name].is_running = False
        self.splits.look_at(self.at(name, 12.0))

    def give_out(self, name: str, epoch: int, now: float) -> None:
        self.hosts[name].broker.state.epoch = epoch
        self.splits.given_out(self.at(name, now), TOKEN)


def _host(name: str, epoch: int) -> Any:
    is_primary = name == "prim"
    pair = SimpleNamespace(
        name="prim", partner="back" if is_primary else "prim", is_primary=is_primary, star=Star.ACTIVE
    )
    state = SimpleNamespace(pair=pair, epoch=epoch, mode="active")
    return SimpleNamespace(name=name, now=0.0, is_running=True, is_paused=False, broker=SimpleNamespace(state=state))


def test_task_that_both_gave_out_is_excused() -> None:
    pairs = Pairs()
    pairs.give_out("prim", 5, 11.0)
    assert not pairs.splits.excuse(TOKEN)
    pairs.give_out("back", 6, 12.0)
    assert pairs.splits.excuse(TOKEN)


def test_task_that_the_one_that_stepped_down_gives_out_for_the_other_side_is_excused() -> None:
    pairs = Pairs()
    pairs.give_out("prim", 5, 11.0)
    pairs.step_down("prim", 12.0)
    pairs.give_out("prim", 7, 13.0)
    assert pairs.splits.excuse(TOKEN)


def test_task_that_the_one_that_went_on_gives_out_twice_is_not_excused() -> None:
    pairs = Pairs()
    pairs.give_out("back", 6, 11.0)
    pairs.step_down("prim", 12.0)
    pairs.give_out("back", 8, 13.0)
    assert not pairs.splits.excuse(TOKEN)


def test_task_that_one_gives_out_twice_after_they_have_met_is_not_excused() -> None:
    pairs = Pairs()
    pairs.step_down("prim", 12.0)
    pairs.give_out("prim", 7, 13.0)
    pairs.give_out("prim", 9, 14.0)
    assert not pairs.splits.excuse(TOKEN)


def test_task_that_was_given_out_before_both_served_is_excused_only_if_it_came_back() -> None:
    pairs = Pairs()
    pairs.give_out("prim", 5, 9.5)
    pairs.give_out("back", 6, 11.0)
    assert not pairs.splits.excuse(TOKEN)
    pairs.splits.taken_back(pairs.at("prim", 11.5), TOKEN)
    pairs.give_out("prim", 5, 12.0)
    assert pairs.splits.excuse(TOKEN)


def test_task_that_the_other_gave_out_while_one_was_slow_is_excused() -> None:
    pairs = Pairs(is_slow=True)
    pairs.serve_and_die("back", given_out_s=11.0)
    pairs.hosts["prim"].is_paused = False
    pairs.give_out("prim", 5, 13.0)
    assert not pairs.splits.excuse(TOKEN), "one that has to notice that it stood still does not give it out"
    pairs.splits.was_slow(pairs.at("prim", 13.0), 9.0)
    assert pairs.splits.excuse(TOKEN)


def test_task_that_the_other_gave_out_while_one_was_to_hand_over_is_excused_if_that_goes_on() -> None:
    pairs = Pairs(is_slow=True)
    pairs.hosts["prim"].is_paused = False
    pairs.hosts["prim"].broker.state.mode = "holding"
    pairs.look(11.0)
    pairs.give_out("back", 6, 11.5)
    pairs.hosts["prim"].broker.state.mode = "active"
    pairs.look(12.0)
    assert pairs.splits.excuse(TOKEN, by_both=False)


def test_task_that_was_given_out_before_the_slow_one_stood_still_is_not_excused() -> None:
    pairs = Pairs(is_slow=True)
    pairs.serve_and_die("back", given_out_s=11.0)
    pairs.splits.was_slow(pairs.at("prim", 13.0), 11.5)
    pairs.give_out("prim", 5, 13.0)
    assert not pairs.splits.excuse(TOKEN)
