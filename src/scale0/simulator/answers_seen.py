"""Books on questions and answers, kept beside the broker's: who asked for what, and how often it was told.

Each TASK and each CANCEL may be answered once (I1). Who asks about an id of another may be told no, and nothing else
(I2). A REQ socket gets one message for each that it sent, and none that it did not ask for (rule 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from scale0.protocol.codec import AnyMessage
from scale0.protocol.ids import sequence_of, show_id
from scale0.protocol.messages import Ping
from scale0.simulator.process import Process


class Accepted(msgspec.Struct):
    """A task that the broker accepted and has not answered."""

    process: Process
    service: str
    token: bytes
    deadline_s: float
    was_announced: bool  # its service, when the task came
    was_resent: bool  # it may have run under another broker, or under this one in another life


class AnswersSeen:
    """The questions and answers of one run of one broker. `fail` is told the rule and what broke it."""

    def __init__(self, fail: Callable[[str, str], None]) -> None:
        self._fail = fail
        self._asked: Counter[bytes] = Counter()  # TASK and CANCEL by id
        self._answered: Counter[bytes] = Counter()
        self._meddled: set[tuple[bytes, bytes]] = set()  # route and id of another that it asked about
        self._owed: Counter[bytes] = Counter()  # answers owed to a REQ socket, by route
        self._oldest: dict[Process, int] = {}  # the sequence of the first task that its client still waits for

    def asked(self, process: Process, route: bytes, id_: bytes) -> None:
        if is_of(process, id_):
            self._asked[id_] += 1
        else:
            self._meddled.add((route, id_))

    def heard(self, process: Process, message: AnyMessage) -> None:
        if isinstance(message, Ping):
            self._oldest[process] = message.oldest_unanswered

    def is_unwanted(self, process: Process, id_: bytes) -> bool:
        """Rule 8: its client has said that it will not ask for it, as after a CANCEL that nobody has confirmed."""
        return sequence_of(id_) < self._oldest.get(process, 0)

    def inherited(self, id_: bytes) -> None:
        """The partner of this broker was asked for it, and has told so."""
        self._asked[id_] = max(1, self._asked[id_])

    def was_asked(self, id_: bytes) -> bool:
        """Whether a client has asked this broker itself for it."""
        return self._asked[id_] > 0

    def has_meddled(self, route: bytes, id_: bytes) -> bool:
        return (route, id_) in self._meddled

    def answered(self, id_: bytes) -> None:
        self._answered[id_] += 1
        if self._answered[id_] > self._asked[id_]:
            self._fail("I1", f"{show_id(id_)} was asked {self._asked[id_]} times, answered {self._answered[id_]} times")

    def answered_nobody(self, id_: bytes) -> None:
        """The route is gone; it still settles what it was about."""
        self._answered[id_] += 1

    def not_answered(self, id_: bytes) -> None:
        """The answer could not be sent."""
        self._answered[id_] -= 1

    def owes_as(self, before: AnswersSeen) -> None:
        """Connections outlast what the broker forgets: the gate answers who asked before, and owes one answer each."""
        self._owed = before._owed

    def owes(self, route: bytes) -> None:
        self._owed[route] += 1

    def pays(self, process: Process, route: bytes, what: object) -> None:
        self._owed[route] -= 1
        if self._owed[route] < 0:
            self._fail("rule 3", f"{process.label} uses a REQ socket and was sent {what} without having asked")


def is_of(process: Process, id_: bytes) -> bool:
    """Whether this process made the id."""
    return id_.startswith(process.id_prefix)
