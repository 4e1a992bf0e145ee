"""`scale0 user`: users are added, changed and removed; passwords come from a prompt or from standard input alone."""

from __future__ import annotations

import errno
import getpass
import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from scale0.cli import user_command
from scale0.cli.failures import Exit
from scale0.cli.main import main
from scale0.cli.render import Page
from scale0.errors import UsageError
from scale0.management.passwords import is_right
from scale0.management.users import read_users

PASSWORD = "open sesame"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "users.json"


def run(path: Path, *words: str, password: str | None = None, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO("" if password is None else f"{password}\n"))
    return main(["user", *words, "--users", str(path)])


def test_a_user_is_added_with_a_password_from_standard_input(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("add", "ann", "--role", "operate", "--services", "render*", "--services", "ocr")
    assert run(path, *words, password=PASSWORD, monkeypatch=monkeypatch) == Exit.GOOD
    user = read_users(path)["ann"]
    assert (user.role, user.services) == ("operate", ["render*", "ocr"])
    assert is_right(user, PASSWORD)
    told = capsys.readouterr()
    assert "Next: " in told.out
    assert PASSWORD not in told.out + told.err + path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_password_role_and_user_can_be_changed_and_removed(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(path, "add", "ann", password=PASSWORD, monkeypatch=monkeypatch)
    assert run(path, "passwd", "ann", password="another one", monkeypatch=monkeypatch) == Exit.GOOD
    assert is_right(read_users(path)["ann"], "another one")
    assert run(path, "role", "ann", "admin", monkeypatch=monkeypatch) == Exit.GOOD
    assert read_users(path)["ann"].role == "admin"
    capsys.readouterr()
    assert run(path, "list", "--json", monkeypatch=monkeypatch) == Exit.GOOD
    listed = json.loads(capsys.readouterr().out)
    assert listed["rows"] == [{"name": "ann", "role": "admin", "services": None}]
    assert run(path, "list", monkeypatch=monkeypatch) == Exit.GOOD
    told = capsys.readouterr().out
    assert "ann" in told
    assert "argon2" not in told
    assert run(path, "remove", "ann", monkeypatch=monkeypatch) == Exit.GOOD
    assert "nobody can manage" in capsys.readouterr().out
    run(path, "list", monkeypatch=monkeypatch)
    assert "scale0 user add" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "password", "told"),
    [
        (("add", "ann"), PASSWORD, "there is a user ann already"),
        (("add", "bob"), "short", "at least 8 characters"),
        (("add", "bob"), None, "no password for bob on standard input"),
        (("add", "bob", "--role", "root"), PASSWORD, "view, operate, admin"),
        (("add", "a:b"), PASSWORD, "no name of a user"),
        (("passwd", "bob"), PASSWORD, "no user bob; there are ann"),
        (("role", "bob", "view"), None, "no user bob"),
        (("remove", "bob"), None, "no user bob"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_that_says_what_can(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    password: str | None,
    told: str,
) -> None:
    run(path, "add", "ann", password=PASSWORD, monkeypatch=monkeypatch)
    before = path.read_text()
    assert run(path, *words, password=password, monkeypatch=monkeypatch) == Exit.USAGE
    assert told in capsys.readouterr().err
    assert path.read_text() == before


def test_a_password_is_no_argument(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(path, "add", "ann", PASSWORD, monkeypatch=monkeypatch) == Exit.USAGE
    assert not path.exists()


def test_in_a_terminal_the_password_is_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    typed = iter([PASSWORD, PASSWORD, PASSWORD, "open seasame"])
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(typed))
    assert user_command.read_password("ann") == PASSWORD
    with pytest.raises(UsageError, match="differ"):
        user_command.read_password("ann")


def test_a_file_that_others_can_read_is_refused_with_the_cure(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(path, "add", "ann", password=PASSWORD, monkeypatch=monkeypatch)
    path.chmod(0o644)
    assert run(path, "list", monkeypatch=monkeypatch) != Exit.GOOD
    assert f"chmod 600 {path}" in capsys.readouterr().err


def test_the_usual_file_is_in_the_config_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{PASSWORD}\n"))
    assert main(["user", "add", "ann"]) == Exit.GOOD
    assert list(read_users(tmp_path / "scale0" / "users.json")) == ["ann"]


def test_a_scrape_token_is_written_for_its_owner_alone_and_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scrape"
    assert user_command.make_token(file, Page()) is Exit.GOOD
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text().strip()) == 64
    assert file.read_text().strip() not in capsys.readouterr().out
    with pytest.raises(UsageError, match="is there already"):
        user_command.make_token(file, Page())


def test_a_scrape_token_that_cannot_be_written_leaves_no_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        user_command.make_token(tmp_path / "scrape", Page())
    assert list(tmp_path.iterdir()) == []
