"""A broker's files of keys, looked at again and again; and the proof that strangers are refused."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
import zmq

from scale0.core.permissions import Permission, write_time
from scale0.errors import SettingsError
from scale0.testing import broker
from scale0.transport import allowed_file, key_files, zap
from scale0.transport.clock import Clock
from scale0.transport.logs import make_log
from scale0.transport.security import LINES_MAX, Keyring, RefusalLog, Security, probe

WALL_S = 1_900_000_000.0


class Files:
    """A key and a list, and a clock that the test moves."""

    def __init__(self, directory: Path) -> None:
        self.key, self.allowed = directory / "broker.key", directory / "allowed.json"
        self.made = key_files.make("broker", "peer")
        key_files.save(self.key, self.made)
        self.wall_s = WALL_S
        self.now = 0.0
        self.allow(Permission(key=key_files.make_pair().public, name="first"))

    @property
    def security(self) -> Security:
        return Security(str(self.key), str(self.allowed))

    def allow(self, *entries: Permission) -> None:
        allowed_file.change(self.allowed, lambda _: list(entries))

    def ring(self) -> Keyring:
        return Keyring(self.security, Clock(lambda: self.now, lambda: self.wall_s))

    def look(self, ring: Keyring, after_s: float = 1.0) -> bool:
        self.now += after_s
        return ring.look(self.now)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def names(ring: Keyring) -> list[str]:
    return [entry.name for entry in ring.permissions]


def test_a_change_of_the_list_is_noticed_and_only_a_change(files: Files) -> None:
    ring = files.ring()
    assert names(ring) == ["first"]
    assert not files.look(ring)
    files.allow(Permission(key=key_files.make_pair().public, name="second"))
    assert files.look(ring)
    assert names(ring) == ["second"]
    assert not files.look(ring)


def test_files_are_looked_at_once_a_second(files: Files) -> None:
    ring = files.ring()
    files.look(ring)
    files.allow()
    assert not files.look(ring, 0.9)
    assert files.look(ring, 0.2)


def test_a_list_that_cannot_be_read_changes_nothing(files: Files) -> None:
    ring = files.ring()
    files.allowed.write_text("[{")
    assert not files.look(ring)
    assert names(ring) == ["first"]
    assert "allowed.json" in ring.trouble
    files.allowed.unlink()
    files.allow()
    assert files.look(ring)
    assert ring.trouble == ""


def test_a_list_that_others_may_write_changes_nothing(files: Files) -> None:
    ring = files.ring()
    files.allow(Permission(key=key_files.make_pair().public, name="forged"))
    files.allowed.chmod(0o666)
    files.look(ring)
    assert names(ring) == ["first"]
    assert "chmod" in ring.trouble


def test_a_key_whose_time_is_over_ends_without_any_change_of_the_file(files: Files) -> None:
    files.allow(Permission(key=key_files.make_pair().public, name="guest", until=write_time(WALL_S + 10)))
    ring = files.ring()
    assert names(ring) == ["guest"]
    files.wall_s += 10
    assert files.look(ring)
    assert names(ring) == []


def test_a_next_key_is_announced_and_taken_by_the_next_start(files: Files) -> None:
    ring = files.ring()
    rotated = key_files.with_next(files.made, WALL_S + 100)
    key_files.save(files.key, rotated)
    assert files.look(ring)
    assert ring.next_key == rotated.next_public
    files.wall_s += 100
    key_files.save(files.key, rotated)
    files.look(ring)
    assert ring.next_key == rotated.next_public, "as long as this process has the old one"
    assert files.ring().pair.public == rotated.next_public
    assert files.ring().next_key == ""


def test_a_file_that_goes_away_changes_nothing_but_is_told(files: Files) -> None:
    ring = files.ring()
    files.key.unlink()
    assert not files.look(ring)
    assert "no such key" in ring.trouble


def test_a_broker_with_a_key_that_others_can_read_does_not_start(files: Files) -> None:
    files.key.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"), broker(security=files.security):
        pass


def test_a_broker_that_would_let_strangers_in_does_not_start(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without ZAP: CURVE alone admits any key at all."""

    def trusting(socket: zmq.Socket[bytes], secret: str) -> None:
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, secret.encode())

    monkeypatch.setattr(zap, "ADDRESS", "inproc://somewhere-else")
    monkeypatch.setattr(zap, "require", trusting)
    with pytest.raises(SettingsError, match="was let in: the broker does not start"), broker(security=files.security):
        pass


def test_a_broker_without_a_doorkeeper_does_not_start(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed: who insists on a domain, and has nobody to answer, lets nobody in; that is no refusal either."""
    monkeypatch.setattr(zap, "ADDRESS", "inproc://somewhere-else")
    monkeypatch.setattr("scale0.transport.security.PROBE_S", 0.5)
    with pytest.raises(SettingsError, match="got no answer"), broker(security=files.security):
        pass


def test_a_plain_socket_does_not_pass_for_one_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scale0.transport.security.PROBE_S", 0.5)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    try:
        with pytest.raises(SettingsError, match="got no answer"):
            probe(f"tcp://127.0.0.1:{port}", zmq.DEALER, key_files.make_pair().public, key_files.make_pair())
    finally:
        context.destroy(linger=0)


def test_every_port_of_a_broker_asks_for_keys(files: Files) -> None:
    how = {"backend": "tcp://127.0.0.1:0", "publish": "tcp://127.0.0.1:0"}
    with broker(security=files.security, **how) as running:  # type: ignore[arg-type]
        ports = running.server._ports
        assert [(port.is_encrypted, port.is_trusted, port.has_keys) for port in ports] == [(True, True, True)] * 2
        assert running.server.publishes_at is not None
        probe(running.server.publishes_at, zmq.SUB, files.made.public, key_files.make_pair())


def test_refused_keys_are_told_to_the_operator_and_not_too_often() -> None:
    now, said = [10.0], io.StringIO()
    log = RefusalLog(make_log(to=said), lambda: now[0])
    log.unsaid = "probe"
    log("probe", "127.0.0.1")
    for _ in range(100):
        log("k" * 40, "10.0.0.9")
    lines = said.getvalue().splitlines()
    assert len(lines) == LINES_MAX
    assert f"scale0 keys allow '{'k' * 40}'" in lines[0]
    now[0] += 1
    log("k" * 40, "10.0.0.9")
    assert len(said.getvalue().splitlines()) == LINES_MAX + 1


def test_no_secret_is_in_the_arguments_or_environment_of_a_broker_process(files: Files) -> None:
    with broker(security=files.security, process=True) as running:
        arguments = Path(f"/proc/{running.pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{running.pid}/environ").read_bytes()
        assert files.made.secret.encode() not in arguments + environment
    assert os.environ.get("SCALE0_KEY") is None
