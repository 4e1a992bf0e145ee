"""What the broker's core asks its shell to do.

A verb of `Broker` returns a list of these, in the order in which they must happen. A shell that cannot carry out a
`Send` says so with `Broker.send_failed`: a failed send is an input like any other (rule 10).
"""

from __future__ import annotations

from typing import NewType

import msgspec

from scale0.protocol.codec import AnyMessage
from scale0.protocol.dialects import Dialect

Route = NewType("Route", bytes)
"""Where a session can be reached now: one byte for the socket, then the ROUTER's routing id. Opaque to the core."""


class Send(msgspec.Struct, gc=False):
    route: Route
    dialect: Dialect
    message: AnyMessage


class Alarm(msgspec.Struct):
    """Something that an operator must see. `name` is stable, `text` says cause and cure."""

    name: str
    text: str


class Persist(msgspec.Struct):
    """Keep `state` over restarts: `disabled` must not come back as `active`."""

    state: str


class Stopped(msgspec.Struct):
    """The broker has finished draining and holds nothing any more."""


class Reload(msgspec.Struct):
    """Read the settings again and hand them to `Broker.configure`; a file that does not validate changes nothing."""


Effect = Send | Alarm | Persist | Stopped | Reload
