"""How often one source may fail to prove who it is, before anything expensive is done for it.

Each source has a small store of attempts that fills up slowly. An attempt is taken before the password is looked at and
given back if it was right: so many attempts at once are stopped like many in a row, and whoever knows his password is
never slowed down. IPv6 sources count by their network of 64 bits, for one host has all of its addresses.
"""

from __future__ import annotations

import ipaddress
import math
from typing import Final

import msgspec

from scale0.management.http.shapes import Refused

BURST: Final = 10
REFILL_S: Final = 6.0  # until one more attempt is there
SOURCES_MAX: Final = 10_000


class Store(msgspec.Struct):
    left: float
    at_s: float


class Attempts:
    def __init__(self, burst: int = BURST, refill_s: float = REFILL_S) -> None:
        self._burst, self._refill_s = burst, refill_s
        self._stores: dict[str, Store] = {}

    def take(self, source: str, now: float) -> None:
        """One attempt is made. Raises a refusal with 429 and when to come again, if none is left."""
        store = self._store(source, now)
        if store.left < 1:
            wait_s = math.ceil((1 - store.left) * self._refill_s)
            text = f"too many failed logins from {source or 'this source'}"
            raise Refused(429, text, f"try again in {wait_s} s", {"Retry-After": str(wait_s)})
        store.left -= 1

    def give_back(self, source: str, now: float) -> None:
        """It was right."""
        store = self._store(source, now)
        store.left = min(self._burst, store.left + 1)

    def _store(self, source: str, now: float) -> Store:
        name = network_of(source)
        store = self._stores.pop(name, None)
        if store is None:
            if len(self._stores) >= SOURCES_MAX:  # who was heard longest ago is forgotten
                del self._stores[next(iter(self._stores))]
            store = Store(self._burst, now)
        store.left = min(self._burst, store.left + (now - store.at_s) / self._refill_s)
        store.at_s = now
        self._stores[name] = store
        return store


def network_of(source: str) -> str:
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
