"""A broker and its fallback broker: whoever serves, and whoever stands by, is killed, stopped, ended or told to go."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

from tests.chaos.broker_faults import leave
from tests.chaos.fault import fault, is_pair
from tests.chaos.stage import Stage, look_until
from tests.integration.networks import BrokerProcess


def active_of(stage: Stage) -> BrokerProcess:
    (passive,) = stage.standing_by()
    return next(broker for broker in stage.brokers if broker.identity != passive)


def passive_of(stage: Stage) -> BrokerProcess:
    (passive,) = stage.standing_by()
    return stage.network[passive]


@fault("kill-active", is_pair)
def kill_active(stage: Stage, _random: Random) -> float | None:
    """kill -9 of the active broker of a pair: the other one takes over, with its tasks."""
    victim = active_of(stage)
    try:
        return leave(stage, victim.identity, victim.kill)
    finally:
        if not victim.is_running:
            victim.start()


@fault("pause-active", is_pair)
def pause_active(stage: Stage, _random: Random) -> float | None:
    """kill -STOP of the active broker until the other one has taken over: when it goes on, its reign is over."""
    victim = active_of(stage)
    try:
        return leave(stage, victim.identity, victim.freeze)
    finally:
        victim.thaw()


@fault("stop-active", is_pair)
def stop_active(stage: Stage, _random: Random) -> float | None:
    """SIGTERM: the active broker hands over before it ends, and is started again."""
    victim = active_of(stage)

    def stop() -> None:
        code = victim.stop()
        assert code == 0, f"{victim.identity} ended with {code}"

    try:
        return leave(stage, victim.identity, stop)
    finally:
        if not victim.is_running:
            victim.start()


@fault("hand-over", is_pair)
def hand_over(stage: Stage, _random: Random) -> float | None:
    """An operator's word: the other one shall serve. It is refused until that one has the copy."""
    victim = active_of(stage)

    def ask() -> None:
        look_until(lambda: victim.manage("handover"), f"{victim.identity} hands over")

    return leave(stage, victim.identity, ask)


def _miss(stage: Stage, victim: BrokerProcess, break_it: Callable[[], None]) -> float:
    """Break who stands by, and wait until the active broker misses it; nobody else is concerned."""
    (active,) = stage.others(victim.identity)
    began_s = time.monotonic()
    break_it()

    def is_missed() -> bool:
        row = active.sees()[victim.identity]
        return bool(row["link"] != "up" or row["state"] == "gone")

    noticed_s = look_until(is_missed, f"{active.identity} misses {victim.identity}")
    stage.books.await_replies(stage.clients)
    return noticed_s - began_s


@fault("kill-passive", is_pair)
def kill_passive(stage: Stage, _random: Random) -> float:
    """kill -9 of who stands by."""
    victim = passive_of(stage)
    try:
        return _miss(stage, victim, victim.kill)
    finally:
        if not victim.is_running:
            victim.start()


@fault("pause-passive", is_pair)
def pause_passive(stage: Stage, _random: Random) -> float:
    """kill -STOP of who stands by, and -CONT."""
    victim = passive_of(stage)
    try:
        return _miss(stage, victim, victim.freeze)
    finally:
        victim.thaw()


@fault("isolate-active", is_pair)
def isolate_active(stage: Stage, _random: Random) -> float | None:
    """The active broker lives, and nobody reaches it: the other one takes over, and for a while both are active."""
    victim, other = active_of(stage), passive_of(stage)

    def isolate() -> None:
        stage.cables[other.identity].hush("peers")  # whichever of the two has dialed the other
        stage.cables[victim.identity].stall()

    try:
        return leave(stage, victim.identity, isolate)
    finally:
        stage.mend_cables()


@fault("part-pair", is_pair)
def part_pair(stage: Stage, _random: Random) -> float:
    """The two hear nothing of one another, and everybody reaches both: who serves goes on, alone."""

    def part() -> None:
        for cable in stage.cables.values():
            cable.hush("peers")

    try:
        return _miss(stage, passive_of(stage), part)
    finally:
        stage.mend_cables()
