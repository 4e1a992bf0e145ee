"""Which brokers a client or worker knows, and which of them it has tried in this round (rules 26 and 27).

The first endpoint is the preferred one. A round tries each known endpoint at most once; what a broker names in
CHANGEBROKER, and what the config names, is known from then on. The list is bounded, so that no broker can fill it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

KNOWN_MAX: Final = 64  # endpoints; one more is not learned


class Endpoints:
    """Known endpoints, the preferred one first, and the reasons why some were of no use in this round."""

    def __init__(self, endpoints: Iterable[str], public_keys: dict[str, str]) -> None:
        self.known = list(dict.fromkeys(endpoints))
        self.tried: dict[str, str] = {}  # endpoint → what went wrong there, in this round
        self._public_keys = dict(public_keys)

    @property
    def preferred(self) -> str:
        return self.known[0]

    def public_key(self, endpoint: str) -> str:
        return self._public_keys.get(endpoint, "")

    def prefer(self, endpoint: str) -> None:
        """Put `endpoint` first; it is tried first from now on."""
        if endpoint in self.known:
            self.known.remove(endpoint)
        self.known.insert(0, endpoint)
        del self.known[KNOWN_MAX:]

    def learn(self, endpoints: Iterable[str], public_key: str = "") -> None:
        """Remember endpoints that a broker or the config named, after those that are known."""
        for endpoint in endpoints:
            if endpoint not in self.known:
                if len(self.known) >= KNOWN_MAX:
                    return
                self.known.append(endpoint)
            if public_key:
                self._public_keys[endpoint] = public_key

    def learn_config(self, config_type: str, config: bytes) -> None:
        """Learn the brokers that the config's groups list; a document that cannot be read teaches nothing."""
        if config_type != "JSON":
            return
        try:
            document = msgspec.json.decode(config)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(document, dict):
            for endpoints, public_key in _brokers(document.get("group_config")):
                self.learn(endpoints, public_key)

    def next_untried(self) -> str | None:
        return next((endpoint for endpoint in self.known if endpoint not in self.tried), None)


def named_in(broker: dict[str, Any]) -> tuple[list[str], str]:
    """Endpoints and public key in a map that describes one broker; what is not of its type is not there."""
    endpoints = broker.get("endpoints")
    public_key = broker.get("public_key")
    listed = endpoints if isinstance(endpoints, list) else []
    return [one for one in listed if isinstance(one, str)], public_key if isinstance(public_key, str) else ""


def _brokers(groups: Any) -> Iterator[tuple[list[str], str]]:
    """Endpoints and public key of each broker in a group, or in a list of groups."""
    for group in groups if isinstance(groups, list) else [groups]:
        brokers = group.get("brokers") if isinstance(group, dict) else None
        for broker in brokers if isinstance(brokers, list) else []:
            if isinstance(broker, dict):
                yield named_in(broker)
