"""Brokers of a group that are killed, stopped or cut off, and brokers whose clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from tests.chaos.fault import fault, is_group
from tests.chaos.stage import Stage, look_until

JUMPS_S = (-86_400.0, -3_600.0, -90.0, 90.0, 3_600.0, 86_400.0)


def leave(stage: Stage, victim: str, break_it: Callable[[], None]) -> float | None:
    """Break a broker, and wait until all who were there are elsewhere, and served."""
    movers = [identity for identity, place in stage.places().items() if place == victim]
    began_s = time.monotonic()
    break_it()
    noticed_s = stage.await_moved(movers, victim)
    stage.books.await_replies(stage.clients)
    return noticed_s - began_s if movers else None


@fault("kill-broker", is_group)
def kill_broker(stage: Stage, random: Random) -> float | None:
    """kill -9 of a broker; the others of its group stand in."""
    victim = stage.network[random.choice(stage.topology.mortal)]
    try:
        return leave(stage, victim.identity, victim.kill)
    finally:
        if not victim.is_running:
            victim.start()


@fault("pause-broker", is_group)
def pause_broker(stage: Stage, random: Random) -> float | None:
    """kill -STOP of a broker: nobody is told, and its connections stay; then -CONT."""
    victim = random.choice(stage.brokers)
    try:
        return leave(stage, victim.identity, victim.freeze)
    finally:
        victim.thaw()


def _cut(stage: Stage, random: Random, how: str) -> float | None:
    victim = random.choice(stage.topology.brokers)
    cable = stage.cables[victim]
    ways: dict[str, Callable[[], None]] = {
        "cut": cable.cut,
        "stall": cable.stall,
        "in": lambda: cable.hush("in"),
        "out": lambda: cable.hush("out"),
    }
    try:
        return leave(stage, victim, ways[how])
    finally:
        cable.mend()


@fault("cut-link", is_group)
def cut_link(stage: Stage, random: Random) -> float | None:
    """Every connection to a broker ends, and none can be made; those that it made itself stay."""
    return _cut(stage, random, "cut")


@fault("silence-link", is_group)
def silence_link(stage: Stage, random: Random) -> float | None:
    """What goes to a broker, and what comes from it, is lost on the way."""
    return _cut(stage, random, "stall")


@fault("deafen-broker", is_group)
def deafen_broker(stage: Stage, random: Random) -> float | None:
    """A one-way cut: a broker is heard, and hears nothing."""
    return _cut(stage, random, "in")


@fault("mute-broker", is_group)
def mute_broker(stage: Stage, random: Random) -> float | None:
    """A one-way cut: a broker hears everything, and is not heard."""
    return _cut(stage, random, "out")


@fault("jump-broker")
def jump_broker(stage: Stage, random: Random) -> float:
    """A broker's clock is set wrong, and right again: it says so, and sends nobody away."""
    victim = random.choice(stage.brokers)
    before = len(victim.alarms("clock_jumped"))

    def set_clock(ahead_s: float, alarms: int) -> float:
        stdin = victim.process.stdin
        assert stdin is not None
        stdin.write(f"ahead {ahead_s}\n")
        stdin.flush()
        return look_until(
            lambda: len(victim.alarms("clock_jumped")) >= alarms, f"{victim.identity} sees its clock jump"
        )

    began_s = time.monotonic()
    noticed_s = set_clock(random.choice(JUMPS_S), before + 1)
    stage.books.await_replies(stage.clients)
    set_clock(0.0, before + 2)
    return noticed_s - began_s
