"""What `scale0 keys` does: key files, and the list of keys that a broker allows.

Each command says what follows from it, and the command that comes next. Only public keys are ever printed.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import msgspec

from scale0.cli.failures import Exit
from scale0.cli.render import Column, Page, safe, table
from scale0.core.permissions import Kind, Permission, read_time, write_time
from scale0.errors import UsageError
from scale0.protocol.public_keys import is_key
from scale0.transport import allowed_file, key_files
from scale0.transport.allowed_file import Permissions

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

_LASTS = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


class Wish(msgspec.Struct, frozen=True):
    """What was asked for; None leaves it as it is."""

    name: str | None = None
    kind: Kind | None = None
    serve: list[str] | None = None
    call: list[str] | None = None
    identities: list[str] | None = None
    manage: bool | None = None
    until: str | None = None


def new(name: str, kind: Kind) -> Exit:
    """A key file, and what to do with it."""
    path = key_files.path_of(name)
    file = key_files.make(path.stem, kind)
    key_files.save(path, file, is_new=True)
    page = Page()
    page.line(f"made {path}, for this user alone")
    page.line(f"public key: {file.public}")
    if kind == "peer":
        page.line(f"next: scale0 broker --key {name}")
        page.line(f"who connects to it needs: --server-key '{file.public}'")
        page.line(f"if it joins others, there: scale0 keys allow '{file.public}' --name {file.name} --kind peer")
    else:
        page.line(f"next, on the broker: scale0 keys allow '{file.public}' --name {file.name} --kind {kind}")
        page.line(f"then, here: --key {name}, or SCALE0_KEY={name}; and the broker's key as --server-key")
    return Exit.GOOD


def show(name: str, is_json: bool) -> Exit:
    """The public key, and nothing of the other."""
    path = key_files.path_of(name)
    file = key_files.load(path)
    pair = file.pair(time.time())
    if is_json:
        follows = file.next_public if file.next_public != pair.public else ""
        told = {"key": pair.public, "name": file.name, "kind": file.kind, "next": follows or None, "file": str(path)}
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
        return Exit.GOOD
    sys.stdout.write(f"{pair.public}\n")
    if file.next_public and file.next_public != pair.public:
        sys.stderr.write(f"from {file.next_from} on: {file.next_public}\n")
    return Exit.GOOD


# --- the list -----------------------------------------------------------------------------------------------------


def allow(which: str, wish: Wish, allowed: Path | None) -> Exit:
    """Enter a key, or change what it may do."""
    path, page = _list_path(allowed), Page()
    file = _file_of(which)
    key = file.public if file is not None else which

    def edit(entries: Permissions) -> Permissions:
        known = _find(entries, which) or next((entry for entry in entries if entry.key == key), None)
        if known is None and not is_key(key):
            raise UsageError(f"{which!r} is no public key, and no key here has that name\na key: scale0 keys show NAME")
        before = known or Permission(key=key, name=file.name if file else "", kind=file.kind if file else "any")
        after = _changed(before, wish, is_new=known is None)
        return [after if entry is known else entry for entry in entries] + ([after] if known is None else [])

    entries = allowed_file.change(path, edit)
    entry = _find(entries, which) or next(entry for entry in entries if entry.key == key)
    page.line(f"allowed, in {path}: {_told(entry)}")
    page.line("a broker that runs with this list has noticed within a second; see scale0 keys list")
    return Exit.GOOD


def _changed(before: Permission, wish: Wish, *, is_new: bool) -> Permission:
    """As asked; of lists that were there, what is asked for is added."""
    told = {name: value for name, value in msgspec.structs.asdict(wish).items() if value is not None}
    for name in ("serve", "call", "identities"):
        if name in told and not is_new:
            told[name] = list(dict.fromkeys([*getattr(before, name), *told[name]]))
    if "until" in told:
        told["until"] = _until(told["until"])
    return msgspec.structs.replace(before, **told)


def succeed(which: str, former: str, keep: str, allowed: Path | None) -> Exit:
    """A key follows another: it may do the same, and the other ends."""
    file = _file_of(which)
    key = file.public if file is not None else which
    path, page = _list_path(allowed), Page()
    ends = write_time(time.time() + lasting_s(keep))
    allowed_file.change(path, lambda entries: _with_successor(entries, former, key, ends))
    page.line(f"allowed, in {path}: {key}")
    page.line(f"the former key is good until {ends}")
    return Exit.GOOD


def _with_successor(entries: Permissions, former: str, key: str, ends: str) -> Permissions:
    known = _find(entries, former)
    if known is None:
        raise UsageError(f"no key {former!r} in the list\nsee scale0 keys list")
    name = known.name or known.key[:8]  # one name, one owner: its sessions may go from the old key to the new one
    until = min(ends, known.until, key=read_time) if known.until else ends
    old = msgspec.structs.replace(known, name=name, until=until)
    new_one = msgspec.structs.replace(known, name=name, key=key)
    others = [entry for entry in entries if entry is not known and entry.key != key]
    return [*others, old, new_one]


def revoke(which: str, allowed: Path | None) -> Exit:
    """Take it off the list; by a name, all that have it."""
    path, page = _list_path(allowed), Page()
    gone: Permissions = []

    def edit(entries: Permissions) -> Permissions:
        file = None if is_key(which) or any(entry.name == which for entry in entries) else _file_of(which)
        keys = {file.public, file.next_public} if file is not None else {which}
        gone.extend(entry for entry in entries if entry.key in keys or entry.name == which)
        if not gone:
            raise UsageError(f"no key {which!r} in {path}\nsee scale0 keys list")
        return [entry for entry in entries if entry not in gone]

    allowed_file.change(path, edit)
    for entry in gone:
        page.line(f"revoked: {_told(entry)}")
    page.line("its sessions end within two seconds, on brokers that run with this list")
    return Exit.GOOD


def show_list(allowed: Path | None, is_json: bool) -> Exit:
    """Who may do what."""
    path, page = _list_path(allowed), Page()
    entries = allowed_file.load(path)
    if is_json:
        told = [{**msgspec.to_builtins(entry), "until": entry.until or None} for entry in entries]
        sys.stdout.write(msgspec.json.encode({"schema": "scale0.keys/1", "rows": told}).decode() + "\n")
        return Exit.GOOD
    if not entries:
        page.line(f"no key is allowed in {path}")
        page.line("allow one: scale0 keys allow KEY")
        return Exit.GOOD
    now_s = time.time()
    columns = [Column("NAME"), Column("KIND"), Column("SERVE"), Column("CALL"), Column("UNTIL"), Column("KEY")]
    rows = [
        [
            safe(entry.name) or "–",
            entry.kind + (" +manage" if entry.manage else ""),
            safe(" ".join(entry.serve)) if entry.kind in ("worker", "any") else "–",
            safe(" ".join(entry.call)) if entry.kind in ("client", "any") else "–",
            (f"ended {entry.until}" if entry.has_ended(now_s) else entry.until) or "–",
            entry.key,
        ]
        for entry in entries
    ]
    page.lines(table(columns, rows, is_wide=True))
    return Exit.GOOD


# --- replacing a key ----------------------------------------------------------------------------------------------


def rotate(name: str, keep: str, allowed: Path | None) -> Exit:
    """A new key for an old one; which way depends on whose it is."""
    path, now_s, page = key_files.path_of(name), time.time(), Page()
    before = key_files.settled(key_files.load(path), now_s)
    ends_s = now_s + lasting_s(keep)
    if before.kind == "peer":
        if before.next_public:
            raise UsageError(
                f"{path} has a next key already, from {before.next_from} on\nrestart the broker after that"
            )
        after = key_files.with_next(before, ends_s)
        key_files.save(path, after)
        page.line(f"next public key: {after.next_public}")
        page.line("a broker that runs with this key enters it into the network's config now: everybody learns it ahead")
        page.line(f"next: restart the broker after {after.next_from}; then it has the new key")
        return Exit.GOOD
    after = key_files.make(before.name or path.stem, before.kind)
    listed, ends = _list_path(allowed), write_time(ends_s)
    is_listed = any(entry.key == before.public for entry in allowed_file.load(listed))
    if is_listed:  # before the file changes: whoever starts in between is allowed either way
        allowed_file.change(listed, lambda entries: _with_successor(entries, before.public, after.public, ends))
    key_files.save(path, after)
    page.line(f"public key: {after.public}")
    if is_listed:
        page.line(f"both are allowed in {listed}, the former one until {ends}")
    else:
        told = f"scale0 keys allow '{after.public}' --instead-of '{before.public}' --keep {keep}"
        page.line(f"next, on the broker, before anybody starts with it: {told}")
    page.line(f"who uses it has it after a restart; do that before {ends}")
    return Exit.GOOD


# --- helpers ------------------------------------------------------------------------------------------------------


def lasting_s(text: str) -> float:
    """How long: 90s, 24h, 30d."""
    found = _LASTS.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no length of time\nit looks like 90s, 24h or 30d")
    return float(found[1]) * UNITS_S[found[2]]


def _until(text: str) -> str:
    if _LASTS.fullmatch(text.strip()):
        return write_time(time.time() + lasting_s(text))
    try:
        return write_time(read_time(text.strip()))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text!r} is no time\nit looks like 30d, or 2026-12-31T12:00:00Z") from None


def _list_path(allowed: Path | None) -> Path:
    return allowed if allowed is not None else key_files.allowed_path()


def _file_of(which: str) -> key_files.KeyFile | None:
    """The key file of that name, if there is one on this machine."""
    if is_key(which):
        return None
    path = key_files.path_of(which)
    return key_files.load(path) if path.exists() else None


def _find(entries: Permissions, which: str) -> Permission | None:
    """By its key, else by its name; of several with that name, the newest."""
    for entry in reversed(entries):
        if which in (entry.key, entry.name):
            return entry
    return None


def _told(entry: Permission) -> str:
    limits = []
    if entry.kind in ("worker", "any"):
        limits.append(f"serves {' '.join(entry.serve) or 'nothing'}")
    if entry.kind in ("client", "any"):
        limits.append(f"calls {' '.join(entry.call) or 'nothing'}")
    if entry.kind == "peer":
        limits.append("may join as a broker")
    named = f"{safe(entry.name)} " if entry.name else ""
    return f"{named}{entry.key} ({safe(', '.join(limits))})"
