"""Changes of the network's document, as operators make them: small, sometimes wrong, sometimes at two brokers at once.

Each is made from the document that one broker holds, applied there, and its result noted. Rule 22: a document that does
not validate changes nothing, and the refusal says why.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from scale0.core.askers import Later
from scale0.errors import ProtocolError
from scale0.protocol import documents
from scale0.protocol.codes import Code
from scale0.protocol.network import BrokerEntry, Document, ServiceEntry
from scale0.simulator.shapes import BrokerShape

if TYPE_CHECKING:
    from scale0.simulator.host import BrokerHost
    from scale0.simulator.world import World

NOTE = "note"  # a service that nobody offers: its timeout tells one version from another


class Changes:
    """What operators do to the config of one world."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self._random = random
        self._made = 0

    def make(self, host: BrokerHost, *, is_forced: bool = False, is_based: bool = True) -> None:
        """A small change of what this broker holds now; `is_based`: it is refused if that has changed meanwhile."""
        if self._can_be_asked(host):
            state = host.broker.state
            base = str(state.config.version) if is_based else None
            self._apply(host, self._changed(state.config.document), {"force": is_forced, "base": base})

    def enter(self, host: BrokerHost, newcomer: BrokerShape) -> None:
        """The operator lists a broker that is to join."""
        if self._can_be_asked(host):
            document = host.broker.state.config.document
            if document.broker(newcomer.name) is None:
                brokers = [*document.brokers, newcomer.entry([])]
                self._apply(host, msgspec.structs.replace(document, brokers=brokers), {})

    def spoil(self, host: BrokerHost) -> None:
        """A document that does not validate."""
        if not self._can_be_asked(host):
            return
        before = host.broker.state.config.packed_version
        result = self._apply(host, self._spoiled(host.broker.state.config.document), {})
        if not isinstance(result, ProtocolError) or result.code != Code.MALFORMED:
            self.world.violation("rule 22", f"{host.name} took a document that does not validate: {result}")
        if host.broker.state.config.packed_version != before:
            self.world.violation("rule 22", f"{host.name} refused a document, and changed its config")

    def roll_back(self, host: BrokerHost) -> None:
        if self._can_be_asked(host) and host.broker.state.config.history:
            record = self._random.choice(host.broker.state.config.history)
            document = documents.decode(record.document, "JSON", Document)
            if {entry.identity for entry in document.brokers} == self._listed(host):  # nobody is thrown out by it
                version = f"{int.from_bytes(record.version[:4], 'big')}.{int.from_bytes(record.version[4:8], 'big')}"
                self._count(host.manage("config_rollback", {"version": version, "author": self._author()}))

    def switch(self, host: BrokerHost) -> None:
        """The document disables a broker, or enables it again."""
        if self._can_be_asked(host):
            document = host.broker.state.config.document
            chosen = self._random.choice(document.brokers)
            other = msgspec.structs.replace(chosen, state="active" if chosen.state == "disabled" else "disabled")
            brokers = [other if entry is chosen else entry for entry in document.brokers]
            self._apply(host, msgspec.structs.replace(document, brokers=brokers), {})

    def forget(self, host: BrokerHost) -> None:
        """A broker that has joined is taken out; as long as it lives it asks to be entered again."""
        joined = [other for other in self.world.hosts if other.seeds and other is not host]
        if self._can_be_asked(host) and joined:
            self._count(host.manage("forget_broker", {"broker": self._random.choice(joined).name}))

    def pair(self, host: BrokerHost) -> None:
        """A pair is dissolved; or one that was so is made again."""
        if not self._can_be_asked(host) or self.world.shape is None:
            return
        document = host.broker.state.config.document
        for primary, fallback in self.world.shape.pairs[:1]:
            entry, standby = document.broker(primary), document.broker(fallback)
            if entry is not None and standby is not None:
                other = msgspec.structs.replace(entry, fallback_broker="" if entry.fallback_broker else fallback)
                brokers = [other if one is entry else one for one in document.brokers]
                self._apply(host, msgspec.structs.replace(document, brokers=brokers), {})

    def read_again(self, host: BrokerHost) -> None:
        """The operator changed the file that the broker was started with, and has it read again."""
        if self._can_be_asked(host) and host.document is not None:
            host.document = self._changed(host.document)
            self._count(host.configure(host.document))

    # --- details --------------------------------------------------------------------------------------------------

    def _can_be_asked(self, host: BrokerHost) -> bool:
        return host.is_running and not host.is_paused and host.broker.state.config.version.number > 0

    def _listed(self, host: BrokerHost) -> set[str]:
        return {entry.identity for entry in host.broker.state.config.document.brokers}

    def _apply(self, host: BrokerHost, document: Document, more: dict[str, Any]) -> Any:
        arguments = {"document": documents.canonical(document), "author": self._author(), **more}
        result = host.manage("config_apply", arguments)
        self._count(result)
        return result

    def _author(self) -> str:
        self._made += 1
        return f"operator{self._made}"

    def _count(self, result: Any) -> None:
        if isinstance(result, ProtocolError):
            self.world.trace.event(self.world.schedule.now, "operator", f"is refused: {result.code} {result.text}")
            self.world.count("config", f"refused with {int(result.code)}")
        else:
            self.world.count("config", "passed on" if isinstance(result, Later) else "applied")

    def _changed(self, document: Document) -> Document:
        chance = self._random.random()
        if chance < 0.2:
            return msgspec.structs.replace(document, fallback_after_s=self._random.choice((0.1, 0.3, 0.6, 1.2)))
        if chance < 0.3:
            return msgspec.structs.replace(document, failback=self._random.choice(("manual", "automatic")))
        others = [service for service in document.service if service.name != NOTE]
        note = ServiceEntry(name=NOTE, timeout_s=float(1 + self._made + self._random.randint(0, 3)))
        return msgspec.structs.replace(document, service=[*others, note])

    def _spoiled(self, document: Document) -> Document:
        first = document.brokers[0]
        wrong: dict[str, Any] = self._random.choice(
            (
                {"config_brokers": ["nobody"]},
                {"brokers": [*document.brokers, first]},
                {"brokers": [*document.brokers, BrokerEntry(identity="stray", fallback_groups=["nowhere"])]},
                {"brokers": [*document.brokers, BrokerEntry(identity="stray", endpoints=["over there"])]},
                {"liveness": 0},
                {"service": [ServiceEntry(name="scale0.mine")]},
            )
        )
        return msgspec.structs.replace(document, **wrong)
