"""Where the brokers are, as people write it: one address, several, a list, or none at all.

Without any, the environment's `SCALE0_BROKER` is taken, where commas part several, and then the usual local one; so the
same program runs on a laptop and in a network. What is not an address is refused before anything is connected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

from scale0.errors import UsageError

DEFAULT_ADDRESS: Final = "tcp://127.0.0.1:5555"
ADDRESS_VARIABLE: Final = "SCALE0_BROKER"

_ADDRESS: Final = re.compile(r"tcp://[^\s/]+:\d{1,5}|ipc://\S+")


def read_addresses(addresses: Iterable[str | Iterable[str]]) -> list[str]:
    """The brokers' addresses, the preferred one first."""
    found: list[str] = []
    for address in addresses:
        found += list(address) if isinstance(address, Iterable) and not isinstance(address, str) else [address]
    if not found:
        told = os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        found = [address.strip() for address in told.split(",")]
    for address in found:
        if not (isinstance(address, str) and _ADDRESS.fullmatch(address)):
            raise UsageError(f"{address!r} is not an address such as {DEFAULT_ADDRESS}")
    return found
