"""What the broker's core asks its shell to do.

A verb of `Broker` returns a list of these, in the order in which they must happen. A shell that cannot carry out a
`Send` says so with `Broker.send_failed`: a failed send is an input like any other (rule 10).
"""

from __future__ import annotations

from typing import Any, NewType

import msgspec

from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect
from scale0.protocol.messages import ConfigAck, Error, ManagementRep
from scale0.protocol.network import ConfigRecord

Route = NewType("Route", bytes)
"""Where a session can be reached now: one byte for the socket, then the ROUTER's routing id. Opaque to the core."""


DIALED = 255
"""The socket's byte in the route of a link that this broker dialed; the core makes such routes, one a link."""


class Send(msgspec.Struct, gc=False):
    route: Route
    dialect: Dialect
    message: AnyMessage


class Alarm(msgspec.Struct):
    """Something that an operator must see. `name` is stable, `text` says cause and cure."""

    name: str
    text: str


class Persist(msgspec.Struct):
    """Keep this over restarts, before anything else is done: `disabled` must not come back as `active`.

    `epoch` is the highest that this broker has served in; `is_serving`: as the active one of its pair.
    """

    state: str
    epoch: int = 1
    is_serving: bool = False


class Stopped(msgspec.Struct):
    """The broker has finished draining and holds nothing any more."""


class Reload(msgspec.Struct):
    """Read the settings again and hand them to `Broker.configure` with this key; what is bad to `Broker.answer`."""

    key: int = 0


class Dial(msgspec.Struct):
    """Connect to another broker; from now on `route` leads there. Nothing is said if nobody answers."""

    route: Route
    endpoint: str
    public_key: str = ""


class HangUp(msgspec.Struct):
    """Close a dialed link, with all that still waits in it; its route is never used again."""

    route: Route


class Publish(msgspec.Struct):
    """Tell all listeners which config is current here."""

    message: ConfigAck


class Listen(msgspec.Struct):
    """Listen to these publishers and to no other; what they say goes to `Broker.heard_version`."""

    endpoints: list[str]
    public_keys: dict[str, list[str]] = {}  # endpoint → the keys that its broker may have, the likely one first


class Admit(msgspec.Struct):
    """From now on the handshakes of these keys succeed, and those of no other."""

    keys: frozenset[str]


class KeepConfig(msgspec.Struct):
    """Keep these records over restarts, the current one last; old or new, never half of them, after a crash."""

    records: list[ConfigRecord]


class Answered(msgspec.Struct):
    """What another broker said to a change for which `Broker.manage` returned `Later` with this key."""

    key: int
    message: ManagementRep | Error


class Cut(msgspec.Struct):
    """A drill: for so long, drop what goes to this peer, what comes from it, or both. It heals by itself."""

    peer: str
    for_s: float
    is_outbound: bool = True
    is_inbound: bool = True


class Heal(msgspec.Struct):
    """The end of a drill, before its time: of the cut with this peer, or of all."""

    peer: str = ""


class FromFiles(msgspec.Struct):
    """An operator asks for what was recorded, which lies in files: answer with `Broker.answer` and this key."""

    key: int
    command: str
    arguments: dict[str, Any]


class Asked(msgspec.Struct):
    """MANAGEMENTREQ came. The gate decides: answer with `Broker.answer` and this key.

    A peer's `user` comes without a password but with a role, of which at most `role_max` is believed. `dialed` is the
    address of a link that this broker dialed; else the port of the route tells who can speak there.
    """

    key: int
    route: Route
    user: str
    command: str
    arguments: dict[str, Any]
    command_id: str = ""
    brokers: list[str] | str = "own"  # or all
    password: str = ""
    peer: str = ""
    role: str = ""
    role_max: str = ""
    is_proven: bool = False  # the peer has the key that the document names
    dialed: str = ""
    is_encrypted: bool = False
    public_key: str = ""  # what its connection has proven

    def __repr__(self) -> str:
        return f"Asked({self.user!r}, {self.command!r}, …)"


Effect = (
    Send
    | Alarm
    | Persist
    | Stopped
    | Reload
    | Dial
    | HangUp
    | Publish
    | Listen
    | Admit
    | KeepConfig
    | Answered
    | Cut
    | Heal
    | FromFiles
    | Asked
)
