"""Every exception that Scale0 raises, drawn as a tree.

Scale0Error
├── ProtocolError             a peer sent what the protocol does not allow; carries the code that answers it
├── UsageError                a call that cannot be right, whatever the network does
│   ├── PayloadTooLarge       a body over the limit, refused before it is sent
│   ├── EncodingError         an argument or result that does not fit the annotations
│   └── SettingsError         a configuration that does not validate; names the key and what is allowed
├── Unreachable               no broker could be reached; names each that was tried
│   └── SessionRefused        a broker answered, and refused the session for good
├── PortTaken                 the broker's address is in use, or not ours to bind
└── TaskError                 the outcome of a task that did not end in a reply
    ├── ServiceNotFound       404: nobody offers the service; carries near names
    ├── DeadlineExceeded      408 in the queue, 504 in flight
    ├── TaskCancelled         499
    ├── WorkerLost            502: the worker was lost, or the outcome is unknown; the task is not repeatable
    ├── Overloaded            429: a limit was reached
    ├── BrokerUnavailable     503: the broker accepts nothing now
    ├── TaskRefused           any other code: 400, 401, 403, 413, 501 …
    └── RemoteError           the handler raised; carries its type, message and traceback text
"""

from __future__ import annotations


class Scale0Error(Exception):
    """The root: catch this to catch everything that Scale0 raises."""


class ProtocolError(Scale0Error):
    """A message that the protocol does not allow. `code` is the status that answers its sender."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class UsageError(Scale0Error):
    """A call that cannot be right, whatever the network does."""


class PayloadTooLarge(UsageError):
    """A body over the limit; nothing was sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"the body has {self.size:,} bytes; at most {self.limit:,} are allowed"


class EncodingError(UsageError):
    """An argument or a result that does not fit the service's annotations."""


class SettingsError(UsageError):
    """A configuration that does not validate."""


class Unreachable(Scale0Error):
    """No broker could be reached. `tried` maps each endpoint to what went wrong there."""

    def __init__(self, tried: dict[str, str], waited_s: float) -> None:
        super().__init__(tried, waited_s)
        self.tried = tried
        self.waited_s = waited_s

    def __str__(self) -> str:
        where = ", ".join(self.tried) or "any known address"
        what = "no broker that serves" if self.is_answered else "no broker"
        lines = [f"{what} at {where} after {self.waited_s:.3g} s"]
        lines += [f"  {endpoint}: {why}" for endpoint, why in self.tried.items()]
        if not self.is_answered:
            lines.append("  start one: scale0 broker")
        return "\n".join(lines)

    @property
    def is_answered(self) -> bool:
        """Whether somebody is there, and only does not take us: by its code, or by what it wants of a handshake."""
        return any(why[:3].isdigit() or "this key" in why or "encryption" in why for why in self.tried.values())


class SessionRefused(Unreachable):
    """A broker answered, and refused the session: its key, its identity, its clock."""

    def __init__(self, endpoint: str, code: int, text: str) -> None:
        super().__init__({endpoint: f"{code} {text}"}, 0.0)
        self.endpoint = endpoint
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"the broker at {self.endpoint} refused this session: {self.code} {self.text}"


class PortTaken(Scale0Error):
    """The broker could not bind its address."""

    def __init__(self, endpoint: str, why: str) -> None:
        super().__init__(endpoint, why)
        self.endpoint = endpoint
        self.why = why

    def __str__(self) -> str:
        return f"cannot listen on {self.endpoint}: {self.why}"


class TaskError(Scale0Error):
    """A task's outcome that is not a reply. `code` is stable, the text may improve."""

    def __init__(self, code: int, text: str, service: str = "", task_id: str = "") -> None:
        super().__init__(code, text, service, task_id)
        self.code = code
        self.text = text
        self.service = service
        self.task_id = task_id

    def __str__(self) -> str:
        return f"{self.code} {self.text}"


class ServiceNotFound(TaskError):
    """404: nobody offers this service. `near` holds names that look like it."""

    def __init__(self, code: int, text: str, service: str = "", task_id: str = "", near: tuple[str, ...] = ()) -> None:
        super().__init__(code, text, service, task_id)
        self.near = near


class DeadlineExceeded(TaskError):
    """408 or 504: the deadline passed, in the queue or in flight."""


class TaskCancelled(TaskError):
    """499: the client cancelled it, or an operator did."""


class WorkerLost(TaskError):
    """502: the worker was lost, or nobody knows the outcome; the task may have run."""


class Overloaded(TaskError):
    """429: a limit was reached; try again later."""


class BrokerUnavailable(TaskError):
    """503: the broker does not accept tasks now."""


class TaskRefused(TaskError):
    """Any other code: the broker refused the task."""


class RemoteError(TaskError):
    """The handler raised. `remote_type` and `remote_traceback` are the worker's words."""

    def __init__(
        self,
        remote_type: str,
        message: str,
        remote_traceback: str = "",
        service: str = "",
        task_id: str = "",
    ) -> None:
        super().__init__(500, message, service, task_id)
        self.remote_type = remote_type
        self.remote_traceback = remote_traceback

    def __str__(self) -> str:
        return f"{self.remote_type}: {self.text}"


_BY_CODE: dict[int, type[TaskError]] = {
    404: ServiceNotFound,
    408: DeadlineExceeded,
    429: Overloaded,
    499: TaskCancelled,
    502: WorkerLost,
    503: BrokerUnavailable,
    504: DeadlineExceeded,
}


def task_error(code: int, text: str, service: str = "", task_id: str = "", near: tuple[str, ...] = ()) -> TaskError:
    """The exception for an ERROR that settles a task."""
    if code == 404:
        return ServiceNotFound(code, text, service, task_id, near)
    return _BY_CODE.get(code, TaskRefused)(code, text, service, task_id)
