"""Which brokers a client or worker knows, and which of them it has tried in this round (rules 26 and 27).

They are tried in this order: the preferred one; those that were given, or that a broker named in CHANGEBROKER; those of
the config, the own group's before the fallback groups'; and last what an earlier process of this kind had learned. A
new config replaces what the former one listed. The list is bounded, so that no broker can fill it.

Who is given a broker's public key speaks encrypted, and only so: an address whose key nobody has told is not learned. A
broker whose key is being rotated has two for a while, and they are tried in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from scale0.errors import ProtocolError, SettingsError
from scale0.protocol import documents, limits
from scale0.protocol.messages import ChangeBroker, Error
from scale0.protocol.network import GroupBroker, Part

KNOWN_MAX: Final = 64  # endpoints; one more is not learned
ENDPOINT_BYTES_MAX: Final = 512  # a longer one is not learned: NEEDBROKER names all that are known, in one header


class Endpoints:
    """Known endpoints, the preferred one first, and the reasons why some were of no use in this round."""

    def __init__(self, endpoints: Iterable[str], public_keys: dict[str, str], remembered: Iterable[str] = ()) -> None:
        self.tried: dict[str, str] = {}  # endpoint → what went wrong there, in this round
        self._told = list(dict.fromkeys(endpoints))  # given, or named by a broker
        self._given = frozenset(self._told)
        self._listed: dict[str, GroupBroker] = {}  # by the config
        self._remembered = list(remembered) if not public_keys else []  # their keys were not kept
        self._public_keys = dict(public_keys)
        self._next_keys: dict[str, str] = {}  # by the config: the key that follows
        self._flipped: set[str] = set()  # endpoints where that one is tried first
        self._is_encrypted = bool(public_keys)
        self._identities: dict[str, str] = {}  # of those that are not listed
        self._put_in_order()

    @property
    def preferred(self) -> str:
        return self.known[0]

    @property
    def worth_keeping(self) -> list[str]:
        """What the next process could know neither from its user nor from the config."""
        return [endpoint for endpoint in self._told if endpoint not in self._given]

    def public_key(self, endpoint: str) -> str:
        """The key that the broker there must have."""
        if endpoint in self._flipped:
            return self._next_keys.get(endpoint, "") or self._public_keys.get(endpoint, "")
        return self._public_keys.get(endpoint, "")

    def flip_key(self, endpoint: str) -> bool:
        """Try the other key that the broker there may have. False: there is no other."""
        if not self._next_keys.get(endpoint):
            return False
        self._flipped ^= {endpoint}
        return True

    def identity_of(self, endpoint: str) -> str:
        """The identity of the broker there, as far as anybody has told it."""
        listed = self._listed.get(endpoint)
        return listed.identity if listed is not None else self._identities.get(endpoint, "")

    def partners_of(self, endpoint: str) -> list[str]:
        """Where the other one of its pair is reached, as the config tells it; empty if it has no partner."""
        identity = self.identity_of(endpoint)
        partner = next((b.partner for b in self._listed.values() if b.identity == identity and b.partner), None)
        return [other for other, broker in self._listed.items() if broker.identity == partner]

    def identify(self, endpoint: str, identity: str) -> None:
        """Remember who is there, unless the config says it."""
        if identity and endpoint in self.known:
            self._identities[endpoint] = identity

    def prefer(self, endpoint: str) -> None:
        """Put `endpoint` first; it is tried first from now on."""
        if endpoint in self._told:
            self._told.remove(endpoint)
        self._told.insert(0, endpoint)
        for forgotten in self._told[KNOWN_MAX:]:
            self._identities.pop(forgotten, None)
            self._public_keys.pop(forgotten, None)
        del self._told[KNOWN_MAX:]
        self._put_in_order()

    def learn(self, endpoints: Iterable[str], public_key: str = "", identity: str = "") -> None:
        """Remember endpoints of one broker that another one named. A changed key is accepted through config only."""
        for endpoint in endpoints:
            if not _is_fit(endpoint) or not self._may_use(endpoint, public_key):
                continue
            if endpoint not in self.known:
                if len(self.known) >= KNOWN_MAX:
                    return
                self._told.append(endpoint)
                self._put_in_order()
            if public_key:
                self._public_keys.setdefault(endpoint, public_key)
            self.identify(endpoint, identity)

    def learn_config(self, config_type: str, config: bytes, *, is_saved: bool = False) -> Part | None:
        """Learn the brokers that the config's groups list; a document that cannot be read teaches nothing.

        What an earlier process has saved may be old: where a key was given, that one stays the first.
        """
        try:
            part = documents.decode(config, documents.config_type(config_type), Part)
        except (SettingsError, ProtocolError):
            return None
        brokers = (broker for group in part.group_config for broker in group.brokers)
        listed = ((endpoint, broker) for broker in brokers for endpoint in broker.endpoints if _is_fit(endpoint))
        self._listed = {}
        for endpoint, broker in islice(listed, KNOWN_MAX):
            if not self._may_use(endpoint, broker.public_key):
                continue
            self._listed.setdefault(endpoint, broker)
            if broker.public_key:
                self._learn_keys(endpoint, broker, is_saved=is_saved)
        self._put_in_order()
        return part

    def next_untried(self) -> str | None:
        return next((endpoint for endpoint in self.known if endpoint not in self.tried), None)

    def _may_use(self, endpoint: str, public_key: str) -> bool:
        return not self._is_encrypted or bool(public_key or self._public_keys.get(endpoint))

    def _learn_keys(self, endpoint: str, broker: GroupBroker, *, is_saved: bool) -> None:
        """A changed key is accepted through config: one that has followed is the first from now on."""
        first = self._public_keys.get(endpoint, "") if is_saved else ""
        keys = [key for key in (first, broker.public_key, broker.next_public_key) if key]
        if self._public_keys.get(endpoint) != keys[0]:
            self._flipped.discard(endpoint)
        self._public_keys[endpoint] = keys[0]
        other = next((key for key in keys if key != keys[0]), "")
        if other:
            self._next_keys[endpoint] = other
        else:
            self._next_keys.pop(endpoint, None)
            self._flipped.discard(endpoint)

    def _put_in_order(self) -> None:
        ordered = dict.fromkeys((*self._told, *self._listed, *self._remembered))
        self.known: list[str] = list(islice(ordered, KNOWN_MAX))
        for table in (self._public_keys, self._next_keys, self._identities):
            for endpoint in [one for one in table if one not in ordered]:
                del table[endpoint]
        self._flipped &= self._next_keys.keys()


def _is_fit(endpoint: str) -> bool:
    return len(endpoint.encode(errors="replace")) <= ENDPOINT_BYTES_MAX


def fit_identity(identity: str) -> str:
    """`identity` as a message may name it; one that is too long for any is nobody's."""
    return identity if len(identity.encode(errors="replace")) <= limits.IDENTITY_BYTES_MAX else ""


def named_in(error: Error) -> ChangeBroker:
    """The broker that an ERROR's `detail` names, if it names one; what is not of its type is not there."""
    listed = error.detail.get("endpoints")
    identity, public_key = error.detail.get("identity"), error.detail.get("public_key")
    return ChangeBroker(
        identity=identity if isinstance(identity, str) else "",
        endpoints=[one for one in listed if isinstance(one, str)] if isinstance(listed, list) else [],
        public_key=public_key if isinstance(public_key, str) else "",
        reason=f"{error.code} {error.text}",
    )
