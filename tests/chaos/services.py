"""What the load asks for: quick services and long ones, some that may be repeated and some that must not, and a stream.

A question is the task's own name, so a worker's journal says which task ran; its answer is the name backwards, so an
answer that went to the wrong task is seen. A stream has a few parts, numbered, so one that is missing or doubled is
seen.
"""

from __future__ import annotations

import msgspec

PARTS = 5  # of a stream
BIG_BYTES = 64 * 1024  # a reply to whoever never reads it
TIMEOUT_S = 25.0  # of each task: far beyond what a fault may cost
MAX_ATTEMPTS = 20  # of what may be repeated: more often than faults can come within the timeout

REPLY, WRONG = "reply", "wrong"
LOST = "502"  # worker lost, or outcome unknown: what nobody can know is said so


class Service(msgspec.Struct, frozen=True):
    """One service of the load: how long its work takes, how it answers, and which ends of a task are in order."""

    name: str
    work_s: float
    idempotent: bool = False
    is_stream: bool = False
    ends: frozenset[str] = frozenset({REPLY, LOST})


SERVICES = {
    service.name: service
    for service in (
        Service("double", 0.01, idempotent=True, ends=frozenset({REPLY})),
        Service("pay", 0.01),
        Service("count", 0.02, is_stream=True),
        Service("paint", 0.8, idempotent=True, ends=frozenset({REPLY})),
        Service("ship", 0.8),
    )
}
BIG = "big"  # asked for by stalled clients alone

SHARES = (("double", "count", "paint", BIG), ("pay", "ship"))
"""A worker offers one of these: so at some brokers a service has no worker, and its tasks cross to another one."""


def answer(question: str) -> str:
    return question[::-1]


def parts(question: str) -> list[str]:
    return [f"{question}#{number}" for number in range(PARTS)]
