"""`allowed.json`: the public keys that a broker allows, and what each may do.

    [{"key": "…", "name": "pay-worker", "kind": "worker", "serve": ["pay.*"], "identities": ["pay-*"]}, …]

A broker reads it again when it has changed, so a key is allowed or revoked while it serves. A file that does not
validate changes nothing, and the last good one stays (rule 22). It holds no secret, but whoever can write it can let
anybody in: one that others may write is refused.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from scale0.core.permissions import Permission, read_time
from scale0.errors import SettingsError
from scale0.protocol.public_keys import is_key
from scale0.transport.atomic_file import replace_file

ENTRIES_MAX: Final = 50_000
FILE_BYTES_MAX: Final = 32 * 1024 * 1024
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH

Permissions = list[Permission]


def load(path: Path) -> Permissions:
    """What is allowed; a file that is not there allows nobody. Raises `SettingsError`."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _WRITABLE:
                raise SettingsError(f"{path}: others can change who is allowed; keep it to yourself: chmod go-w {path}")
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise SettingsError(f"{path}: over {FILE_BYTES_MAX:,} bytes; that is no list of keys")
    try:
        entries = msgspec.json.decode(data, type=Permissions)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: {error}; each entry is as scale0 keys allow writes it") from None
    check(entries, str(path))
    return entries


def check(entries: Permissions, source: str) -> None:
    """What must hold beyond the types."""
    if len(entries) > ENTRIES_MAX:
        raise SettingsError(f"{source}: {len(entries):,} keys; at most {ENTRIES_MAX:,} are allowed")
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        where = f"{source}: [{number}] {entry.name}".rstrip()
        if not is_key(entry.key):
            raise SettingsError(f"{where}: {entry.key!r} is no public key; scale0 keys show prints one")
        if entry.key in seen:
            raise SettingsError(f"{where}: its key is listed twice; keep one of the entries")
        seen.add(entry.key)
        if not entry.name.isprintable():
            raise SettingsError(f"{where!r}: a name has characters that cannot be printed")
        if entry.until:
            with _as_settings_error(f"{where}: until {entry.until!r} is no time; write 2026-12-31T12:00:00Z"):
                read_time(entry.until)


@contextlib.contextmanager
def _as_settings_error(text: str) -> Iterator[None]:
    try:
        yield
    except ValueError:
        raise SettingsError(text) from None


def change(path: Path, edit: Callable[[Permissions], Permissions]) -> Permissions:
    """Replace the file by what `edit` makes of it; two who do so at once follow one another."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (path.parent / f".{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = edit(load(path))
        check(entries, str(path))
        lines = ",\n ".join(msgspec.json.encode(entry).decode() for entry in entries)
        replace_file(path, f"[{lines}]\n".encode())
    return entries
