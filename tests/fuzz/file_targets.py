"""Files that come back from the disk damaged: a broker's state and configs, and what participants have saved.

A broker refuses a damaged file with `SettingsError` that names it, for it must not guess; what it does accept must be
good enough to start from and to serve. What a participant saved is a hint: damage is noted, and the process starts all
the same. Each kind of file is a target of its own.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scale0.core.broker import Broker
from scale0.core.client_session import ClientSession
from scale0.core.link import LinkSettings
from scale0.core.settings import BrokerSettings
from scale0.errors import SettingsError
from scale0.protocol import codec
from scale0.protocol.dialects import CLIENT
from scale0.protocol.messages import Connect, ManagementReq, Ping
from scale0.transport import config_file, state_file
from scale0.transport.config_file import ConfigFile
from scale0.transport.saved_config import SavedConfigFile
from scale0.transport.state_file import StateFile
from tests.core.sessions_kit import Dice
from tests.fuzz.broker_world import look_at, route_of

_directories: list[tempfile.TemporaryDirectory[str]] = []  # they go with the process


@cache
def directory() -> Path:
    """One for this process, where it has its temporary files."""
    _directories.append(tempfile.TemporaryDirectory(prefix="scale0-fuzz-"))
    return Path(_directories[-1].name)


def run_state(data: bytes) -> None:
    """`broker-state.json`."""
    (directory() / state_file.FILE_NAME).write_bytes(data)
    with _naming(state_file.FILE_NAME):
        kept = StateFile(directory()).kept
        serve(Broker(BrokerSettings(), now=0.0, wall_s=1e9, epoch=kept.epoch, state=kept.state))


def run_records(data: bytes) -> None:
    """`config.json`: the versions of the document."""
    (directory() / config_file.FILE_NAME).write_bytes(data)
    with _naming(config_file.FILE_NAME):
        file = ConfigFile(directory())
        file.check()
        records = file.records
        assert config_file.decode(config_file.encode(records)) == records
        serve(Broker(BrokerSettings(identity="b1"), now=0.0, wall_s=1e9, records=records))


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """What is refused is refused with the file's name."""
    try:
        yield
    except SettingsError as error:
        if name not in str(error):
            raise AssertionError(f"a damaged file is refused without its name: {error}") from None


def serve(broker: Broker) -> None:
    """What was read is good enough to serve with."""
    route = route_of("ann")
    listing = ManagementReq(auth_id="", auth_password="", seq=1, command="list")
    for message in (Connect(identity="ann", nonce=b"12345678"), Ping(0), listing):
        for effect in broker.receive(route, CLIENT, message, 1.0):
            look_at(effect)
    for effect in broker.tick(2.0, 1e9 + 2.0):
        look_at(effect)
    for what in ("config_history", "brokers", "network"):
        broker.manage("list", {"what": what}, 3.0)
    broker.check()


def run_saved(data: bytes) -> None:
    """A participant's saved config."""
    notes: list[str] = []
    path = directory() / "saved.json"
    path.write_bytes(data)
    saved = SavedConfigFile(path, notes.append).read()
    settings = LinkSettings(endpoints=["tcp://home:5555"], identity="me", nonce=b"noncenon", saved=saved)
    session = ClientSession(settings, Dice())
    for effect in (*session.start(0.0, 1e9), *session.tick(5.0, 1e9 + 5.0)):
        message = getattr(effect, "message", None)
        if message is not None:
            assert codec.decode(codec.encode(CLIENT, message)) == (CLIENT, message)
