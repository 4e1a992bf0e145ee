"""The client for threads: call, submit, map, stream.

One client serves any number of threads over one connection. A call that waits drives the socket itself (see `driver`),
so one call at a time costs no thread hop, and `map` keeps many tasks in flight from one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scale0.client.driver import Driver
from scale0.client.future import TaskFuture
from scale0.client.options import DEFAULT_IN_FLIGHT, DEFAULT_TIMEOUT_S, ClientOptions, check_timeout
from scale0.client.record import END, Record, StreamRecord
from scale0.client.window import Window
from scale0.encoding import encode_arguments
from scale0.errors import Scale0Error
from scale0.protocol.limits import PRIORITY_NORMAL
from scale0.protocol.messages import Body


class Client:
    """Sends tasks to a broker and gets their outcomes.

    `addresses`: the preferred broker first, then others to ask when it cannot be reached. A client connects when it is
    entered (`with`) or first used, and raises `Unreachable` if no broker is there; once connected it finds its way back
    by itself, and tasks that are open meanwhile keep their deadlines. `timeout` is each task's time in seconds, unless
    a call says otherwise. `save_config` names a file that keeps what was learned of the network: the next client with
    the same file finds a broker even if none of `addresses` is up. Keyword arguments of a call go to the service,
    except those named in its signature here.

    Brokers that ask for keys get `key`, the name or path of a key file, and must have `server_key`, their public key
    (one for all addresses, or one for each, with commas). Without them SCALE0_KEY and SCALE0_SERVER_KEY are taken.
    """

    def __init__(
        self,
        *addresses: str | Iterable[str],
        identity: str | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        connect_timeout: float = 3.0,
        retry_forever: bool = False,
        save_config: Path | str | None = None,
        key: Path | str | None = None,
        server_key: str | None = None,
    ) -> None:
        self._options = ClientOptions.read(
            addresses,
            identity=identity,
            timeout_s=timeout,
            connect_timeout_s=connect_timeout,
            retry_forever=retry_forever,
            save_config=save_config,
            key=key,
            server_key=server_key,
        )
        self._driver = Driver(self._options)

    def call(
        self,
        service: str,
        /,
        *args: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        **kwargs: Any,
    ) -> Any:
        """The service's result for these arguments, of type `returns`.

        Of a service that streams, that is the list of its parts. Raises what the task ended in:
        `ServiceNotFound`, `DeadlineExceeded`, `WorkerLost`, `RemoteError` …
        """
        timeout_s = self._timeout_s(timeout)
        record = Record(service, returns)
        self._driver.run((record, *encode_arguments(args, kwargs)), timeout_s, priority)
        return record.take()

    def submit(
        self,
        service: str,
        /,
        *args: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        **kwargs: Any,
    ) -> TaskFuture:
        """Send a task and return at once; the future has `result`, `cancel`, `done` and `add_done_callback`."""
        timeout_s = self._timeout_s(timeout)
        future = TaskFuture(self, self._driver, service, returns, timeout_s)
        body, options = encode_arguments(args, kwargs)
        self._driver.submit(((future.record, body, options),), timeout_s, priority)
        return future

    def map(
        self,
        service: str,
        items: Iterable[Any],
        /,
        *,
        in_flight: int = DEFAULT_IN_FLIGHT,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        return_exceptions: bool = False,
    ) -> Iterator[Any]:
        """The results for each of `items`, in order, with at most `in_flight` tasks under way.

        Items are read as room appears, so they may be endless. The first error ends it, unless `return_exceptions`:
        then errors stand in their places. Whoever stops early cancels what is under way.
        """
        timeout_s = self._timeout_s(timeout)
        window = Window(service, items, in_flight, returns)
        return self._map(window, timeout_s, priority, return_exceptions)

    def stream(
        self,
        service: str,
        /,
        *args: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_NORMAL,
        returns: Any = Any,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """The parts of the service's result as they come; the task is sent when the first one is asked for.

        `timeout` is for all of them together. Whoever stops early cancels the task.
        """
        timeout_s = self._timeout_s(timeout)
        record = StreamRecord(service, returns)
        return self._stream((record, *encode_arguments(args, kwargs)), timeout_s, priority)

    def connect(self) -> Self:
        """Wait until a broker has taken the session. Raises `Unreachable` if none does."""
        self._driver.connect()
        return self

    def close(self) -> None:
        """Leave the broker. Outcomes that have not come are given up."""
        self._driver.close()

    @property
    def identity(self) -> str:
        """The name under which the broker lists this client."""
        return self._driver.engine.session.link.settings.identity

    @property
    def broker(self) -> str:
        """The address of the broker that has this client's session now; empty while there is none."""
        engine = self._driver.engine
        return engine.session.link.endpoint if engine.is_connected else ""

    def __enter__(self) -> Self:
        return self if self._options.retry_forever else self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        driver = getattr(self, "_driver", None)  # a constructor that raised has none
        if driver is not None:
            driver.close_soon()

    def _map(self, window: Window, timeout_s: float, priority: int, return_exceptions: bool) -> Iterator[Any]:
        driver = self._driver
        records = window.records
        try:
            while True:
                sendings = window.refill()
                if sendings:
                    driver.submit(sendings, timeout_s, priority)
                if not records:
                    return
                if not records[0].is_ready:
                    driver.wait_for_outcome(records[0], timeout_s)
                for record in window.take_ready():
                    try:
                        value = record.take()
                    except Scale0Error as error:
                        if not return_exceptions:
                            raise
                        value = error
                    yield value
        finally:
            if records:
                driver.cancel(records)

    def _stream(self, sending: tuple[StreamRecord, Body, bytes], timeout_s: float, priority: int) -> Iterator[Any]:
        record = sending[0]
        self._driver.submit((sending,), timeout_s, priority)
        try:
            while True:
                self._driver.wait_for_outcome(record, timeout_s)
                part = record.take_part()
                if part is END:
                    return
                yield part
        finally:
            if record.outcome is None:
                self._driver.cancel([record])

    def _timeout_s(self, timeout: float | None) -> float:
        return self._options.timeout_s if timeout is None else check_timeout(timeout)
