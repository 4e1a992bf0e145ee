"""A broker's disk cannot be written to: it takes a change of the config, says that it cannot keep it, and serves on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from random import Random

from tests.chaos.fault import fault
from tests.chaos.pair_faults import passive_of
from tests.chaos.stage import Stage, look_until
from tests.integration.networks import BrokerProcess


@contextlib.contextmanager
def _kept_again(stage: Stage, victim: BrokerProcess) -> Iterator[None]:
    """After the block the disk is good again: the next change must be on it."""
    yield
    version = stage.change_config(_sound_other(stage, victim))
    kept = stage.disks[victim.identity].path / "config.json"
    look_until(lambda: version.rpartition(".")[2] in kept.read_text(), f"{victim.identity} keeps {version}")


def _sound_other(stage: Stage, victim: BrokerProcess) -> BrokerProcess:
    """Who is asked for a change: not the broker with the bad disk, and one that serves."""
    return next(broker for broker in stage.others(victim.identity) if broker.own()["state"] == "active")


def _await_disk_alarm(stage: Stage, victim: BrokerProcess) -> float:
    before = len(victim.alarms("config_not_kept"))
    began_s = time.monotonic()
    stage.change_config(_sound_other(stage, victim))
    noticed_s = look_until(
        lambda: len(victim.alarms("config_not_kept")) > before, f"{victim.identity} says that it cannot write"
    )
    stage.books.await_replies(stage.clients)
    return noticed_s - began_s


def _writer(stage: Stage, random: Random) -> BrokerProcess:
    """Whose disk is to fail: any broker; of a pair, who stands by, for the other one makes the change."""
    return passive_of(stage) if stage.topology.is_pair else random.choice(stage.brokers)


@fault("full-disk")
def full_disk(stage: Stage, random: Random) -> float:
    """A broker's disk is full: it takes a change of the config, says that it cannot keep it, and serves on."""
    victim = _writer(stage, random)
    disk = stage.disks[victim.identity]
    with _kept_again(stage, victim):
        disk.fill(victim.process.pid)
        try:
            return _await_disk_alarm(stage, victim)
        finally:
            disk.empty(victim.process.pid)


@fault("read-only-disk", needs_own_disk=True)
def read_only_disk(stage: Stage, random: Random) -> float:
    """The same with a disk that has become read-only."""
    victim = _writer(stage, random)
    disk = stage.disks[victim.identity]
    with _kept_again(stage, victim):
        disk.forbid_writing()
        try:
            return _await_disk_alarm(stage, victim)
        finally:
            disk.allow_writing()
