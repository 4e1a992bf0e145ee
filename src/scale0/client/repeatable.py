"""A client whose work another process may do again: the same question has the same id in both.

For schedulers that run a piece of work again when a machine is lost, such as Spark. `core.repeatable_session` has the
rules; this is the blocking client over such a session.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from scale0.client.blocking import Client
from scale0.client.driver import Driver
from scale0.client.options import DEFAULT_IN_FLIGHT, DEFAULT_TIMEOUT_S, ClientOptions, Repeats
from scale0.client.window import Window
from scale0.core.repeatable_session import TASKS_MAX, RepeatableSession
from scale0.encoding import encode_arguments
from scale0.protocol.limits import NONCE_BYTES, PRIORITY_NORMAL
from scale0.protocol.messages import Body

__all__ = ["TASKS_MAX", "RepeatableClient"]


class RepeatableClient(Client):
    """`work` names the piece of work: whoever asks under the same name is answered, not served again.

    `is_later`: an earlier process may have asked. Then a broker that does not hold a task runs it only if its service
    is idempotent; else the task ends in `WorkerLost`, outcome unknown. At most `TASKS_MAX` tasks each.
    """

    def __init__(
        self,
        *addresses: str | Iterable[str],
        identity: str,
        work: str,
        is_later: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
        connect_timeout: float = 3.0,
    ) -> None:
        nonce = hashlib.blake2b(work.encode(), digest_size=NONCE_BYTES).digest()
        self._options = ClientOptions.read(
            addresses,
            identity=identity,
            timeout_s=timeout,
            connect_timeout_s=connect_timeout,
            repeats=Repeats(nonce, is_later),
        )
        self._driver = Driver(self._options)

    def map_rows(
        self, service: str, rows: Iterable[tuple[Any, ...]], *, in_flight: int = DEFAULT_IN_FLIGHT
    ) -> Iterator[Any]:
        """The results for each row of arguments, in order; errors of tasks stand in their places."""
        return self._map(_Rows(service, rows, in_flight, Any), self._timeout_s(None), PRIORITY_NORMAL, True)

    def finish(self) -> None:
        """The work is done, and nobody will ask again: leave the broker, which forgets the outcomes."""
        session = self._driver.engine.session
        assert isinstance(session, RepeatableSession)
        session.end()
        self.close()


class _Rows(Window):
    """A window whose items are tuples of arguments."""

    def encode(self, item: tuple[Any, ...]) -> tuple[Body, bytes]:
        return encode_arguments(item, {})
