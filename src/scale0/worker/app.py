"""`Worker`: functions become services, and one of three ways runs them.

    worker.run()            in a script: until Ctrl-C or SIGTERM, which drain and leave; a second signal ends at once
    with worker.start():    in a background thread, for tests and for embedding
    await worker.serve()    inside an asyncio program; async handlers share its loop

In each of them the socket lives in a thread of its own (`link_thread.py`), sync handlers in threads or processes, and
async handlers in the asyncio loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import random
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from scale0.core.worker_session import WorkerSession
from scale0.errors import Unreachable, UsageError
from scale0.protocol import limits
from scale0.transport.addresses import read_addresses
from scale0.transport.saved_config import SavedConfigFile, check_path
from scale0.worker.coroutines import LoopRunner
from scale0.worker.handlers import Handler, perform
from scale0.worker.link_thread import LinkThread
from scale0.worker.options import WorkerOptions, check_capacity
from scale0.worker.outbox import Outbox
from scale0.worker.processes import ProcessRunner, locate
from scale0.worker.shell import Shell, note
from scale0.worker.signals import leave_on_signals
from scale0.worker.threads import ThreadRunner

Function = TypeVar("Function", bound=Callable[..., Any])

READY_S = 30.0  # how long `start` waits for a broker, if `connect_timeout` does not end it earlier
_JOIN_S = 5.0  # beyond the drain's own limit


class Worker:
    """Offers services to the brokers at `brokers`: one address, several, or a list; the first is preferred.

    `capacity` tasks run at once. With `processes` sync handlers run in child processes instead of threads. With `adapt`
    the worker asks for less while tasks wait here for long. `drain_timeout` limits how long leaving may take.
    `save_config` names a file that keeps what was learned of the network, for the next start. `key` and `server_key`
    are for brokers that ask for keys, as in `Client`.
    """

    def __init__(
        self,
        *brokers: str | Iterable[str],
        identity: str | None = None,
        capacity: int = 1,
        processes: bool = False,
        heartbeat_interval: float = 2.5,
        adapt: bool = True,
        retry_forever: bool = False,
        connect_timeout: float = 3.0,
        drain_timeout: float = 30.0,
        save_config: Path | str | None = None,
        key: Path | str | None = None,
        server_key: str | None = None,
    ) -> None:
        self.options = WorkerOptions(
            brokers=read_addresses(brokers),
            identity=identity,
            capacity=capacity,
            processes=processes,
            heartbeat_interval_s=heartbeat_interval,
            adapt=adapt,
            retry_forever=retry_forever,
            connect_timeout_s=connect_timeout,
            drain_timeout_s=drain_timeout,
            save_config=check_path(save_config),
            key=str(key.absolute()) if isinstance(key, Path) else key,
            server_key=server_key,
        )
        self.options.check()
        self._handlers: dict[str, Handler] = {}
        self._link: LinkThread | None = None
        self._session: WorkerSession | None = None
        self._sync_runner: ThreadRunner | None = None
        self._background: threading.Thread | None = None
        self._background_error: BaseException | None = None
        self._is_settled = threading.Event()  # in the background: a broker has taken us, or it has failed
        self._is_asked_to_leave = False

    # --- services -------------------------------------------------------------------------------------------------

    @overload
    def service(self, name: Function, /) -> Function: ...

    @overload
    def service(
        self, name: str | None = None, *, idempotent: bool = False, max_attempts: int = 3
    ) -> Callable[[Function], Function]: ...

    def service(
        self, name: str | Callable[..., Any] | None = None, *, idempotent: bool = False, max_attempts: int = 3
    ) -> Any:
        """Decorator: offer a function as a service, under its own name if none is given. The function stays as it is.

        `idempotent` says that running it twice does no harm: then a task whose worker is lost is given to another, up
        to `max_attempts` in all.
        """

        if callable(name):  # without parentheses
            return self.service()(name)

        def register(function: Function) -> Function:
            self.add_service(name or function.__name__, function, idempotent=idempotent, max_attempts=max_attempts)
            return function

        return register

    def add_service(
        self, name: str, function: Callable[..., Any], *, idempotent: bool = False, max_attempts: int = 3
    ) -> None:
        """Offer a service; also while the worker runs."""
        if name in self._handlers:
            raise UsageError(f"this worker has a service {name!r} already; remove_service comes first")
        if len(self._handlers) >= limits.SERVICES_PER_WORKER_MAX:
            raise UsageError(f"a worker has at most {limits.SERVICES_PER_WORKER_MAX} services")
        handler = Handler(name, function, idempotent=idempotent, max_attempts=max_attempts)
        if self.options.processes and not handler.is_async:
            locate(handler)
        self._handlers[name] = handler
        if self._link is not None and self._session is not None:
            self._link.tell(functools.partial(self._session.offer, handler.offer))

    def remove_service(self, name: str) -> None:
        """Offer a service no more. What this worker holds of it is finished."""
        if self._handlers.pop(name, None) is None:
            raise UsageError(f"this worker has no service {name!r}")
        if self._link is not None and self._session is not None:
            self._link.tell(functools.partial(self._session.withdraw, name))

    @property
    def services(self) -> list[str]:
        return list(self._handlers)

    @property
    def broker(self) -> str:
        """The address of the broker that it serves now, or last served; empty before the first."""
        session = self._session
        return session.link.endpoint if session is not None else ""

    def set_capacity(self, capacity: int) -> None:
        """Run up to `capacity` tasks at once from now on. Lowering it recalls nothing."""
        self.options.capacity = check_capacity(capacity)
        if self._link is not None and self._session is not None and self._sync_runner is not None:
            self._sync_runner.size = capacity
            self._link.tell(functools.partial(self._session.set_capacity, capacity))

    # --- running --------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until a signal comes. 0: everything held was finished or returned; 1: it was cut short.

        Raises `Unreachable` if no broker is there at the start.
        """
        if not self._handlers:
            raise UsageError('this worker has no service: put @worker.service("name") above a function')
        self._is_asked_to_leave = False
        with leave_on_signals(self.leave, self.stop_now):
            return asyncio.run(self.serve())

    async def serve(self) -> int:
        """Serve inside the running asyncio loop, until `leave` is called or the awaiting task is cancelled."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        link = self._begin(loop, lambda: _call_soon(loop, over.set))
        link.start()
        try:
            if self._is_asked_to_leave:
                self.leave()
            await over.wait()
        except asyncio.CancelledError:
            self.leave()
            try:
                await over.wait()
            finally:
                link.stop()
            raise
        finally:
            self._link = self._session = self._sync_runner = None
        if link.error is not None:
            raise link.error
        return int(link.was_cut_short)

    def start(self, timeout: float = READY_S) -> Self:
        """Serve in a background thread; returns when a broker has taken this worker. Ends by `stop`, or `with`."""
        if self._background is not None:
            raise UsageError("this worker runs already")
        self._is_settled.clear()
        self._is_asked_to_leave = False
        self._background_error = None
        context = contextvars.copy_context()  # handlers see the caller's context variables, as with `run`
        self._background = threading.Thread(
            target=context.run, args=(self._serve_in_background,), name="scale0-worker", daemon=True
        )
        self._background.start()
        is_settled = self._is_settled.wait(timeout)
        if not is_settled and not self.options.retry_forever:
            self._background_error = Unreachable(dict.fromkeys(self.options.brokers, "no READYOK came"), timeout)
            self.stop_now()
        if self._background_error is not None:
            self.stop()
        return self

    def stop(self) -> None:
        """Finish what has begun, return the rest, leave, and wait for it. Raises what the worker failed with."""
        background, self._background = self._background, None
        if background is None:
            return
        self.leave()
        background.join(self.options.drain_timeout_s + _JOIN_S)
        if self._background_error is not None:
            raise self._background_error

    def _serve_in_background(self) -> None:
        try:
            asyncio.run(self.serve())
        except BaseException as error:  # told to whoever calls `start` or `stop`
            self._background_error = self._background_error or error
        finally:
            self._is_settled.set()

    def leave(self) -> None:
        """Begin to leave, and return at once; from any thread or signal handler."""
        self._is_asked_to_leave = True
        if self._link is not None:
            self._link.leave(self.options.drain_timeout_s)

    def stop_now(self) -> None:
        """End without waiting for handlers: what has begun counts as lost."""
        if self._link is not None:
            self._link.stop()

    def __enter__(self) -> Self:
        return self if self._background is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- parts ----------------------------------------------------------------------------------------------------

    def _begin(self, loop: asyncio.AbstractEventLoop, on_over: Callable[[], None]) -> LinkThread:
        """Put a new session, its runners and its link together."""
        if self._link is not None:
            raise UsageError("this worker runs already")
        options = self.options
        outbox = Outbox()
        if options.processes:
            self._sync_runner = ProcessRunner("scale0-process", options.capacity, outbox)
        else:
            perform_sync = functools.partial(perform, outbox=outbox)
            self._sync_runner = ThreadRunner("scale0-handler", options.capacity, perform_sync, outbox)
        async_runner = LoopRunner(loop, outbox)
        saved_config = SavedConfigFile(options.save_config, note)
        self._session = WorkerSession(
            options.link_settings(self.services, saved_config.read()),
            random.Random(),
            capacity=options.capacity,
            offers=[handler.offer for handler in self._handlers.values()],
            adapt=options.adapt,
        )
        shell = Shell(
            self._session, outbox, self._handlers, self._sync_runner, async_runner, saved_config, self.options.pair
        )
        shell.on_ready = self._is_settled.set
        self._link = LinkThread(shell, outbox, on_over)
        return self._link


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(function)
