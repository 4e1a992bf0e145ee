"""Where the brokers are, as people write it: one address, several, a list, or none at all.

Without any, the environment's `SCALE0_BROKER` is taken, where commas part several, and then the usual local one; so the
same program runs on a laptop and in a network. What is not an address is refused before anything is connected.

And where a broker itself is, as it tells others: what it bound, if that names a particular machine, else the host by
which it is advertised.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Sequence
from typing import Final

from scale0.errors import UsageError
from scale0.protocol.limits import IDENTITY_BYTES_MAX

DEFAULT_ADDRESS: Final = "tcp://127.0.0.1:5555"
ADDRESS_VARIABLE: Final = "SCALE0_BROKER"
PORT_MAX: Final = 65_535
REFUSAL_S: Final = 0.02  # a refusal comes at once, or is not waited for

_ADDRESS: Final = re.compile(r"tcp://[^\s/]+:\d{1,5}|ipc://\S+")
_PARTS: Final = re.compile(r"tcp://(?P<host>[^\s/]+):(?P<port>\d+)")
_EVERY_HOST: Final = ("tcp://0.0.0.0:", "tcp://[::]:")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")


def read_addresses(addresses: Iterable[str | Iterable[str]]) -> list[str]:
    """The brokers' addresses, the preferred one first."""
    found: list[str] = []
    for address in addresses:
        found += list(address) if isinstance(address, Iterable) and not isinstance(address, str) else [address]
    if not found:
        told = os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS
        found = [address.strip() for address in told.split(",")]
    for address in found:
        if not (isinstance(address, str) and _ADDRESS.fullmatch(address) and port_of(address) <= PORT_MAX):
            several = "; several are a list" if isinstance(address, str) and "," in address else ""
            raise UsageError(f"{address!r} is not an address such as {DEFAULT_ADDRESS}{several}")
    return found


def port_of(address: str) -> int:
    """The port's number in an address, whether there is such a port or not; 0 if it names none."""
    found = _PARTS.fullmatch(address)
    return int(found["port"]) if found is not None else 0


def told_address(bound: str, advertised: Sequence[str] = ()) -> str:
    """Where others reach what this process bound at `bound`; empty if nobody could know."""
    if not bound.startswith(_EVERY_HOST):
        return bound
    hosts = [address.rpartition(":")[0] for address in advertised if address.startswith("tcp://")]
    return f"{hosts[0]}:{bound.rpartition(':')[2]}" if hosts else ""


def is_loopback(endpoint: str) -> bool:
    """Whether only this machine can speak there. A name other than `localhost` may lead anywhere."""
    if endpoint.startswith(("ipc://", "inproc://")):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def this_process() -> str:
    """Where this process is found: its machine's name and its number there, as `host:number`."""
    number = str(os.getpid())
    return f"{_UNFIT.sub('-', socket.gethostname())[: IDENTITY_BYTES_MAX - len(number) - 1]}:{number}"


def default_identity(endpoint: str, host: str) -> str:
    """The name of a broker that was given none: its machine's, and its port's number or its file's name."""
    place = _UNFIT.sub("-", re.split("[:/]", endpoint)[-1])[-IDENTITY_BYTES_MAX // 2 :]
    return f"{_UNFIT.sub('-', host)[: IDENTITY_BYTES_MAX - len(place) - 1]}-{place}"


def is_refused(endpoint: str) -> bool:
    """Whether the machine there says that nobody listens on that port. One that says nothing has not said so."""
    found = _PARTS.fullmatch(endpoint)
    if found is None:
        return False
    try:
        with socket.create_connection((found["host"].strip("[]"), int(found["port"])), REFUSAL_S):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
