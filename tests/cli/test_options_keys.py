"""`--key` and `--server-key`, which every command that connects has."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from scale0.cli.failures import Exit
from scale0.cli.main import app, main
from scale0.cli.options import keyed, using_keys
from scale0.core.permissions import Permission
from scale0.testing import broker
from scale0.transport import allowed_file, key_files
from scale0.transport.security import Security


def commands(group: typer.Typer) -> list[tuple[str, Callable[..., object]]]:
    found = [
        (info.name or info.callback.__name__, info.callback) for info in group.registered_commands if info.callback
    ]
    for inner in group.registered_groups:
        found += commands(inner.typer_instance) if inner.typer_instance else []
    return found


def test_every_command_that_has_a_broker_s_address_has_keys() -> None:
    for name, callback in commands(app):
        names = callback.__annotations__
        if any(option in names for option in ("broker", "reach_broker")) and "file" not in name:
            assert {"key", "server_key"} <= names.keys(), name


def test_keys_hold_while_the_command_runs_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALE0_KEY", "before")
    monkeypatch.delenv("SCALE0_SERVER_KEY", raising=False)
    with using_keys("mine", "theirs"):
        assert (os.environ["SCALE0_KEY"], os.environ["SCALE0_SERVER_KEY"]) == ("mine", "theirs")
    assert os.environ["SCALE0_KEY"] == "before"
    assert "SCALE0_SERVER_KEY" not in os.environ


def test_the_function_itself_does_not_see_them() -> None:
    seen: list[tuple[str, str | None]] = []

    def command(name: str) -> None:
        seen.append((name, os.environ.get("SCALE0_KEY")))

    keyed(command)(name="a", key="k", server_key=None)
    assert seen == [("a", "k")]


def test_a_command_asks_an_encrypted_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, ours = key_files.make("broker", "peer"), key_files.make("ops")
    key_files.save(tmp_path / "broker.key", own)
    key_files.save(tmp_path / "ops.key", ours)
    allowed_file.change(tmp_path / "allowed.json", lambda _: [Permission(key=ours.public, name="ops", kind="client")])
    files = Security(str(tmp_path / "broker.key"), str(tmp_path / "allowed.json"))
    with broker(security=files) as running:
        where = ["--broker", running.endpoint]
        keys = ["--key", str(tmp_path / "ops.key"), "--server-key", own.public]
        assert main(["services", *where, *keys]) == Exit.GOOD
        capsys.readouterr()
        assert main(["services", *where]) == Exit.UNREACHABLE
        told = capsys.readouterr().err
        assert "encryption" in told
        assert "start one" not in told
        assert main(["services", *where, *keys[:2]]) == Exit.USAGE, "the broker's key is needed, too"
        assert "--server-key" in capsys.readouterr().err
