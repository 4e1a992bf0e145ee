"""I6: a config version never goes back, and no change is lost without a word.

What counts is what others can know: the version that a broker names in any message, over all its lives, and the version
that a participant names within one. Each version that a broker keeps has the one before it as its parent. So at the end
it can be told which changes led to the version that all agree on; any other that was current somewhere has lost, and
stays in that broker's history as lost, with an alarm (rule 21).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scale0.core.effects import Alarm
from scale0.protocol.codec import AnyMessage
from scale0.protocol.messages import (
    NO_VERSION,
    Config,
    ConfigAck,
    ConfigVersion,
    Connect,
    PeerStatus,
    Pong,
    Task,
)
from scale0.protocol.network import ConfigRecord

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.process import SessionProcess
    from scale0.simulator.world import World

NAMES_A_VERSION = frozenset((Config, ConfigAck, Connect, PeerStatus, Pong, Task))


class VersionChecks:
    """The versions of the config, over all brokers and participants of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.newest_s = 0.0  # when the newest version came into the world
        self._parents: dict[bytes, dict[bytes, None]] = {}  # two brokers may make the same document from different ones
        self._made: set[tuple[bytes, str, int]] = set()
        self._said: dict[str, bytes] = {}  # by broker, over all its lives
        self._kept: dict[str, list[bytes]] = {}  # by broker: versions that were current and persisted, in order
        self._held: dict[SessionProcess, bytes] = {}
        self._alarms: list[str] = []  # what they said, at any broker: one may crash before it can say it

    # --- brokers --------------------------------------------------------------------------------------------------

    def started(self, host: BrokerHost) -> None:
        """What it begins with: the version that it kept, or one of its own."""
        version = host.broker.state.config.packed_version
        kept = self._kept.get(host.name)
        if kept and version < kept[-1]:
            self._fail(host, f"kept {_show(kept[-1])} and started with {_show(version)}")
        if any(version):
            self._is_new(host, host.broker.state.config.record)

    def kept(self, host: BrokerHost) -> None:
        """KEEPCONFIG was carried out."""
        version = host.records[-1].version
        kept = self._kept.setdefault(host.name, [])
        if kept and version < kept[-1]:
            self._fail(host, f"kept {_show(version)} after {_show(kept[-1])}")
        if self._is_new(host, host.records[-1]):
            self.newest_s = host.now
            self.world.count("config", "changes")
            self.world.trace.event(host.now, host.name, f"makes config {_show(version)}")
        if not kept or kept[-1] != version:
            kept.append(version)
            self.world.trace.event(host.now, host.name, f"keeps config {_show(version)}")

    def told(self, host: BrokerHost, message: AnyMessage) -> None:
        """A message leaves the broker."""
        if type(message) in NAMES_A_VERSION:
            self.said(host, message.config_version)  # type: ignore[union-attr]

    def said(self, host: BrokerHost, version: bytes) -> None:
        before = self._said.get(host.name, NO_VERSION)
        if version < before and any(version):
            self._fail(host, f"named version {_show(version)} after {_show(before)}")
        if version > before:
            self._said[host.name] = version

    def alarmed(self, alarm: Alarm) -> None:
        if alarm.name == "config_lost":
            self._alarms.append(alarm.text)

    # --- participants ---------------------------------------------------------------------------------------------

    def heard(self, process: SessionProcess) -> None:
        """Something came to a participant; what it holds must not be older than before."""
        version = process.session.link.config_version
        before = self._held.get(process, NO_VERSION)
        if version < before:
            text = f"went back from {_show(before)} to {_show(version)}"
            self.world.violation("I6", f"{process.label} {text}")
        self._held[process] = version

    # --- at the end -----------------------------------------------------------------------------------------------

    def losers_are_remembered(self) -> None:
        """All brokers agree by now: what was current somewhere led to it, or is in that broker's history as lost."""
        for host in self.world.hosts:
            config = host.broker.state.config
            line = self._ancestors(config.packed_version)
            lost = {record.version for record in config.history if record.state == "lost"}
            known = {record.version for record in config.history}
            losers = [version for version in self._kept.get(host.name, ()) if version not in line]
            for version in losers:
                self.world.count("config", "lost changes")
                if version not in lost:
                    where = "as past" if version in known else "not at all"
                    self._fail(host, f"lost {_show(version)}; its history has it {where}")
            if losers and not any(_show(version) in text for version in losers for text in self._alarms):
                self._fail(host, f"lost {_show(losers[-1])} without an alarm")

    def _ancestors(self, version: bytes) -> set[bytes]:
        line: set[bytes] = set()
        ahead = [version]
        while ahead:
            version = ahead.pop()
            if version not in line:
                line.add(version)
                ahead.extend(self._parents.get(version, ()))
        return line

    def _is_new(self, host: BrokerHost, record: ConfigRecord) -> bool:
        """Whether it was made here, just now; then what was current here before is its parent."""
        made = (record.version, record.author, record.time_us)
        if made in self._made:
            return False
        self._made.add(made)
        kept = self._kept.get(host.name)
        before = kept[-1] if kept else host.records[-2].version if len(host.records) > 1 else NO_VERSION
        self._parents.setdefault(record.version, {})[before] = None
        return True

    def _fail(self, host: BrokerHost, text: str) -> None:
        self.world.violation("I6", f"{host.name}: {text}")


def _show(version: bytes) -> str:
    return str(ConfigVersion.unpack(version))
