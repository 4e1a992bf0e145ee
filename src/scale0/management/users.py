"""Who may manage a broker: a file of users, each with the Argon2id hash of a password, a role, and services to try.

The file is JSON, belongs to one account and can be read by nobody else; it is replaced as a whole. Brokers read it
again when it has changed, so that a password that was changed or a user that was removed counts at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from scale0.errors import SettingsError
from scale0.management.vocabulary import Role

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
USERS_MAX: Final = 1_000
NAME_MAX: Final = 64
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One user. `services` are those that test tasks may be sent to; `None` means all."""

    password: str  # Argon2id, as the reference encodes it
    role: str
    services: list[str] | None = None

    @property
    def rank(self) -> Role:
        return Role.read(self.role)

    @property
    def stamp(self) -> str:
        """Another one whenever something of the user changes: sessions that began with an older one are over."""
        told = msgspec.json.encode(self)
        return hashlib.sha256(told).hexdigest()[:32]

    def __repr__(self) -> str:
        return f"User({self.role!r})"


class UsersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    users: dict[str, User] = {}
    schema: str = "scale0.users/1"


def read_users(path: Path) -> dict[str, User]:
    """All users in the file; none if there is no file. `SettingsError` if it cannot be trusted or read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: the users cannot be read: {error.strerror}") from None
    if mode & OTHERS:
        raise SettingsError(f"{path}: others can read or change the users; chmod 600 {path}")
    try:
        found = msgspec.json.decode(content, type=UsersFile) if len(content) <= FILE_BYTES_MAX else None
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{path}: this is no file of users: {error}") from None
    if found is None or len(found.users) > USERS_MAX:
        raise SettingsError(f"{path}: more than {USERS_MAX:,} users; that is no file of users")
    for name, user in found.users.items():
        check_name(name)
        try:
            user.rank  # noqa: B018  it raises for a role that there is not
        except ValueError as error:
            raise SettingsError(f"{path}: {name}: {error}") from None
        if not user.password.startswith("$argon2id$"):
            raise SettingsError(
                f"{path}: {name}: the password is no Argon2id hash; scale0 user passwd {name} makes one"
            )
    return found.users


def write_users(path: Path, users: dict[str, User]) -> None:
    """Replace the file as a whole; its owner alone can read it from its first byte on."""
    if len(users) > USERS_MAX:
        raise SettingsError(f"{path}: at most {USERS_MAX:,} users")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(UsersFile(users)), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SettingsError(f"{path}: the users cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def changing_users(path: Path) -> Iterator[dict[str, User]]:
    """All users, to be changed; nobody else changes them meanwhile, and what fails changes nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SettingsError(f"{path}: the users cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users = dict(read_users(path))
        yield users
        write_users(path, users)
    finally:
        os.close(lock)


def check_name(name: str) -> None:
    """A name is short and can be printed; a colon would part it from a password."""
    if not name or len(name) > NAME_MAX or not name.isprintable() or ":" in name or name != name.strip():
        raise SettingsError(f"{name!r} is no name of a user: 1 to {NAME_MAX} printable characters, no colon")


class Users:
    """The users, as the file has them now. From any thread.

    A file that cannot be trusted or read lets nobody in; `why` says why.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.why = ""
        self._users: dict[str, User] = {}
        self._stamps: dict[str, str] = {}  # made once: open pages are looked up by them twice a second
        self._seen: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self.version = 0  # it rises with each change
        self.look()

    def look(self) -> bool:
        """Read the file again if it has changed; whether it has."""
        with self._lock:
            seen = self._look()
            if seen == self._seen:
                return False
            self._seen = seen
            self.version += 1
            self.why = ""
            try:
                self._users = read_users(self.path) if self.path is not None else {}
            except SettingsError as error:
                self._users, self.why = {}, str(error)
            self._stamps = {name: user.stamp for name, user in self._users.items()}
            return True

    def _look(self) -> tuple[int, ...]:
        if self.path is None:
            return (0,)
        try:
            found = self.path.stat()
        except OSError:
            return (0,)
        return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode

    def get(self, name: str) -> User | None:
        return self._users.get(name)

    def stamp(self, name: str) -> str:
        """What a session remembers of its user; empty if there is no such user any more."""
        return self._stamps.get(name, "")

    def __bool__(self) -> bool:
        return bool(self._users)
