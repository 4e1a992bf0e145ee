"""What the core asks for besides sending, carried out: files, the log, and the sockets between brokers.

These effects are rare. The loop hands them here one by one, in its own thread and in their order; what fails is logged
or becomes an input of the core, and never keeps the broker from serving.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import zmq
from structlog.typing import FilteringBoundLogger

from scale0.core.effects import Admit, Alarm, Dial, Effect, HangUp, KeepConfig, Listen, Persist, Publish, Route
from scale0.transport.announcements import Listener, Publisher
from scale0.transport.clock import Clock
from scale0.transport.config_file import ConfigFile
from scale0.transport.dialer import Dialer
from scale0.transport.key_files import KeyPair
from scale0.transport.loop import Loop
from scale0.transport.state_file import StateFile
from scale0.transport.zap import Doorkeeper


class Core(Protocol):
    """What errands need of `scale0.core.broker.Broker`: a place for what comes of them."""

    def heard_version(self, identity: str, version: bytes, now: float) -> list[Effect]: ...
    def link_broken(self, route: Route, now: float) -> list[Effect]: ...
    def link_refused(self, route: Route, now: float) -> list[Effect]: ...


class Errands:
    """Runs them for one broker. Sockets are made when the first effect needs them."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        core: Core,
        loop: Loop,
        *,
        state_file: StateFile,
        config_file: ConfigFile,
        publisher: Publisher | None,
        log: FilteringBoundLogger,
        clock: Clock,
        pair: KeyPair | None = None,
        doorkeeper: Doorkeeper | None = None,
        on_alarm: Callable[[Alarm], None] = lambda alarm: None,
    ) -> None:
        self._context = context
        self._core = core
        self._loop = loop
        self._state_file = state_file
        self._config_file = config_file
        self._publisher = publisher
        self._pair, self._doorkeeper = pair, doorkeeper
        self._on_alarm = on_alarm
        self._listener: Listener | None = None
        self._log = log
        self._monotonic = clock.monotonic
        self._dialer = Dialer(
            context, loop, on_broken=core.link_broken, on_refused=core.link_refused, log=log, clock=clock, pair=pair
        )
        self._run: dict[type[Effect], Callable[[Any], None]] = {
            Alarm: self._alarm,
            Persist: self._keep_state,
            KeepConfig: self._keep_config,
            Publish: self._publish,
            Listen: self._listen,
            Dial: self._dialer.dial,
            HangUp: self._dialer.hang_up,
            Admit: self._admit,
        }

    def run(self, effect: Effect) -> None:
        """Carry out one effect."""
        self._run[type(effect)](effect)

    def look(self) -> None:
        """What is to be done again from time to time."""
        if self._listener is not None:
            self._listener.try_again()

    def close(self, linger_ms: int) -> None:
        """Close the sockets; the last messages to peers have a moment to leave."""
        self._dialer.close(linger_ms)
        if self._listener is not None:
            self._listener.close()
        if self._publisher is not None:
            self._publisher.close()

    def _alarm(self, effect: Alarm) -> None:
        self._log.error(effect.text, alarm=effect.name)

    def _keep_state(self, effect: Persist) -> None:
        if effect.is_serving:
            self._log.info("serves, as the active one of its pair", epoch=effect.epoch)
        if effect.state == "disabled" and self._state_file.path is None:
            text = "disabled, and that is kept nowhere: it serves again after a restart; start it with --state-dir"
            self._log.warning(text)
        try:
            self._state_file.keep(effect.state, effect.epoch, effect.is_serving)
        except OSError as error:
            text = f"the state could not be kept: {error}; it will not outlive a restart"
            self._log.error(text, alarm="state_not_kept", state=effect.state)
            self._on_alarm(Alarm("state_not_kept", text))

    def _keep_config(self, effect: KeepConfig) -> None:
        try:
            self._config_file.keep(effect.records)
        except OSError as error:
            text = f"the config could not be kept: {error}; make room or give rights, for a restart would not find it"
            self._log.error(text, alarm="config_not_kept")
            self._on_alarm(Alarm("config_not_kept", text))

    def _publish(self, effect: Publish) -> None:
        if self._publisher is not None:
            self._publisher.publish(effect.message)

    def _listen(self, effect: Listen) -> None:
        if self._listener is None:
            if not effect.endpoints:
                return
            self._listener = Listener(self._context, self._log, self._pair)
            self._loop.watch(self._listener.file, self._hear)
        self._listener.listen(effect.endpoints, effect.public_keys)

    def _admit(self, effect: Admit) -> None:
        if self._doorkeeper is not None:
            self._doorkeeper.admit(effect.keys)

    def _hear(self) -> list[Effect]:
        assert self._listener is not None, "it is watched"
        effects: list[Effect] = []
        sieve = self._loop.sieve
        for message in self._listener.hear():
            if sieve is not None and not sieve.hears(message.identity):
                continue
            effects += self._core.heard_version(message.identity, message.config_version, self._monotonic())
        if self._listener.has_more:
            self._loop.call(self._hear)
        return effects
