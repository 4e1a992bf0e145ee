"""The config that this broker holds: one versioned document, its history, and the part that each participant gets.

A version is (epoch, number, content hash), totally ordered. A CONNECT that names the current version, or one whose part
for the sender is the same, gets CONFIGACK; any other gets its part, in the format that it asked for (rule 24). How the
document changes is the business of `config_service`.
"""

from __future__ import annotations

import hashlib

import msgspec

from scale0.core.sessions import Session
from scale0.core.settings import BrokerSettings, document_for
from scale0.errors import SettingsError
from scale0.protocol import documents
from scale0.protocol.codes import Code
from scale0.protocol.dialects import Role
from scale0.protocol.messages import Config, ConfigAck, ConfigVersion, Error
from scale0.protocol.network import BrokerEntry, ConfigRecord, Document, GroupBroker, GroupConfig, Part
from scale0.protocol.network_addresses import publishes_at, reached_at

NOBODY = BrokerEntry(identity="")


class ConfigKeeper:
    """The current document, and those before it."""

    def __init__(
        self,
        settings: BrokerSettings,
        broker_epoch: int,
        time_us: int,
        records: list[ConfigRecord],
        document: Document | None,
    ) -> None:
        self.identity = settings.identity
        self.broker_epoch = broker_epoch
        self.pair = ""  # the primary of our pair, if we are of one
        self.history: list[ConfigRecord] = []  # oldest first; the current one is not in it, those that lost are
        self.to_push: dict[str, None] = {}  # identities that have not been sent the newest version
        self.push_at_s = 0.0
        self.push_lot = 1  # how many leave together
        self._digests: dict[bytes, bytes] = {}  # version → what participants' parts were made of
        self._groups: list[GroupConfig] = []
        self.version = ConfigVersion(1, 0)
        if records:
            self.history = records[:-1]
            self.take(records[-1], documents.decode(records[-1].document, "JSON", Document))
        # A broker that is alone starts by its file; where there are others, what the network agreed on holds.
        if not records or (document is not None and len(self.document.brokers) <= 1):
            self._begin(settings, document, time_us)

    def _begin(self, settings: BrokerSettings, document: Document | None, time_us: int) -> None:
        """A document of our own: the one that was given, with us in it."""
        own = document_for(settings)
        if document is None:
            document = own
        elif document.broker(settings.identity) is None:
            document = msgspec.structs.replace(document, brokers=[*document.brokers, *own.brokers])
        if content_hash(documents.canonical(document)) != self.version.hash:
            record = self.make(document, self.version, settings.identity, "as it was started", time_us)
            if self.version.number:
                self.history.append(self.record)
            self.take(record, document)

    def make(
        self, document: Document, after: ConfigVersion, author: str, comment: str, time_us: int, epochs: int = 0
    ) -> ConfigRecord:
        """The record of the version that follows `after`, or opens `epochs` more."""
        text = documents.canonical(document)
        number = 1 if epochs else after.number + 1
        version = ConfigVersion(after.epoch + epochs, number, content_hash(text))
        return ConfigRecord(version=version.pack(), document=text, author=author, comment=comment, time_us=time_us)

    def forget(self) -> None:
        """A broker that joins has no config of its own: any that it gets is newer."""
        self.history = []
        self.version = ConfigVersion()
        self.packed_version = self.version.pack()

    def take(self, record: ConfigRecord, document: Document) -> None:
        """This one is current from now on."""
        self.record = record
        self.document = document
        self.version = ConfigVersion.unpack(record.version)
        self.packed_version = record.version
        self.entry = document.broker(self.identity) or NOBODY
        self._groups = [_group(document, name) for name in (self.entry.group, *document.fallback_groups(self.entry))]
        shared = msgspec.json.encode([self._groups, document.default_heartbeat_interval_s, document.liveness])
        self._digests[record.version] = content_hash(shared)
        while len(self._digests) > document.limits.config_history:
            del self._digests[next(iter(self._digests))]

    def remember(self, records: list[ConfigRecord]) -> None:
        """Add to the history, in the order of versions, within its limit."""
        known = {
            record.version: record for record in (*self.history, *records) if record.version != self.packed_version
        }
        ordered = sorted(known.values(), key=lambda record: record.version)
        self.history = ordered[-self.document.limits.config_history :]

    def records(self) -> list[ConfigRecord]:
        """All that is known, the current one last."""
        return [*self.history, self.record]

    # --- what participants get ------------------------------------------------------------------------------------

    def answer(self, session: Session, named_version: bytes) -> Config | ConfigAck | Error:
        """What CONNECT gets, and what a push brings: nothing but the version, if the sender's part is unchanged."""
        interval_ms = round(session.interval_s * 1000)
        liveness, epoch = self.document.liveness, self.broker_epoch
        if self._digests.get(named_version) == self._digests.get(self.packed_version, b""):
            return ConfigAck(
                config_version=self.packed_version,
                epoch=epoch,
                pair=self.pair,
                heartbeat_interval_ms=interval_ms,
                liveness=liveness,
                bundles=session.takes_bundles,
            )
        try:
            part = self._encoded(session)
        except SettingsError as error:  # ZPL has no escapes: there are names that it cannot say
            text = f"{session.config_type} cannot carry this config: {error}; ask for JSON"
            return Error(code=Code.UNEXPECTED, text=text)
        return Config(
            config_type=session.config_type,
            config_version=self.packed_version,
            config=part,
            epoch=epoch,
            pair=self.pair,
            heartbeat_interval_ms=interval_ms,
            liveness=liveness,
            bundles=session.takes_bundles,
        )

    def _encoded(self, session: Session) -> bytes:
        part = self.part(session)
        if session.config_type == "JSON":  # nearly always, and ten times as fast
            return msgspec.json.encode(part)
        return documents.encode(part, session.config_type)

    def part(self, session: Session) -> Part:
        """The participant's part: identity, services, group_config, preferred_broker."""
        return Part(
            identity=session.identity,
            services=session.services if session.role is Role.WORKER else [],
            preferred_broker=self.identity,
            group_config=self._groups,
            default_heartbeat_interval_s=self.document.default_heartbeat_interval_s,
            liveness=self.document.liveness,
        )


def content_hash(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()[:8]


def _group(document: Document, name: str) -> GroupConfig:
    brokers = [
        GroupBroker(
            identity=entry.identity,
            services=entry.services,
            endpoints=reached_at(entry),
            config_pub=publishes_at(entry),
            public_key=entry.public_key,
            next_public_key=entry.next_public_key,
            partner=next((name for name in document.pair_of(entry.identity) or () if name != entry.identity), ""),
        )
        for entry in document.group_of(name)
    ]
    return GroupConfig(name=name, brokers=brokers)
