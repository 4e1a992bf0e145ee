"""Services that the broker itself serves, on the same framework as any other: `scale0.*` and `mmi.*` (rule 34, RFC 8).

`scale0.services`, `.workers`, `.clients`, `.brokers`, `.config` and `.dead_letters` answer with one JSON document each;
`listings` makes it. RFC 8: `mmi.service` with a name as its body answers 200 or 404, any other `mmi.*` 501.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scale0.core import admission, delivery, listings, network_listings, task_listings
from scale0.core.services import RESERVED
from scale0.core.sessions import Session
from scale0.core.state import State
from scale0.protocol.codes import Code
from scale0.protocol.messages import Status, Task, TaskReply

SERVED: dict[str, Callable[[State], listings.Rows]] = {
    "scale0.services": listings.services,
    "scale0.workers": listings.workers,
    "scale0.clients": listings.clients,
    "scale0.brokers": listings.brokers,
    "scale0.network": network_listings.network,
    "scale0.network_workers": network_listings.network_workers,
    "scale0.config": network_listings.config,
    "scale0.config_history": network_listings.config_history,
    "scale0.dead_letters": task_listings.dead_letters,
}


def serve(state: State, session: Session, message: Task) -> None:
    """Answer at once: accepted and replied in one step."""
    name = message.service
    if name.startswith("mmi."):
        body = _mmi(state, name, message)
    elif name in SERVED:
        rows = [row for row in SERVED[name](state) if row is not None]
        body = msgspec.json.encode(listings.document(state, name, rows))
    else:
        text = f"the broker serves no {name}; it serves {', '.join(SERVED)}"
        admission.refuse(state, session, message, Code.UNKNOWN_SERVICE, text, near=list(SERVED))
        return
    state.ledger.accepted += 1
    state.ledger.replied += 1
    state.ledger.unrecorded_replies += 1
    reply = TaskReply(message.id, (body,), 1, Status.OK, 0, True, state.wall_us(), 0, 0, state.config.packed_version)
    delivery.deliver(state, session, reply, name)


def _mmi(state: State, name: str, message: Task) -> bytes:
    if name != "mmi.service":
        return b"501"
    asked = message.body[0].decode(errors="replace") if message.body else ""
    if asked.startswith(RESERVED):
        return b"200" if asked in SERVED or asked == "mmi.service" else b"404"
    service = state.services.get(asked)
    return b"200" if service is not None and service.workers else b"404"
