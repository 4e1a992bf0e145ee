"""Where a broker of the document listens, and where the others reach it.

`bind` is an address, or a host for the ports that are given beside it; `advertise` is the host by which other machines
know it. Endpoints that are written out win over what follows from host and ports. A port that is not given means none
of its own: workers and peers then come to the frontend's.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scale0.protocol.network import BrokerEntry

TCP: Final = re.compile(r"tcp://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):(?P<port>[0-9]{1,5}|\*)")
_IPC: Final = re.compile(r"(ipc|inproc)://\S+")
LOCAL_HOST: Final = "127.0.0.1"  # where a broker listens that is told ports and no host
_EVERY_HOST: Final = ("*", "0.0.0.0", "[::]")


class Listens(msgspec.Struct, frozen=True):
    """The addresses that a broker binds; what is empty it does not bind, or its starter decides."""

    bind: str = ""
    backend: str = ""  # empty: workers come to `bind` too
    peer: str = ""  # empty: peers come to `bind` too
    config_pub: str = ""  # empty: it publishes nothing


def is_address(text: str) -> bool:
    """Whether others can connect there: tcp://host:port, or a path on this machine."""
    found = TCP.fullmatch(text)
    if found is None:
        return bool(_IPC.fullmatch(text))
    return found["port"] != "*" and int(found["port"]) <= 65_535


def listens_on(entry: BrokerEntry) -> Listens:
    """Where `entry` says that the broker listens."""
    host = _host(entry.bind) or _bracketed(entry.advertise) or LOCAL_HOST
    own = entry.frontend_port
    return Listens(
        bind=entry.bind if "://" in entry.bind else _endpoint(host, own),
        backend=_endpoint(host, entry.backend_port) if entry.backend_port != own else "",
        peer=_endpoint(host, entry.peer_port) if entry.peer_port != own else "",
        config_pub=_endpoint(host, entry.config_pub_port),
    )


def reached_at(entry: BrokerEntry) -> list[str]:
    """The endpoints by which clients and workers reach the broker; empty if the document does not tell."""
    listens = listens_on(entry)
    return entry.endpoints or _reached(entry, listens.bind, listens.backend)


def linked_at(entry: BrokerEntry) -> list[str]:
    """The endpoints by which other brokers reach it: the peers' port if it has one, else those of everybody."""
    return _reached(entry, listens_on(entry).peer) or reached_at(entry)


def publishes_at(entry: BrokerEntry) -> str:
    """Where its publisher is reached; empty: nowhere."""
    return entry.config_pub or next(iter(_reached(entry, listens_on(entry).config_pub)), "")


def _reached(entry: BrokerEntry, *bound: str) -> list[str]:
    """Bound addresses as others write them. Everybody's own 0.0.0.0 leads nowhere, and so does port 0."""
    found = []
    for address in bound:
        tcp = TCP.fullmatch(address)
        host = _bracketed(entry.advertise) or (tcp["host"] if tcp else "")
        if tcp is None:
            found.append(address)
        elif host not in _EVERY_HOST and tcp["port"] not in ("*", "0"):
            found.append(f"tcp://{host}:{tcp['port']}")
    return [address for address in found if address]


def _host(bind: str) -> str:
    found = TCP.fullmatch(bind)
    if found is not None:
        return found["host"]
    return "" if "://" in bind else _bracketed(bind)


def _bracketed(host: str) -> str:
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host


def _endpoint(host: str, port: int) -> str:
    return f"tcp://{host}:{port}" if port else ""
