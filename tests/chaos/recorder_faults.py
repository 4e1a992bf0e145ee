"""Recording goes wrong: its disk, its process, the place that segments go to. Serving goes on, and every loss is told.

Noticed is what the broker's own log says of it. That it is over is not waited for here: a recorder tries again when it
is time, while the next faults come. Only the next fault of the same recorder waits for it.
"""

from __future__ import annotations

import os
import signal
import time
from random import Random

from tests.chaos.fault import fault
from tests.chaos.recorders import said
from tests.chaos.stage import Stage, look_until
from tests.integration.networks import BrokerProcess

LOST, WAITING, WRITTEN = "rows are lost", "rows wait in the broker", "are written to"
ENDED = "the recorder ended"
NOT_STARTED = "no recorder can be started"
AWAY, BACK = "is away", "is back"
PAUSED_REPLIES_MAX = 12  # that come from each quick service while a recorder stands still


def _victim(stage: Stage, random: Random) -> tuple[BrokerProcess, int]:
    """Any broker, and its recorder, which has got over all that happened to it before."""
    victim = random.choice(stage.brokers)
    look_until(lambda: stage.recorders.is_calm(victim), f"{victim.identity} records")
    return victim, stage.recorders.pid(victim)


def _await_said(stage: Stage, victim: BrokerProcess, before: int, *words: str) -> float:
    """Until its log says one of these more often than before, and replies come nevertheless."""
    noticed_s = look_until(lambda: _times(victim, *words) > before, f"{victim.identity} says: {' or '.join(words)}")
    stage.books.await_replies(stage.clients)
    return noticed_s


def _times(victim: BrokerProcess, *words: str) -> int:
    return sum(said(victim, word) for word in words)


@fault("full-telemetry")
def full_telemetry(stage: Stage, random: Random) -> float:
    """A recorder's disk is full: it lets rows go, says so, and tells which ones; if it just starts, rows wait."""
    victim, recorder = _victim(stage, random)
    disk = stage.recorders.disks[victim.identity]
    words = (LOST, WAITING)
    before, began_s = _times(victim, *words), time.monotonic()
    disk.fill(recorder)
    try:
        return _await_said(stage, victim, before, *words) - began_s
    finally:
        stage.recorders.expect(victim, WRITTEN)
        disk.empty(recorder)


@fault("read-only-telemetry", needs_own_disk=True)
def read_only_telemetry(stage: Stage, random: Random) -> float:
    """The disk has become read-only, and no recorder can be started on it.

    No disk becomes read-only while a file on it is open for writing. So its recorder is killed, and rows wait in the
    broker.
    """
    victim, _ = _victim(stage, random)
    disk = stage.recorders.disks[victim.identity]
    before, began_s = said(victim, NOT_STARTED), time.monotonic()

    def is_read_only() -> bool:
        if recorder := stage.recorders.pid(victim):
            os.kill(recorder, signal.SIGKILL)
        return disk.forbid_writing()

    look_until(is_read_only, f"the disk of {victim.identity}'s recorder is read-only")
    try:
        return _await_said(stage, victim, before, NOT_STARTED) - began_s
    finally:
        disk.allow_writing()


@fault("kill-recorder")
def kill_recorder(stage: Stage, random: Random) -> float:
    """kill -9 of a recorder: its broker keeps what is new, and starts another one."""
    victim, recorder = _victim(stage, random)
    before, began_s = said(victim, ENDED), time.monotonic()
    os.kill(recorder, signal.SIGKILL)
    return _await_said(stage, victim, before, ENDED) - began_s


@fault("pause-recorder")
def pause_recorder(stage: Stage, random: Random) -> None:
    """kill -STOP of a recorder, and -CONT: rows wait in the pipe, and nobody notices."""
    _, recorder = _victim(stage, random)
    with stage.recorders.paused(recorder):
        stage.books.await_replies(stage.clients, random.randint(1, PAUSED_REPLIES_MAX))


@fault("data-away")
def data_away(stage: Stage, _random: Random) -> float:
    """The data place is not there for a while: segments wait with their recorders."""
    recorders = stage.recorders
    look_until(
        lambda: all(recorders.has_shipped(broker) and recorders.is_calm(broker) for broker in stage.brokers),
        "all recorders ship",
    )
    before = {broker.identity: said(broker, AWAY) for broker in stage.brokers}

    def who_misses_it() -> list[BrokerProcess]:
        return [broker for broker in stage.brokers if said(broker, AWAY) > before[broker.identity]]

    began_s = time.monotonic()
    with recorders.data_away():
        noticed_s = look_until(who_misses_it, "a recorder says that the data place is away")
        stage.books.await_replies(stage.clients)
        for broker in who_misses_it():
            recorders.expect(broker, BACK)
    return noticed_s - began_s
