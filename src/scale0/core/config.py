"""The config that participants get: one versioned document, each with the part that it needs.

A version is (epoch, number, content hash), totally ordered. A CONNECT that names the current version gets CONFIGACK,
any other gets the document. A change is pushed to the sessions that are there, paced; who still names an older version
two intervals later is told 426 once, and connects again (rule 24).
"""

from __future__ import annotations

import hashlib

import msgspec

from scale0.core.sessions import Session
from scale0.core.settings import BrokerSettings
from scale0.protocol.dialects import Role
from scale0.protocol.messages import Config, ConfigAck, ConfigVersion

CONFIG_TYPES = ("JSON",)
PUSHES_PER_TICK = 500


class ConfigKeeper:
    """The current settings as a document, and its version."""

    def __init__(self, settings: BrokerSettings, epoch: int) -> None:
        self._epoch = epoch
        self._number = 0
        self.settings = settings
        self.version = ConfigVersion()
        self.packed_version = self.version.pack()
        self.to_push: dict[str, None] = {}  # identities that have not been sent the newest version
        self.replace(settings)

    def replace(self, settings: BrokerSettings) -> bool:
        """Take new settings; False if nothing in them differs."""
        digest = hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).digest()[:8]
        if self._number and digest == self.version.hash:
            return False
        self.settings = settings
        self._number += 1
        self.version = ConfigVersion(self._epoch, self._number, digest)
        self.packed_version = self.version.pack()
        return True

    def answer(self, session: Session, named_version: bytes) -> Config | ConfigAck:
        """What CONNECT gets."""
        interval_ms = round(session.interval_s * 1000)
        if named_version == self.packed_version:
            return ConfigAck(
                config_version=self.packed_version,
                epoch=self._epoch,
                heartbeat_interval_ms=interval_ms,
                liveness=self.settings.liveness,
            )
        return Config(
            config_type="JSON",
            config_version=self.packed_version,
            config=self.document(session),
            epoch=self._epoch,
            heartbeat_interval_ms=interval_ms,
            liveness=self.settings.liveness,
        )

    def document(self, session: Session) -> bytes:
        """The participant's part: identity, services, group_config, preferred_broker."""
        settings = self.settings
        broker = {
            "identity": settings.identity,
            "services": "all" if settings.services is None else settings.services,
            "endpoints": settings.advertise,
        }
        return msgspec.json.encode(
            {
                "identity": session.identity,
                "services": session.services if session.role is Role.WORKER else [],
                "preferred_broker": settings.identity,
                "group_config": [{"name": settings.group, "brokers": [broker]}],
                "default_heartbeat_interval": settings.default_heartbeat_interval_s,
                "liveness": settings.liveness,
            }
        )
