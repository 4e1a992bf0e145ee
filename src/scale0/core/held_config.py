"""The config that a client or worker holds: where it came from, and when a newer one is fetched (rules 23 and 24).

A CONFIG brings it, in answer to CONNECT or pushed; a CONFIGACK says that the part of this participant is the same in a
newer version. A version never goes back: a broker that is behind teaches nothing. What an earlier process has saved is
a hint only, and whatever the first broker says replaces it.

A broker's PONG names the version that is current there. If it is newer than ours its push is under way, and after two
intervals it is missing: then one CONNECT on the same link fetches it. Once a version: if that fails, the broker's own
426 follows.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from scale0.core.endpoints import Endpoints
from scale0.protocol.messages import NO_VERSION, Config, ConfigAck

PUSH_INTERVALS: Final = 2.0  # a push that has not come by then is fetched


class SavedConfig(msgspec.Struct, frozen=True):
    """What outlives a process by choice, and makes the start of the next one easier."""

    config_type: str = "JSON"
    config_version: bytes = NO_VERSION
    config: bytes = b""
    endpoints: list[str] = []  # known brokers that neither the user gave nor the config lists


class HeldConfig:
    """The newest config that this participant knows."""

    def __init__(self, saved: SavedConfig, endpoints: Endpoints) -> None:
        self.fetch_at_s = math.inf  # when a version that was heard of is fetched
        self._endpoints = endpoints
        self._heard = NO_VERSION  # the newest that a broker named on this link
        self._type = saved.config_type
        self.data = saved.config
        self._part = endpoints.learn_config(saved.config_type, saved.config, is_saved=True) if saved.config else None
        self.is_damaged = self._part is None and bool(saved.config)
        # What cannot be read must not be named: the broker would say that there is nothing to send.
        self.version = saved.config_version if self._part is not None else NO_VERSION
        self._is_saved = True

    @property
    def preferred_broker(self) -> str:
        """The identity of the broker that this config names for us."""
        return self._part.preferred_broker if self._part is not None else ""

    def take(self, message: Config | ConfigAck) -> bool:
        """The broker's answer to CONNECT, or a push. True: it is another version than the one before."""
        version = message.config_version
        if version < self.version and not self._is_saved:
            return False
        is_other = version != self.version
        if isinstance(message, Config):
            self._type, self.data = message.config_type, message.config
            self._part = self._endpoints.learn_config(message.config_type, message.config)
        self.version = version
        self._is_saved = False
        if version >= self._heard:
            self.fetch_at_s = math.inf
        return is_other

    def hear(self, version: bytes, now: float, interval_s: float) -> None:
        """A broker holds this version."""
        if version > self.version and version > self._heard:
            self._heard = version
            self.fetch_at_s = min(self.fetch_at_s, now + PUSH_INTERVALS * interval_s)

    def must_fetch(self, now: float) -> bool:
        """Whether a version that was heard of is to be asked for now; True once a version."""
        if now < self.fetch_at_s:
            return False
        self.fetch_at_s = math.inf
        return True

    def leave(self) -> None:
        """The link is over; the next CONNECT names our version, and is answered with the newest."""
        self._heard = NO_VERSION
        self.fetch_at_s = math.inf

    def to_save(self) -> SavedConfig:
        """What the next process should know. A config that cannot be read is not worth keeping."""
        endpoints = self._endpoints.worth_keeping
        if self._part is None:
            return SavedConfig(endpoints=endpoints)
        return SavedConfig(self._type, self.version, self.data, endpoints)
