"""Passwords: whether somebody is who he says, without holding anything up and without wearing the machine out.

Argon2id takes tens of milliseconds and 64 MiB on purpose, so it runs in a pool of two threads, never on the loop.
Before it stands a limit for each source, so that nobody can have the machine do it for ever; after failures the same
user from the same source waits, longer each time. A name that is not known costs as much as one that is. What was
verified is remembered for a minute, as a keyed hash with a key of this process, so that scripts are quick; a change of
the file forgets it all.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Final

import msgspec
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from scale0.errors import ProtocolError, SettingsError
from scale0.management.users import User, Users
from scale0.management.vocabulary import Principal
from scale0.protocol.codes import Code

AT_ONCE_MAX: Final = 2  # passwords that are verified at the same time
WAITING_MAX: Final = 32  # that wait for it
TRIES_MAX: Final = 20  # of one source at once; then one each
TRY_S: Final = 3.0
FAILURES_FREE: Final = 3  # of one user from one source, before it has to wait
BACKOFF_S: Final = 1.0  # doubled by each failure
BACKOFF_S_MAX: Final = 300.0
FORGET_S: Final = 900.0
KNOWN_S: Final = 60.0
KNOWN_MAX: Final = 1_000
SOURCES_MAX: Final = 10_000
PASSWORD_MIN: Final = 8
PASSWORD_BYTES_MAX: Final = 1_024

_HASHER: Final = PasswordHasher()
WRONG: Final = "user and password do not match"


def hash_password(password: str) -> str:
    """For the users' file. `SettingsError` if it is no password at all."""
    if len(password) < PASSWORD_MIN:
        raise SettingsError(f"a password has at least {PASSWORD_MIN} characters")
    if len(password.encode()) > PASSWORD_BYTES_MAX:
        raise SettingsError(f"a password has at most {PASSWORD_BYTES_MAX:,} bytes")
    return _HASHER.hash(password)


def is_right(user: User, password: str) -> bool:
    """Whether this is the user's password. It takes its time."""
    try:
        return _HASHER.verify(user.password, password)
    except (Argon2Error, InvalidHashError):
        return False


class Tries(msgspec.Struct):
    """How many more tries a source has, and since when it was not counted."""

    left: float
    at_s: float


class Failures(msgspec.Struct):
    count: int
    until_s: float
    at_s: float


class Authenticator:
    """Says who somebody is. From any thread; `close` ends its pool."""

    def __init__(
        self,
        users: Users,
        *,
        now: Callable[[], float] = time.monotonic,
        verify: Callable[[User, str], bool] = is_right,
    ) -> None:
        self._users, self._now, self._verify = users, now, verify
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="passwords")
        self._lock = Lock()
        self._waiting = 0
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._known_version = users.version
        self._tries: OrderedDict[str, Tries] = OrderedDict()
        self._failures: OrderedDict[tuple[str, str], Failures] = OrderedDict()
        self._nobody = User(password="", role="view")

    def authenticate(self, user: str, password: str, source: str, door: str = "http") -> Future[Principal]:
        """Who this is; `ProtocolError` 401 if the password is wrong, 429 if it is not even tried.

        `source` is what limits are counted for: an address, or whoever else can be told apart.
        """
        answer: Future[Principal] = Future()
        self._users.look()
        known = self._users.get(user)
        if known is not None and self._is_known(user, password):
            answer.set_result(_principal(user, known, door, source))
            return answer
        try:
            self._may_try(user, source)
        except ProtocolError as error:
            answer.set_exception(error)
            return answer
        try:
            self._pool.submit(self._try, answer, user, password, source, door)
        except RuntimeError:
            answer.set_exception(ProtocolError(Code.NOT_ACCEPTING, "the broker ends"))
        return answer

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _try(self, answer: Future[Principal], user: str, password: str, source: str, door: str) -> None:
        known = self._users.get(user)
        try:
            is_sane = _is_sane(password)
            is_good = self._verify(known or self._someone(), password if is_sane else "")
        except Exception as error:
            answer.set_exception(error)
            return
        finally:
            with self._lock:
                self._waiting -= 1
        if known is None or not is_good or not is_sane:
            self._note_failure(user, source)
            answer.set_exception(ProtocolError(Code.NOT_AUTHENTICATED, WRONG))
            return
        with self._lock:
            self._failures.pop((user, source), None)
            self._known[self._mark(user, password, known.stamp)] = self._now() + KNOWN_S
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        answer.set_result(_principal(user, known, door, source))

    def _someone(self) -> User:
        """A user whose password nobody knows: verifying against it takes as long as any other."""
        if not self._nobody.password:
            self._nobody = User(password=_HASHER.hash(secrets.token_urlsafe(32)), role="view")
        return self._nobody

    # --- what was verified before -----------------------------------------------------------------------------------

    def _mark(self, user: str, password: str, stamp: str) -> bytes:
        told = b"\0".join(part.encode(errors="surrogatepass") for part in (user, stamp, password))
        return hmac.new(self._key, told, hashlib.sha256).digest()

    def _is_known(self, user: str, password: str) -> bool:
        mark = self._mark(user, password, self._users.stamp(user))
        with self._lock:
            if self._known_version != self._users.version:
                self._known.clear()
                self._known_version = self._users.version
            return self._known.get(mark, -math.inf) > self._now()

    # --- before Argon2 ----------------------------------------------------------------------------------------------

    def _may_try(self, user: str, source: str) -> None:
        now = self._now()
        with self._lock:
            failed = self._failures.get((user, source))
            if failed is not None and now < failed.until_s:
                text = f"too many wrong passwords; try again in {math.ceil(failed.until_s - now)} s"
                raise ProtocolError(Code.OVER_LIMIT, text)
            tries = self._tries.pop(source, None) or Tries(TRIES_MAX, now)
            tries.left = min(float(TRIES_MAX), tries.left + (now - tries.at_s) / TRY_S)
            tries.at_s = now
            self._tries[source] = tries
            while len(self._tries) > SOURCES_MAX:
                self._tries.popitem(last=False)
            if tries.left < 1.0:
                text = f"too many logins from one place; try again in {math.ceil(TRY_S * (1.0 - tries.left))} s"
                raise ProtocolError(Code.OVER_LIMIT, text)
            if self._waiting >= WAITING_MAX:
                raise ProtocolError(Code.OVER_LIMIT, "too many logins at once; try again in a few seconds")
            tries.left -= 1.0
            self._waiting += 1

    def _note_failure(self, user: str, source: str) -> None:
        now = self._now()
        with self._lock:
            before = self._failures.pop((user, source), None)
            count = 1 if before is None or now - before.at_s > FORGET_S else before.count + 1
            wait_s = min(BACKOFF_S * 2 ** (count - FAILURES_FREE), BACKOFF_S_MAX) if count > FAILURES_FREE else 0.0
            self._failures[user, source] = Failures(count, now + wait_s, now)
            while len(self._failures) > SOURCES_MAX:
                self._failures.popitem(last=False)


def _is_sane(password: str) -> bool:
    """Whether it can be anybody's; what is not takes as long as what is."""
    try:
        return len(password.encode()) <= PASSWORD_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _principal(name: str, user: User, door: str, source: str) -> Principal:
    return Principal(name, user.rank, door, source, user.services)
