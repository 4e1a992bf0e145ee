"""The file of users: its owner's alone, replaced as a whole, and read again when it changes."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from scale0.errors import SettingsError
from scale0.management.passwords import hash_password
from scale0.management.users import User, Users, changing_users, read_users, write_users
from scale0.management.vocabulary import Role

HASH = hash_password("open sesame")
ANN = User(HASH, "operate", ["render*"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "users.json"


def test_what_is_written_is_read_and_nobody_else_can_read_it(path: Path) -> None:
    write_users(path, {"ann": ANN})
    assert read_users(path) == {"ann": ANN}
    assert read_users(path)["ann"].rank is Role.OPERATE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["users.json"], "no other file is left"


def test_no_file_means_no_users(path: Path) -> None:
    assert read_users(path) == {}
    assert not Users(path)
    assert not Users(None)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_read_or_change_is_refused_and_lets_nobody_in(path: Path, mode: int) -> None:
    write_users(path, {"ann": ANN})
    path.chmod(mode)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_users(path)
    users = Users(path)
    assert users.get("ann") is None
    assert "chmod 600" in users.why
    path.chmod(0o600)
    assert users.look()
    assert users.get("ann") == ANN


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("not json", "no file of users"),
        ('{"users": {"ann": {"role": "view"}}}', "password"),
        ('{"users": {"ann": {"password": "hunter22", "role": "view"}}}', "no Argon2id hash"),
        (f'{{"users": {{"ann": {{"password": "{HASH}", "role": "root"}}}}}}', "view, operate, admin"),
        (f'{{"users": {{"a:b": {{"password": "{HASH}", "role": "view"}}}}}}', "no name of a user"),
    ],
)
def test_a_file_that_cannot_be_right_says_why_and_shows_no_password(path: Path, content: str, told: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(SettingsError, match=told) as caught:
        read_users(path)
    assert "hunter22" not in str(caught.value)
    assert HASH not in str(caught.value)


def test_a_change_is_noticed_and_changes_the_users_stamp(path: Path) -> None:
    write_users(path, {"ann": ANN, "bob": User(HASH, "view")})
    users = Users(path)
    before = {name: users.stamp(name) for name in ("ann", "bob")}
    assert not users.look()
    write_users(path, {"ann": User(HASH, "view", ["render*"]), "bob": User(HASH, "view")})
    assert users.look()
    assert users.stamp("ann") != before["ann"]
    assert users.stamp("bob") == before["bob"]
    path.unlink()
    assert users.look()
    assert users.stamp("bob") == ""


def test_a_users_password_is_not_shown() -> None:
    assert HASH not in repr(ANN)


def test_two_who_change_it_at_once_lose_nothing(path: Path) -> None:
    def add(name: str) -> None:
        with changing_users(path) as users:
            users[name] = ANN

    threads = [threading.Thread(target=add, args=(f"user-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_users(path)) == 8


def test_what_fails_while_it_is_changed_changes_nothing(path: Path) -> None:
    write_users(path, {"ann": ANN})

    def fail() -> None:
        with changing_users(path) as users:
            users.clear()
            raise RuntimeError("on the way")

    with pytest.raises(RuntimeError):
        fail()
    assert read_users(path) == {"ann": ANN}


def test_a_place_that_cannot_be_written_is_told() -> None:
    with pytest.raises(SettingsError, match="cannot be written"):
        write_users(Path(os.devnull) / "users.json", {})
