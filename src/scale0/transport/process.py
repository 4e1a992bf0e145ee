"""A broker as a process of its own: signals, open files, and the log.

    SIGTERM, SIGINT   drain, with a limit, and stop; the second one stops at once
    SIGHUP            read the settings file again

It prints nothing on stdout: whoever starts it is told by `ready` when the ports are bound, with the server, which knows
its name and its real ports.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from structlog.typing import FilteringBoundLogger

from scale0.core.settings import BrokerSettings, ManagementSettings
from scale0.protocol.network import Document
from scale0.transport.logs import make_log
from scale0.transport.recording import Telemetry
from scale0.transport.security import Security
from scale0.transport.server import DRAIN_S, Server

Ready = Callable[[Server], None]


def run_broker(
    settings: BrokerSettings,
    bind: str,
    backend: str | None = None,
    *,
    peer: str | None = None,
    publish: str | None = None,
    seeds: Sequence[str] = (),
    document: Document | None = None,
    state_dir: Path | None = None,
    reread: Callable[[], Document] | None = None,
    telemetry: Telemetry | None = None,
    security: Security | None = None,
    management: ManagementSettings | None = None,
    ready: Ready | None = None,
    drain_s: float = DRAIN_S,
    is_log_json: bool = False,
    is_verbose: bool = False,
    is_quiet: bool = False,
) -> None:
    """Run a broker until it is told to stop. Must be called in the main thread, which alone gets signals.

    `reread` gives the document anew, for SIGHUP and `reload_config`; `Server` tells of the others. Raises `PortTaken`,
    and `SettingsError` if what it kept cannot be read.
    """
    log = make_log(is_json=is_log_json, is_verbose=is_verbose, is_quiet=is_quiet)
    _allow_open_files(log)
    server = Server(
        settings,
        bind,
        backend,
        log=log,
        peer=peer,
        publish=publish,
        seeds=seeds,
        document=document,
        state_dir=state_dir,
        reread=reread,
        telemetry=telemetry,
        security=security,
        management=management,
    )
    with _signals_to(server, drain_s):
        if ready is not None:
            ready(server)
        server.run()


@contextlib.contextmanager
def _signals_to(server: Server, drain_s: float) -> Iterator[None]:
    """Signals reach `server` while the block runs, and whoever had them before afterwards."""
    asked = 0

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            server.drain(drain_s)
        else:
            server.stop()

    def reload(number: int, frame: FrameType | None) -> None:
        server.reload()

    handlers = {signal.SIGTERM: end, signal.SIGINT: end}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = reload
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    # A signal may come to another thread than the one that waits for messages: this ends the wait all the same.
    woken_before = signal.set_wakeup_fd(server.loop.wake_fd, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in before.items():
            signal.signal(number, handler)


def _allow_open_files(log: FilteringBoundLogger) -> None:
    """A connection is an open file: take as many as the system lets this process have."""
    try:
        import resource
    except ImportError:  # not on this system: it has no such limit either
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError) as error:
        log.warning("the limit of open files stays", limit=soft, why=str(error))
