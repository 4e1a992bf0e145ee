"""A submitted task on the client's side, from its TASK to its outcome.

Records are light: `map` makes one a task, so they hold what came and decode it only when somebody takes it. Whoever
waits for a record leaves a `wake` there; it is called once there is something to take, and never again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from scale0.encoding import decode_failure, decode_result
from scale0.errors import Overloaded, Scale0Error, task_error
from scale0.protocol.ids import show_id
from scale0.protocol.messages import Error, Status, TaskId, TaskReply
from scale0.tracing import Call

PARTS_MAX: Final = 100_000  # partial replies that wait to be taken; one more ends the stream with 429
PARTS_BYTES_MAX: Final = 256 * 1024 * 1024

END: Final = object()  # no further part

Outcome = TaskReply | Error | Scale0Error


class Record:
    """One task. `is_ready`: its outcome has come; `take` returns the value or raises what it ended in."""

    __slots__ = ("id", "is_ready", "outcome", "parts", "parts_bytes", "returns", "service", "span", "wake")

    def __init__(self, service: str, returns: Any = Any) -> None:
        self.id = TaskId(b"")
        self.service = service
        self.returns = returns
        self.outcome: Outcome | None = None
        self.parts: deque[TaskReply] | None = None
        self.parts_bytes = 0
        self.is_ready = False
        self.span: Call | None = None  # if it is traced
        self.wake: Callable[[], None] | None = None

    def settle(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.is_ready = True
        if self.span is not None:
            self.span.settle(self.id, outcome)
        if self.wake is not None:
            self.wake()

    def add_part(self, reply: TaskReply) -> bool:
        """Keep a partial reply. False: too many wait already."""
        if self.parts is None:
            self.parts = deque()
        self.parts.append(reply)
        self.parts_bytes += sum(map(len, reply.body))
        return len(self.parts) <= PARTS_MAX and self.parts_bytes <= PARTS_BYTES_MAX

    def take(self) -> Any:
        """The value; of a service that streams, the list of its parts."""
        reply = self._reply()
        if reply.body:
            return decode_result(reply.body, self.returns, self.service)
        return [decode_result(part.body, self.returns, self.service) for part in self.parts or ()]

    def _reply(self) -> TaskReply:
        """The final reply, if the task ended in one."""
        outcome = self.outcome
        if type(outcome) is TaskReply:
            if outcome.status == _OK:
                return outcome
            raise decode_failure(outcome.body, self.service, show_id(self.id))
        if isinstance(outcome, Error):
            near = outcome.detail.get("near", ())
            names = tuple(str(name) for name in near) if isinstance(near, list | tuple) else ()
            raise task_error(outcome.code, outcome.text, self.service, show_id(self.id), names)
        assert isinstance(outcome, Scale0Error), "a record is taken when it is ready"
        raise outcome


class StreamRecord(Record):
    """A task whose parts are taken one by one, as they come. `is_ready`: there is a part, or the outcome."""

    __slots__ = ("_is_over",)

    def __init__(self, service: str, returns: Any = Any) -> None:
        super().__init__(service, returns)
        self.parts = deque()
        self._is_over = False

    def add_part(self, reply: TaskReply) -> bool:
        has_room = super().add_part(reply)
        self.is_ready = True
        if self.wake is not None:
            self.wake()
        return has_room

    def take_part(self) -> Any:
        """The next value, or `END` after the last one. Raises what the task ended in."""
        parts = self.parts
        assert parts is not None
        assert self.is_ready, "a part is taken when it is ready"
        if parts:
            part = parts.popleft()
            self.parts_bytes -= sum(map(len, part.body))
            self.is_ready = bool(parts) or self.outcome is not None
            return decode_result(part.body, self.returns, self.service)
        if self._is_over:
            return END
        self._is_over = True
        reply = self._reply()
        # A service that does not stream has its one value in the final reply.
        return decode_result(reply.body, self.returns, self.service) if reply.body else END


def too_many_parts(record: Record) -> Scale0Error:
    bound = f"{PARTS_MAX:,} parts, or {PARTS_BYTES_MAX >> 20} MiB of them"
    text = f"more than {bound}, wait to be taken: read the stream faster"
    return Overloaded(429, text, record.service, show_id(record.id))


_OK: Final = int(Status.OK)
