"""Tasks of the broker itself, which operators asked for: what is known of each until its outcome.

The broker is their client, in a session that nobody else has: it stands in no table of sessions, never falls silent and
is told of nothing. `broker_tasks` has the rules.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from scale0.core.effects import Route
from scale0.core.ledger import Entry
from scale0.core.outcomes import DeadLetter
from scale0.core.sessions import Session
from scale0.protocol.dialects import Dialect, Role
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import Error, TaskId, TaskReply

OWN: Final = Dialect("broker", b"", Role.CLIENT, is_req=True, asks_again=False)
"""How the broker speaks with itself: never on a wire, and with one answer to each task."""


class OwnTask(msgspec.Struct, eq=False, kw_only=True):
    """One of them."""

    id: TaskId
    service: str
    begun_s: float
    key: int  # of who waits for the answer
    letter: DeadLetter | None = None  # whose task it is, once more
    entry: Entry | None = None  # in the ledger, once it is accepted
    outcome: TaskReply | Error | None = None  # that came at once, without one


class BrokerTasks:
    """The broker as a client."""

    def __init__(self, identity: str, nonce: bytes, now: float) -> None:
        self.session = Session(
            identity=identity,
            nonce=nonce,
            dialect=OWN,
            route=Route(b""),
            prefix=id_prefix(identity, nonce),
            connected_s=now,
            last_seen_s=now,
            interval_s=math.inf,
        )
        self.asked: dict[TaskId, OwnTask] = {}

    def new_id(self) -> TaskId:
        self.session.made += 1
        return make_id(self.session.prefix, self.session.made)
