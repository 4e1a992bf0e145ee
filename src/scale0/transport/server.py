"""One broker over ZeroMQ: ports, core, loop and monitors put together, from bind to close.

It knows nothing of signals or the command line, so that it runs as a process (`process.py`) and in a thread
(`scale0.testing`) alike. `run` belongs to one thread; `drain`, `stop`, `kill`, `reload` and `manage` to any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0.core.broker import Broker
from scale0.core.effects import Alarm, Effect, Persist, Reload, Stopped
from scale0.core.settings import BrokerSettings
from scale0.errors import SettingsError
from scale0.transport.clock import SYSTEM_CLOCK, Clock
from scale0.transport.loop import Loop
from scale0.transport.monitor import Monitor
from scale0.transport.sockets import LINGER_MS, Port, make_context, open_port
from scale0.transport.state_file import StateFile

DRAIN_S: Final = 30.0


class Server:
    """A bound broker. `endpoints` names the real ports, also where 0 was asked for."""

    def __init__(
        self,
        settings: BrokerSettings,
        bind: str,
        backend: str | None = None,
        *,
        log: FilteringBoundLogger,
        state_dir: Path | None = None,
        reread: Callable[[], BrokerSettings] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        strict: bool = False,
    ) -> None:
        self._log = log.bind(broker=settings.identity)
        self._reread = reread
        self._monotonic = clock.monotonic
        self._state_file = StateFile(state_dir)
        self._context = make_context()
        self._ports = self._open(bind, backend)
        self.endpoints = [port.endpoint for port in self._ports]
        kept = self._state_file.kept
        self.broker = Broker(
            self._complete(settings), now=clock.monotonic(), wall_s=clock.wall(), epoch=kept.epoch, state=kept.state
        )
        self.loop = Loop(
            self.broker,
            self._ports,
            on_effect=self._carry_out,
            on_tick=self._look_around,
            on_bug=self._log.exception,
            clock=clock,
            strict=strict,
        )
        self.monitors = [Monitor(self._context, port, self._log) for port in self._ports]
        self._stop_by_s = math.inf
        self._is_draining = False
        self._linger_ms = LINGER_MS

    # --- the serving thread ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until stopped or drained, then close everything."""
        self._log.info("ready", endpoints=self.endpoints, state=self._state_file.kept.state)
        try:
            self.loop.run()
        finally:
            self.close()

    def close(self) -> None:
        """Close all sockets; the last messages have a moment to leave."""
        for monitor in self.monitors:
            monitor.drain()
            monitor.close()
        for port in self._ports:
            port.close(self._linger_ms)
        self.loop.close()
        self._context.term()
        self._log.info("stopped", **msgspec.structs.asdict(self.loop.counters))

    # --- from any thread, and from signal handlers ----------------------------------------------------------------

    def drain(self, limit_s: float = DRAIN_S) -> None:
        """Take nothing new, finish what is held, then stop; after `limit_s` stop all the same."""
        self._stop_by_s = self._monotonic() + limit_s
        self._is_draining = True
        self.loop.call(self._begin_drain)

    def stop(self) -> None:
        """Say goodbye to everybody, and end."""
        self.loop.call(self._finish)

    def kill(self) -> None:
        """End without a word, as a crash would."""
        self._linger_ms = 0
        self.loop.stop()

    def reload(self) -> None:
        """Read the settings again. What does not validate is logged, and the last good settings stay (rule 22)."""
        self.loop.call(self._reload)

    def manage(self, command: str, arguments: dict[str, Any] | None = None) -> Future[Any]:
        """An operator's command; the future holds its result, or the `ProtocolError` that refused it."""
        answer: Future[Any] = Future()

        def run() -> list[Effect]:
            try:
                result, effects = self.broker.manage(command, arguments or {}, self._monotonic())
            except Exception as error:
                answer.set_exception(error)
                return []
            answer.set_result(result)
            return effects

        self.loop.call(run)
        return answer

    # --- what the core asks for -----------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Alarm):
            self._log.error(effect.text, alarm=effect.name)
        elif isinstance(effect, Persist):
            self._keep(effect.state)
        elif isinstance(effect, Reload):
            self.reload()
        elif isinstance(effect, Stopped):
            self._log.info("drained")
            if self._is_draining:
                self.stop()

    def _look_around(self, now: float) -> None:
        for monitor in self.monitors:
            monitor.drain()
        if now >= self._stop_by_s:
            self._stop_by_s = math.inf
            held = len(self.broker.state.ledger.entries)
            self._log.warning("stopping with tasks in hand: the time for draining is over", tasks=held)
            self.stop()

    def _begin_drain(self) -> list[Effect]:
        self._log.info("draining")
        if self.broker.state.mode in ("disabled", "disabling"):
            return self._finish()  # it holds nothing, or has already been told to let go
        return self.broker.manage("drain", {}, self._monotonic())[1]

    def _finish(self) -> list[Effect]:
        self.loop.is_stopped = True
        return self.broker.stop(self._monotonic())

    def _reload(self) -> list[Effect]:
        if self._reread is None:
            self._log.warning("nothing to reload: this broker was started without a settings file")
            return []
        try:
            settings = self._reread()
        except SettingsError as error:
            self._log.error(f"settings not changed: {error}")
            return []
        old = self.broker.state.settings.identity
        if settings.identity != old:
            self._log.warning("a broker's identity does not change while it runs", kept=old, asked=settings.identity)
            settings = msgspec.structs.replace(settings, identity=old)
        self._log.info("settings read again")
        return self.broker.configure(self._complete(settings), self._monotonic())

    def _keep(self, state: str) -> None:
        try:
            self._state_file.keep(state)
        except OSError as error:
            self._log.error(f"the state could not be kept: {error}; it will not outlive a restart", state=state)

    # --- beginning ------------------------------------------------------------------------------------------------

    def _open(self, bind: str, backend: str | None) -> list[Port]:
        ports: list[Port] = []
        try:
            ports.append(open_port(self._context, bind, 0))
            # The same port for both is one socket; two free ports are two.
            if backend is not None and (backend != bind or bind.endswith((":0", ":*"))):
                ports.append(open_port(self._context, backend, 1))
        except BaseException:
            for port in ports:
                port.close(0)
            self._context.term()
            raise
        return ports

    def _complete(self, settings: BrokerSettings) -> BrokerSettings:
        """Without `advertise`, the addresses that were bound are told, unless they name no particular machine."""
        if settings.advertise:
            return settings
        told = [endpoint for endpoint in self.endpoints if "//0.0.0.0:" not in endpoint and "//[::]:" not in endpoint]
        return msgspec.structs.replace(settings, advertise=told)
