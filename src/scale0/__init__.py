"""Scale0: a broker network. Start more workers, anywhere, and they are found, balanced and watched.

    from scale0 import Client, Worker

The names below are the whole public interface, with `scale0.testing` for tests of one's own. They are loaded when they
are first used, so that a client does not pay for the worker's half, nor the command line for either.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scale0 import errors
    from scale0.client import AsyncClient, Client
    from scale0.errors import (
        BrokerUnavailable,
        DeadlineExceeded,
        EncodingError,
        Overloaded,
        PayloadTooLarge,
        PortTaken,
        ProtocolError,
        RemoteError,
        Scale0Error,
        ServiceNotFound,
        SessionRefused,
        SettingsError,
        TaskCancelled,
        TaskError,
        TaskRefused,
        Unreachable,
        UsageError,
        WorkerLost,
    )
    from scale0.worker import Worker, current_task

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "BrokerUnavailable",
    "Client",
    "DeadlineExceeded",
    "EncodingError",
    "Overloaded",
    "PayloadTooLarge",
    "PortTaken",
    "ProtocolError",
    "RemoteError",
    "Scale0Error",
    "ServiceNotFound",
    "SessionRefused",
    "SettingsError",
    "TaskCancelled",
    "TaskError",
    "TaskRefused",
    "Unreachable",
    "UsageError",
    "Worker",
    "WorkerLost",
    "current_task",
    "errors",
]

_HOMES = {
    "AsyncClient": "scale0.client",
    "Client": "scale0.client",
    "Worker": "scale0.worker",
    "current_task": "scale0.worker",
}
"""Where the names that are dear to load live; all others are in `errors`."""


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("scale0.errors")
    if name not in __all__:
        raise AttributeError(f"module 'scale0' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "scale0.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
