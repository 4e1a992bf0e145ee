"""One broker over ZeroMQ: ports, core, loop and monitors put together, from bind to close.

It knows nothing of signals or the command line, so that it runs as a process (`process.py`) and in a thread
(`scale0.testing`) alike. `run` belongs to one thread; `drain`, `stop`, `kill`, `reload` and `manage` to any.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from scale0 import __version__
from scale0.core.broker import Broker
from scale0.core.effects import Alarm, Answered, Asked, Cut, Effect, FromFiles, Heal, Persist, Reload, Stopped
from scale0.core.settings import BrokerSettings, ManagementSettings
from scale0.errors import PortTaken, ProtocolError, SettingsError
from scale0.management.page_process import TOKEN_S
from scale0.management.vocabulary import Role
from scale0.protocol import documents
from scale0.protocol.codes import Code
from scale0.protocol.limits import NONCE_BYTES
from scale0.protocol.network import ConfigRecord, Document
from scale0.transport.addresses import default_identity, this_process, told_address
from scale0.transport.announcements import Publisher
from scale0.transport.clock import SYSTEM_CLOCK, Clock
from scale0.transport.config_file import ConfigFile, passed_over
from scale0.transport.errands import Errands
from scale0.transport.key_files import KeyPair
from scale0.transport.loop import Loop
from scale0.transport.management import Management
from scale0.transport.monitor import Monitor
from scale0.transport.partition import Partition
from scale0.transport.recording import Recording, Telemetry
from scale0.transport.security import Guard, Security
from scale0.transport.sockets import LINGER_MS, Port, make_context, open_port
from scale0.transport.state_file import StateFile

DRAIN_S: Final = 30.0


class Server:
    """A bound broker. `endpoints` and `publishes_at` name the real ports, also where 0 was asked for.

    `seeds` are the addresses of brokers to join by. `document` is what the operator wrote, for a broker that has kept
    no config; `reread` gives it anew. `publish` is where its config's version is published, `peer` a port for other
    brokers alone. With `telemetry` it records what it does, and with `security` it has a key, and asks for one.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        bind: str,
        backend: str | None = None,
        *,
        log: FilteringBoundLogger,
        peer: str | None = None,
        publish: str | None = None,
        seeds: Sequence[str] = (),
        document: Document | None = None,
        state_dir: Path | None = None,
        reread: Callable[[], Document] | None = None,
        telemetry: Telemetry | None = None,
        security: Security | None = None,
        management: ManagementSettings | None = None,
        clock: Clock = SYSTEM_CLOCK,
        strict: bool = False,
    ) -> None:
        if management is not None:
            settings = msgspec.structs.replace(settings, management=management)
        self._told, self._reread = document, reread
        self._monotonic = clock.monotonic
        self._stop_by_s = math.inf
        self._is_draining = self._is_finished = False
        self._linger_ms = LINGER_MS
        self._state_file, self._config_file = StateFile(state_dir), ConfigFile(state_dir)
        self._config_file.check()
        self._context = make_context()
        self.guard = Guard(self._context, security, log, clock) if security is not None else None
        self._ports: list[Port] = []
        self._publisher: Publisher | None = None
        self.recording = Recording(telemetry, self._say_of_recording, clock) if telemetry is not None else None
        try:
            self._open(bind, backend, peer, publish, settings.identity)
            settings = self._complete(settings, len(_apart(bind, backend)), is_joining=bool(seeds))
            self.broker = self._make_broker(settings, list(seeds), document, clock)
            self._admit()
        except BaseException:
            self._context.destroy(linger=0)
            raise
        self.identity, self._mode = settings.identity, self.broker.state.mode  # the mode that the log was told last
        self._log = log.bind(broker=self.identity)
        self.loop = self._make_loop(clock, strict)
        self._errands = self._make_errands(clock)
        self._partition = Partition(self.broker, self.loop, self._log, clock)
        self.monitors = [Monitor(self._context, port, self._log) for port in self._ports]
        self._begin_recording()
        self.management = Management(
            self.broker,
            self.loop,
            endpoints=self.endpoints,
            state_dir=state_dir,
            recording=self.recording,
            connections=lambda: sum(monitor.counters.open for monitor in self.monitors),
            now=self._monotonic,
            log=self._log,
        )
        self.management.begin()

    # --- the serving thread ---------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until stopped or drained, then close everything."""
        self._mode = self.broker.state.mode
        self._log.info("ready", endpoints=self.endpoints, state=self._mode)
        config = self.broker.state.config
        if config.version.number and (differs := passed_over(self._told, config.document)):
            text = f"the config that was kept holds, {config.version}; the settings file says otherwise: {differs}"
            self._log.warning(f"{text}; to change the network's: scale0 config apply FILE")
        try:
            self.loop.run()
        finally:
            self.close()

    def close(self) -> None:
        """Close all sockets; the last messages have a moment to leave."""
        for monitor in self.monitors:
            monitor.drain()
            monitor.close()
        self._errands.close(self._linger_ms)
        for port in self._ports:
            port.close(self._linger_ms)
        self.loop.close()
        self._context.term()
        if self.recording is not None:
            self.recording.end(is_clean=self._is_finished)
        self.management.close()
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
        """Read the document again. What does not validate is logged, and the last good one stays (rule 22)."""
        self.loop.call(self._reload)

    def manage(self, command: str, arguments: dict[str, Any] | None = None) -> Future[Any]:
        """An operator's command; the future holds its result, or the `ProtocolError` that refused it.

        Its result may come later: a change of config is answered by the broker that sequences changes.
        """
        return self.management.manage(command, arguments)

    @property
    def page_url(self) -> str:
        """Where the page is, when it is up; `SettingsError` says why it is not."""
        return self.management.page_url()

    def new_token(self, role: Role | str = Role.ADMIN, for_s: float = TOKEN_S) -> str:
        """A token for one login at the page, good for so long."""
        return self.management.new_token(role, for_s)

    # --- what the core asks for -----------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Reload):
            self.loop.call(partial(self._reload, effect.key))
        elif isinstance(effect, Stopped):
            self._log.info("drained")
            if self._is_draining:
                self.stop()
        elif isinstance(effect, Answered):
            self.management.answered(effect)
        elif isinstance(effect, Asked):
            self.management.heed(effect)
        elif isinstance(effect, Cut):
            self._partition.cut(effect)
        elif isinstance(effect, Heal):
            self._partition.heal(effect)
        elif isinstance(effect, FromFiles):
            assert self.recording is not None, "the core asks only if somebody records"
            self.recording.files.ask(effect, self._answer_from_files)
        else:
            self._errands.run(effect)
            if isinstance(effect, Alarm | Persist):
                self.management.notice(effect)

    def _answer_from_files(self, key: int, result: Any) -> None:
        """From the thread that reads them."""
        with contextlib.suppress(RuntimeError):  # so many calls wait that this one is late anyway
            self.loop.call(lambda: self.broker.answer(key, result, self._monotonic()))

    def _say_of_recording(self, text: str) -> None:
        self._log.warning(f"telemetry: {text}")

    def _notice(self, alarm: Alarm) -> None:
        self.management.notice(alarm)

    def _look_around(self, now: float) -> None:
        if self.broker.state.mode != self._mode:
            self._log.info(f"is {self.broker.state.mode} now", was=self._mode)
            self._mode = self.broker.state.mode
        self._partition.look(now)
        self._errands.look()
        if self.guard is not None and self.guard.look(now):
            self.loop.call(self._allow)
        for monitor in self.monitors:
            monitor.drain()
        if now >= self._stop_by_s:
            self._stop_by_s = math.inf
            held = len(self.broker.state.ledger.entries)
            self._log.warning("stopping with tasks in hand: the time for draining is over", tasks=held)
            self.stop()

    def _allow(self) -> list[Effect]:
        """The operator has changed who may do what, or a key's time is over."""
        assert self.guard is not None, "it has looked"
        return self.guard.allow(self.broker, self._monotonic())

    def _begin_drain(self) -> list[Effect]:
        self._log.info("draining")
        if self.broker.state.mode in ("disabled", "disabling"):
            return self._finish()  # it holds nothing, or has already been told to let go
        return self.broker.manage("drain", {}, self._monotonic())[1]

    def _finish(self) -> list[Effect]:
        self.loop.is_stopped = self._is_finished = True
        return self.broker.stop(self._monotonic())

    def _reload(self, key: int = 0) -> list[Effect]:
        """For a signal, or for the command that waits with this key."""
        now = self._monotonic()
        if self._reread is None:
            text = "nothing to reload: this broker was started without a settings file"
            self._log.warning(text)
            version = str(self.broker.state.config.version)
            return self.broker.answer(key, {"version": version, "changed": False, "note": text}, now)
        try:
            effects = self.broker.configure(self._reread(), now, key=key)
        except (SettingsError, ProtocolError) as error:
            refusal = error if isinstance(error, ProtocolError) else ProtocolError(Code.MALFORMED, str(error))
            self._log.error(f"settings not changed: {refusal.text}")
            return self.broker.answer(key, refusal, now)
        self._log.info("settings read again")
        return effects

    # --- beginning ------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Say who is let in, where keys are asked for. What else the broker asks for by then is not lost."""
        if self.guard is not None:
            self.broker.state.effects[:0] = self.guard.begin(self.broker, self.endpoints, self.publishes_at)

    def _make_loop(self, clock: Clock, strict: bool) -> Loop:
        loop = Loop(
            self.broker,
            self._ports,
            on_effect=self._carry_out,
            on_tick=self._look_around,
            on_bug=self._log.exception,
            clock=clock,
            strict=strict,
        )
        if self.broker.state.access is not None:
            loop.known = self.broker.state.access.keys
        return loop

    def _make_errands(self, clock: Clock) -> Errands:
        return Errands(
            self._context,
            self.broker,
            self.loop,
            state_file=self._state_file,
            config_file=self._config_file,
            publisher=self._publisher,
            log=self._log,
            clock=clock,
            pair=self._pair,
            doorkeeper=self.guard.doorkeeper if self.guard is not None else None,
            on_alarm=self._notice,
        )

    def _begin_recording(self) -> None:
        if self.recording is not None:
            self.recording.begin(self.broker, version=__version__, endpoints=self.endpoints)
            self.loop.record = self.recording.look

    @property
    def _pair(self) -> KeyPair | None:
        return self.guard.pair if self.guard is not None else None

    def _open(self, bind: str, backend: str | None, peer: str | None, publish: str | None, identity: str) -> None:
        options = {peer or "": "peer_port of the config", backend or "": "--backend", bind: "--bind"}
        for index, address in enumerate(_apart(bind, backend, peer)):
            self._ports.append(open_port(self._context, address, index, pair=self._pair, option=options[address]))
        if publish is not None:
            self._publisher = self._open_publisher(publish, identity)
        self.endpoints = [port.endpoint for port in self._ports]
        self.publishes_at = self._publisher.endpoint if self._publisher is not None else None

    def _open_publisher(self, publish: str, identity: str) -> Publisher:
        """A free port is the one that it had before, if it can be: else each restart would change the config."""
        former = _published_at(self._config_file.records, identity)
        if _is_free(publish) and former.rpartition(":")[0] == publish.rpartition(":")[0]:
            with contextlib.suppress(PortTaken):
                return Publisher(self._context, former, self._pair)
        return Publisher(self._context, publish, self._pair)

    def _complete(self, settings: BrokerSettings, task_ports: int, *, is_joining: bool) -> BrokerSettings:
        """What only the process knows: where it really listens, and a name of its own if it was given none."""
        identity = settings.identity
        if not identity or (is_joining and identity == BrokerSettings().identity):
            identity = default_identity(self.endpoints[0], socket.gethostname())
        told = [told_address(endpoint) for endpoint in self.endpoints[:task_ports]]
        advertise = settings.advertise or [endpoint for endpoint in told if endpoint]
        config_pub = settings.config_pub
        if self._publisher is not None and (not config_pub or _is_free(config_pub)):
            config_pub = told_address(self._publisher.endpoint, advertise)
        told_of = {"advertise": advertise, "config_pub": config_pub, "process": this_process()}
        told_of["public_key"] = self._pair.public if self._pair is not None else ""
        return msgspec.structs.replace(settings, identity=identity, **told_of)

    def _make_broker(
        self, settings: BrokerSettings, seeds: list[str], document: Document | None, clock: Clock
    ) -> Broker:
        return Broker(
            settings,
            now=clock.monotonic(),
            wall_s=clock.wall(),
            epoch=self._state_file.kept.epoch,
            state=self._state_file.kept.state,
            was_serving=self._state_file.kept.is_serving,
            nonce=os.urandom(NONCE_BYTES),
            records=self._config_file.records,
            seeds=seeds,
            seed_key=self.guard.server_key if self.guard is not None else "",
            document=document,
            boot=self.recording.boot if self.recording is not None else "",
        )


def _published_at(records: Sequence[ConfigRecord], identity: str) -> str:
    """Where the kept config says that this broker publishes."""
    if not records:
        return ""
    entry = documents.decode(records[-1].document, "JSON", Document).broker(identity)
    return entry.config_pub if entry is not None else ""


def _is_free(address: str) -> bool:
    """Whether the system chooses the port."""
    return address.endswith((":0", ":*"))


def _apart(*addresses: str | None) -> list[str]:
    """The same address for two purposes is one port; two free ports are two."""
    found: list[str] = []
    for address in addresses:
        if address and (_is_free(address) or address not in found):
            found.append(address)
    return found
