"""The dialects that may come to any task port, told apart by the first bytes of the header frame.

A dialect says how frames are laid out *and* who speaks: a session's role comes from its header (rule 1).
`is_req` means that an empty frame stands ahead, as a REQ socket sends it, and that one message answers one request.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Role(Enum):
    CLIENT = "client"
    WORKER = "worker"
    PEER = "peer"


class Dialect(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One way of speaking. Compared by identity: there are only the ones below."""

    name: str
    header: bytes
    role: Role
    is_req: bool = False
    majordomo: int = 0  # 0 native, 1 Majordomo 0.1, 2 Majordomo 0.2
    asks_again: bool = True  # its settled outcomes are kept to answer resends; a peer keeps its own

    @property
    def is_native(self) -> bool:
        return self.majordomo == 0

    @property
    def takes_parts(self) -> bool:
        """Whether several messages may answer one request; else partial replies are joined."""
        return not self.is_req and self.majordomo != 1


CLIENT = Dialect("client", b"SC0C01", Role.CLIENT)
WORKER = Dialect("worker", b"SC0W01", Role.WORKER)
PEER = Dialect("peer", b"SC0P01", Role.PEER, asks_again=False)
REQ_CLIENT = Dialect("req client", b"SC0C01", Role.CLIENT, is_req=True)
REQ_WORKER = Dialect("req worker", b"SC0W01", Role.WORKER, is_req=True)
MDP1_CLIENT = Dialect("majordomo 0.1 client", b"MDPC01", Role.CLIENT, majordomo=1, asks_again=False)
MDP1_WORKER = Dialect("majordomo 0.1 worker", b"MDPW01", Role.WORKER, majordomo=1, asks_again=False)
MDP2_CLIENT = Dialect("majordomo 0.2 client", b"MDPC02", Role.CLIENT, majordomo=2, asks_again=False)
MDP2_WORKER = Dialect("majordomo 0.2 worker", b"MDPW02", Role.WORKER, majordomo=2, asks_again=False)

DEALER_DIALECTS = {dialect.header: dialect for dialect in (CLIENT, WORKER, PEER)}
REQ_DIALECTS = {dialect.header: dialect for dialect in (REQ_CLIENT, REQ_WORKER)}
MDP1_DIALECTS = {dialect.header: dialect for dialect in (MDP1_CLIENT, MDP1_WORKER)}
MDP2_DIALECTS = {dialect.header: dialect for dialect in (MDP2_CLIENT, MDP2_WORKER)}

DIALECTS = [*DEALER_DIALECTS.values(), *REQ_DIALECTS.values(), *MDP1_DIALECTS.values(), *MDP2_DIALECTS.values()]
