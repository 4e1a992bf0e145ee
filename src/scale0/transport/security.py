"""A broker's keys at work: its own, those that it allows, and the proof at its start that all others are refused.

With a key every socket that the broker binds asks for CURVE, and every one that it connects uses it. Both files are
looked at once a second and read again when they have changed: so a key is revoked within two seconds, one whose time is
over ends, and a rotation of the own key is announced.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
import zmq
from structlog.typing import FilteringBoundLogger

from scale0.core.effects import Admit, Effect
from scale0.core.permissions import Permission
from scale0.errors import SettingsError
from scale0.transport import allowed_file, key_files
from scale0.transport.clock import Clock
from scale0.transport.key_files import KeyPair, make_pair, use
from scale0.transport.zap import Doorkeeper

LOOK_S: Final = 1.0
PROBE_S: Final = 5.0  # a refusal comes within milliseconds
LINES_MAX: Final = 5  # log lines about refused keys in one second

_AUTH: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
_WATCHED: Final = _AUTH | int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_EVENT: Final = struct.Struct("=H")
_EVERY_HOST: Final = {"tcp://0.0.0.0:": "tcp://127.0.0.1:", "tcp://[::]:": "tcp://[::1]:"}


class Security(msgspec.Struct, frozen=True):
    """The broker's files, and the public key of those whom it joins by."""

    key: str
    allowed: str
    server_key: str = ""


class Allowing(Protocol):
    """What a guard needs of `scale0.core.broker.Broker`."""

    def allow(self, permissions: Iterable[Permission], next_key: str, now: float) -> list[Effect]: ...


class Keyring:
    """The broker's own key and the list of those that it allows, as their files say now."""

    def __init__(self, security: Security, clock: Clock) -> None:
        self._key_path, self._allowed_path = Path(security.key), Path(security.allowed)
        self._wall = clock.wall
        self.pair: KeyPair = key_files.load(self._key_path).pair(self._wall())
        self.next_key = ""
        self.permissions: list[Permission] = []
        self.trouble = ""  # why a file was not taken, until it is
        self._allowed: list[Permission] = allowed_file.load(self._allowed_path)
        self._stamps = self._stamp()
        self._looked_s = -LOOK_S
        self._read_key()
        self._choose()

    def look(self, now: float) -> bool:
        """Whether something has changed; it is asked often, and looks once a second."""
        if now - self._looked_s < LOOK_S:
            return False
        self._looked_s = now
        before = (self.permissions, self.next_key)
        stamps = self._stamp()
        if stamps != self._stamps:
            self._stamps, self.trouble = stamps, ""
            try:
                self._allowed = allowed_file.load(self._allowed_path)
                self._read_key()
            except SettingsError as error:  # rule 22: the last good one stays
                self.trouble = str(error)
        self._choose()
        return (self.permissions, self.next_key) != before

    def _read_key(self) -> None:
        file = key_files.load(self._key_path)
        now_key = file.pair(self._wall()).public
        follows = file.next_public if now_key == self.pair.public else now_key
        self.next_key = follows if follows != self.pair.public else ""

    def _choose(self) -> None:
        wall_s = self._wall()
        self.permissions = [entry for entry in self._allowed if not entry.has_ended(wall_s)]

    def _stamp(self) -> list[tuple[int, int, int] | None]:
        return [_stamp_of(path) for path in (self._key_path, self._allowed_path)]


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class RefusalLog:
    """Says which keys were refused, so that an operator can allow them, and not more than a few lines a second."""

    def __init__(self, log: FilteringBoundLogger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._second, self._lines = 0, 0
        self.unsaid = ""  # the key of a probe

    def __call__(self, key: str, address: str) -> None:
        if key == self.unsaid:
            return
        second = int(self._monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._log.warning(f"a key was refused; to allow it: scale0 keys allow '{key}'", address=address)


class Guard:
    """What a broker with a key has besides: its keyring, and the doorkeeper of its context."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], security: Security, log: FilteringBoundLogger, clock: Clock
    ) -> None:
        self._keyring = Keyring(security, clock)
        self._log = log
        self._monotonic = clock.monotonic
        self._refusals = RefusalLog(log, clock.monotonic)
        self._trouble = ""
        self.server_key = security.server_key
        self.pair = self._keyring.pair
        self.doorkeeper = Doorkeeper(context, self._refusals)  # before anything is bound

    def begin(self, broker: Allowing, endpoints: Sequence[str], publishes_at: str | None) -> list[Effect]:
        """Say who is admitted, and make sure that nobody else is. Returns what else the broker has asked for."""
        effects = self.allow(broker, self._monotonic())
        for effect in effects:
            if isinstance(effect, Admit):
                self.doorkeeper.admit(effect.keys)
        stranger = make_pair()
        self._refusals.unsaid = stranger.public
        for endpoint in endpoints:
            probe(endpoint, zmq.DEALER, self.pair.public, stranger)
        if publishes_at is not None:
            probe(publishes_at, zmq.SUB, self.pair.public, stranger)
        if not self._keyring.permissions:
            self._log.warning("no worker or client is allowed yet: scale0 keys allow KEY")
        return effects

    def allow(self, broker: Allowing, now: float) -> list[Effect]:
        """Tell the broker what is allowed now."""
        return broker.allow(self._keyring.permissions, self._keyring.next_key, now)

    def look(self, now: float) -> bool:
        """Whether something has changed since it was last told."""
        has_changed = self._keyring.look(now)
        trouble = self._keyring.trouble
        if trouble and trouble != self._trouble:
            self._log.error(f"keys not changed: {trouble}", alarm="keys_not_read")
        self._trouble = trouble
        return has_changed


def probe(endpoint: str, kind: int, server_key: str, pair: KeyPair) -> None:
    """Connect with a key that nobody knows, by a socket of this kind. Raises `SettingsError` unless it is refused."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        event = _try(context.socket(kind), endpoint, server_key, pair)
    finally:
        context.destroy(linger=0)
    if event != _AUTH:
        said = "was let in" if event is not None else "got no answer"
        raise SettingsError(
            f"a connection with an unknown key to {endpoint} {said}: the broker does not start, "
            "for it could not keep strangers out; is ZeroMQ built with CURVE?"
        )


def _try(socket: zmq.Socket[bytes], endpoint: str, server_key: str, pair: KeyPair) -> int | None:
    """What came of it; None if nothing did in time."""
    socket.set(zmq.LINGER, 0)
    use(socket, server_key, pair)
    monitor = socket.get_monitor_socket(_WATCHED)
    for every, here in _EVERY_HOST.items():
        endpoint = endpoint.replace(every, here)
    socket.set(zmq.IPV6, int("[" in endpoint))
    socket.connect(endpoint)
    end_s = time.monotonic() + PROBE_S
    try:
        while (left_s := end_s - time.monotonic()) > 0:
            if monitor.poll(int(left_s * 1000) + 1):
                event = int(_EVENT.unpack_from(monitor.recv_multipart()[0])[0])
                if event & _WATCHED:
                    return event
        return None
    finally:
        socket.disable_monitor()
        monitor.close(linger=0)
