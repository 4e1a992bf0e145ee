"""What stands around a link: the settings that it is told, its phases, and the session that it serves.

The session hears from its link through `LinkUser` alone, and in the middle of the link's own verb: what it wants done
it appends to the same list of effects, so that the order of effects is the order of events.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

import msgspec

from scale0.core.held_config import SavedConfig
from scale0.core.participant import ParticipantEffect
from scale0.errors import ProtocolError, Scale0Error, UsageError
from scale0.protocol import documents, limits

Effects = list[ParticipantEffect]

KEY_REFUSED: Final = "the broker refused this key"
"""How the socket's word begins when the handshake failed by our key: ZeroMQ does not try that connection again."""


class Random(Protocol):
    """Where jitter comes from: an input, so that a simulation can be replayed."""

    def random(self) -> float: ...


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One participant's settings."""

    endpoints: list[str]  # the preferred one first
    identity: str
    nonce: bytes  # random, of this process
    services: list[str] = []  # named in CONNECT and NEEDBROKER; a worker names those that it offers
    process: str = ""  # host:number of a worker, named in CONNECT: operators find it by that
    heartbeat_interval_s: float = 2.5  # until the broker says what holds; a worker asks for a longer one than 2.5
    liveness: int = 3  # silence for that many intervals means gone; the broker's word replaces it
    connect_timeout_s: float = 3.0  # for each broker that is tried; a start-up goes on for at least as long
    retry_forever: bool = False
    config_type: str = "JSON"  # or XML, or ZPL, also known as ZFL
    saved: SavedConfig = SavedConfig()  # what an earlier process has kept
    keeps_config: bool = False  # by choice: `Keep` says what the next process should know
    public_keys: dict[str, str] = {}  # endpoint → the broker's CURVE key

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise UsageError("at least one broker's address is needed, such as tcp://127.0.0.1:5555")
        size = len(self.identity.encode())
        if not 0 < size <= limits.IDENTITY_BYTES_MAX or not self.identity.isprintable():
            raise UsageError(
                f"an identity has 1 to {limits.IDENTITY_BYTES_MAX} bytes, all printable; not {self.identity!r}"
            )
        if len(self.nonce) != limits.NONCE_BYTES:
            raise UsageError(f"a nonce has {limits.NONCE_BYTES} bytes, not {len(self.nonce)}")
        if self.heartbeat_interval_s <= 0 or self.liveness < 1 or self.connect_timeout_s <= 0:
            raise UsageError("heartbeat_interval_s, liveness and connect_timeout_s must be above zero")
        try:
            msgspec.structs.force_setattr(self, "config_type", documents.config_type(self.config_type))
        except ProtocolError as error:
            raise UsageError(error.text) from None


class Phase(Enum):
    """Where a link is in its life; `link.py` draws how one leads to another."""

    IDLE = "idle"
    CONNECTING = "connecting"
    ASKING = "asking"
    UP = "up"
    PAUSED = "paused"
    OVER = "over"


class LinkUser(Protocol):
    """The session that a link serves."""

    def link_services(self) -> list[str]: ...

    def link_in_flight(self) -> list[bytes]: ...

    def link_covers_ms(self, now: float) -> int: ...

    def link_oldest_unanswered(self) -> int: ...

    def link_up(self, now: float, out: Effects) -> None:
        """A broker took the session."""

    def link_down(self, now: float, out: Effects) -> None:
        """It was up, and what was sent may not have arrived."""

    def link_in_vain(self, now: float, out: Effects) -> None:
        """Every known broker was tried, and none takes us now. The link goes on trying."""

    def link_over(self, error: Scale0Error, now: float, out: Effects) -> None:
        """No broker will be tried any more."""

    def link_may_move(self, now: float, out: Effects) -> bool:
        """CHANGEBROKER came. False: the user calls `Link.move` when it has put its things in order."""
