"""What a parameter may be at most: the limits of one message, checked once, where it is read.

Types are msgspec's business; this module asks for lengths and ranges, so that the core may rely on every identity,
name, id, nonce and number that it is given. A command that is not in the table carries nothing that could outgrow the
header frame's own limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scale0.errors import ProtocolError
from scale0.protocol import limits
from scale0.protocol.codes import Code
from scale0.protocol.messages import (
    Cancel,
    Config,
    ConfigAck,
    ConfigChange,
    Connect,
    Error,
    NeedBroker,
    PeerStatus,
    Rare,
    Ready,
    ReadyOk,
    ServiceOffer,
)

_INTERVAL_MS_MAX = limits.REMAINING_MS_MAX


def check(message: Rare) -> None:
    """Raise `ProtocolError` 400 if a parameter of `message` is out of its bounds."""
    checks = _CHECKS.get(type(message))
    if checks is not None:
        checks(message)


def check_service(name: str) -> None:
    """A service name has 1 to 128 bytes of UTF-8."""
    _bytes("a service name", name.encode(), 1, limits.SERVICE_BYTES_MAX)


def _check_connect(message: Connect) -> None:
    _identity(message.identity)
    _bytes("nonce", message.nonce, limits.NONCE_BYTES, limits.NONCE_BYTES)
    _services(message.services)
    _version(message.config_version)
    _ids(message.in_flight)
    _between("covers_ms", message.covers_ms, 0, limits.REMAINING_MS_MAX)
    _between("serial", message.serial, 0, limits.SERIAL_MAX)
    _bytes("home", message.home.encode(), 0, limits.IDENTITY_BYTES_MAX)
    _count("epochs", list(message.epochs), limits.EPOCHS_MAX)
    for primary, epoch in message.epochs.items():
        _identity(primary)
        _between("epochs", epoch, 0, limits.EPOCH_MAX)
    _bytes("process", message.process.encode(), 0, limits.IDENTITY_BYTES_MAX)


def _check_ready(message: Ready) -> None:
    _services([offer.name for offer in message.services])
    for offer in message.services:
        _check_offer(offer)
    _between("capacity", message.capacity, 0, limits.CAPACITY_MAX)
    _between("heartbeat_interval_ms", message.heartbeat_interval_ms, 0, _INTERVAL_MS_MAX)
    _version(message.config_version)
    _ids(message.in_flight)


def _check_offer(offer: ServiceOffer) -> None:
    _between("max_attempts", offer.max_attempts, 1, limits.ATTEMPTS_MAX)


def _check_needbroker(message: NeedBroker) -> None:
    _identity(message.identity)
    _services(message.services)
    _count("tried", message.tried, limits.TRIED_MAX)


def _check_readyok(message: ReadyOk) -> None:
    _between("heartbeat_interval_ms", message.heartbeat_interval_ms, 0, _INTERVAL_MS_MAX)
    _between("capacity", message.capacity, 0, limits.CAPACITY_MAX)
    _between("epoch", message.epoch, 0, limits.EPOCH_MAX)


def _check_config(message: Config | ConfigAck) -> None:
    _bytes("pair", message.pair.encode(), 0, limits.IDENTITY_BYTES_MAX)
    _version(message.config_version)
    _between("heartbeat_interval_ms", message.heartbeat_interval_ms, 0, _INTERVAL_MS_MAX)
    _between("liveness", message.liveness, 0, limits.LIVENESS_MAX)
    _between("epoch", message.epoch, 0, limits.EPOCH_MAX)


def _check_cancel(message: Cancel) -> None:
    _ids([message.id])


def _check_error(message: Error) -> None:
    _between("code", message.code, 100, 999)
    if message.id:
        _ids([message.id])


def _check_peerstatus(message: PeerStatus) -> None:
    _identity(message.identity)
    _version(message.config_version)
    _between("epoch", message.epoch, 0, limits.EPOCH_MAX)
    _between("heartbeat_interval_ms", message.heartbeat_interval_ms, 0, _INTERVAL_MS_MAX)
    _between("stream", message.stream, 0, limits.EPOCH_MAX)
    _between("ask", message.ask, 0, limits.EPOCH_MAX)
    _between("echo", message.echo, 0, limits.EPOCH_MAX)
    _count("services", message.services, limits.PEER_SERVICES_MAX)
    for service in message.services:
        check_service(service.name)
        _between("credit", service.credit, 0, limits.CREDIT_MAX)
        _between("workers", service.workers, 0, limits.CREDIT_MAX)
        _between("queued", service.queued, 0, limits.CREDIT_MAX)
        _between("max_attempts", service.max_attempts, 1, limits.ATTEMPTS_MAX)


def _check_configchange(message: ConfigChange) -> None:
    if message.base:
        _version(message.base)


_CHECKS: dict[type[Any], Callable[[Any], None]] = {
    Connect: _check_connect,
    Ready: _check_ready,
    NeedBroker: _check_needbroker,
    ReadyOk: _check_readyok,
    Config: _check_config,
    ConfigAck: _check_config,
    Cancel: _check_cancel,
    Error: _check_error,
    PeerStatus: _check_peerstatus,
    ConfigChange: _check_configchange,
}


def _identity(identity: str) -> None:
    _bytes("identity", identity.encode(), 1, limits.IDENTITY_BYTES_MAX)


def _version(version: bytes) -> None:
    _bytes("config_version", version, limits.VERSION_BYTES, limits.VERSION_BYTES)


def _services(names: Sequence[str]) -> None:
    _count("services", names, limits.SERVICES_PER_WORKER_MAX)
    for name in names:
        check_service(name)


def _ids(ids: Sequence[bytes]) -> None:
    _count("in_flight", ids, limits.IN_FLIGHT_IDS_MAX)
    for task_id in ids:
        _bytes("an id", task_id, limits.ID_BYTES_MIN, limits.ID_BYTES_MAX)


def _bytes(what: str, value: bytes, least: int, most: int) -> None:
    if not least <= len(value) <= most:
        allowed = f"{least} to {most}" if least != most else f"exactly {most}"
        raise ProtocolError(Code.MALFORMED, f"{what}: {len(value)} bytes; allowed are {allowed}")


def _between(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ProtocolError(Code.MALFORMED, f"{what}: {value}; allowed are {least} to {most}")


def _count(what: str, values: Sequence[object], most: int) -> None:
    if len(values) > most:
        raise ProtocolError(Code.MALFORMED, f"{what}: {len(values)} entries; at most {most} are allowed")
