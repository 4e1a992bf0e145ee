"""Passwords: Argon2 for two at once and no more, a limit before it, and a memory that is short and forgets."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from scale0.errors import ProtocolError, SettingsError
from scale0.management import passwords
from scale0.management.passwords import Authenticator, hash_password, is_right
from scale0.management.users import User, Users, write_users
from scale0.management.vocabulary import Principal, Role
from scale0.testing import managed_by
from tests.management.engine import LIMIT_S


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Counting:
    """Verifies as the real one does, and counts."""

    def __init__(self) -> None:
        self.users: list[User] = []

    def __call__(self, user: User, password: str) -> bool:
        self.users.append(user)
        return is_right(user, password)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def users(tmp_path: Path) -> Users:
    managed_by(tmp_path, {"ann": "open sesame", "bob": "correct horse"}, role="operate")
    return Users(tmp_path / "users.json")


def code_of(answer: Future[Principal]) -> int:
    error = answer.exception(LIMIT_S)
    if error is None:
        return 200
    assert isinstance(error, ProtocolError)
    return int(error.code)


def test_a_hash_is_argon2id_with_the_librarys_defaults_and_its_own_salt() -> None:
    first, second = hash_password("open sesame"), hash_password("open sesame")
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert first != second
    assert is_right(User(first, "view"), "open sesame")
    assert not is_right(User(first, "view"), "open sesam")
    assert not is_right(User("no hash", "view"), "open sesame")


@pytest.mark.parametrize("password", ["short", "x" * 2000])
def test_a_password_has_a_length(password: str) -> None:
    with pytest.raises(SettingsError, match=r"at least 8|at most 1,024"):
        hash_password(password)


def test_the_right_password_says_who_it_is(users: Users) -> None:
    known = Authenticator(users).authenticate("ann", "open sesame", "local", "http").result(LIMIT_S)
    assert known == Principal("ann", Role.OPERATE, "http", "local", None)


def test_argon2_runs_for_two_at_once_and_never_in_the_callers_thread(users: Users) -> None:
    running = threading.Semaphore(0)
    go_on = threading.Event()
    lock, now, most, names = threading.Lock(), 0, 0, set()

    def slow(user: User, password: str) -> bool:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            names.add(threading.current_thread().name)
        running.release()
        assert go_on.wait(LIMIT_S)
        with lock:
            now -= 1
        return False

    authenticator = Authenticator(users, verify=slow)
    answers = [authenticator.authenticate("ann", f"guess {number}", f"source {number}") for number in range(10)]
    assert running.acquire(timeout=LIMIT_S)
    assert running.acquire(timeout=LIMIT_S)
    go_on.set()
    assert [code_of(answer) for answer in answers] == [401] * 10
    assert most == passwords.AT_ONCE_MAX == 2
    assert threading.current_thread().name not in names


def test_an_unknown_user_costs_as_much_as_a_known_one(users: Users) -> None:
    counting = Counting()
    authenticator = Authenticator(users, verify=counting)
    assert code_of(authenticator.authenticate("nobody", "open sesame", "local")) == 401
    (checked,) = counting.users
    assert checked.password.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


def test_a_limit_for_each_source_stands_before_argon2(users: Users, clock: Clock) -> None:
    counting = Counting()
    authenticator = Authenticator(users, now=clock, verify=counting)
    for number in range(passwords.TRIES_MAX):
        assert code_of(authenticator.authenticate(f"user {number}", "guess", "10.0.0.7")) == 401
    assert code_of(authenticator.authenticate("ann", "open sesame", "10.0.0.7")) == 429
    assert len(counting.users) == passwords.TRIES_MAX, "it was not even tried"
    assert code_of(authenticator.authenticate("ann", "open sesame", "10.0.0.8")) == 200, "another source"
    clock.now += passwords.TRY_S
    assert code_of(authenticator.authenticate("ann", "open sesame", "10.0.0.7")) == 200


def test_failures_make_the_same_user_wait_longer_and_longer(users: Users, clock: Clock) -> None:
    authenticator = Authenticator(users, now=clock)
    for _ in range(passwords.FAILURES_FREE + 1):
        assert code_of(authenticator.authenticate("ann", "guess", "10.0.0.7")) == 401
    assert code_of(authenticator.authenticate("ann", "open sesame", "10.0.0.7")) == 429
    assert code_of(authenticator.authenticate("bob", "correct horse", "10.0.0.7")) == 200, "another user"
    clock.now += passwords.BACKOFF_S * 2
    assert code_of(authenticator.authenticate("ann", "guess", "10.0.0.7")) == 401
    clock.now += passwords.BACKOFF_S * 2
    assert code_of(authenticator.authenticate("ann", "open sesame", "10.0.0.7")) == 429, "the wait has doubled"
    clock.now += passwords.BACKOFF_S * 4
    assert code_of(authenticator.authenticate("ann", "open sesame", "10.0.0.7")) == 200
    assert code_of(authenticator.authenticate("ann", "guess", "10.0.0.7")) == 401, "it is forgotten by a right one"


def test_what_was_verified_is_remembered_for_a_minute_and_not_the_wrong_ones(users: Users, clock: Clock) -> None:
    counting = Counting()
    authenticator = Authenticator(users, now=clock, verify=counting)
    for _ in range(100):
        assert code_of(authenticator.authenticate("ann", "open sesame", "local")) == 200
    assert len(counting.users) == 1
    assert code_of(authenticator.authenticate("ann", "open sesame ", "local")) == 401
    assert len(counting.users) == 2
    clock.now += passwords.KNOWN_S
    assert code_of(authenticator.authenticate("ann", "open sesame", "local")) == 200
    assert len(counting.users) == 3


def test_a_change_of_the_file_forgets_what_was_verified(users: Users, clock: Clock) -> None:
    authenticator = Authenticator(users, now=clock)
    assert code_of(authenticator.authenticate("ann", "open sesame", "local")) == 200
    assert users.path is not None
    managed_by(users.path.parent, {"ann": "another one"})
    assert code_of(authenticator.authenticate("ann", "open sesame", "local")) == 401
    known = authenticator.authenticate("ann", "another one", "local").result(LIMIT_S)
    assert known.role is Role.ADMIN
    write_users(users.path, {})
    assert code_of(authenticator.authenticate("ann", "another one", "local")) == 401


def test_no_password_is_kept_in_memory(users: Users) -> None:
    authenticator = Authenticator(users)
    assert code_of(authenticator.authenticate("ann", "open sesame", "local")) == 200
    assert b"sesame" not in b"".join(authenticator._known)


def test_sources_without_end_are_forgotten_the_oldest_first(
    users: Users, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "SOURCES_MAX", 10)
    authenticator = Authenticator(users, now=clock, verify=lambda user, password: False)
    for number in range(50):
        code_of(authenticator.authenticate("ann", "guess", f"10.0.0.{number}"))
    assert len(authenticator._tries) <= 10
    assert len(authenticator._failures) <= 10


def test_strange_passwords_are_wrong_and_nothing_else(users: Users) -> None:
    authenticator = Authenticator(users)
    for password in ("", "\0", "\ud800", "x" * 100_000):
        assert code_of(authenticator.authenticate("ann", password, f"source {len(password)}")) == 401


def test_one_that_was_closed_refuses(users: Users) -> None:
    authenticator = Authenticator(users)
    authenticator.close()
    assert code_of(authenticator.authenticate("ann", "open sesame", "local")) == 503
