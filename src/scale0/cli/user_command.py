"""`scale0 user`: who may manage brokers, in a file that its owner alone can read.

A password never stands on the command line, where every user of the machine could read it: it is asked for twice in a
terminal, and is the first line of standard input elsewhere. Brokers read the file again by themselves.
"""

from __future__ import annotations

import getpass
import json
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from scale0.cli import render
from scale0.cli.failures import Exit
from scale0.cli.render import Column, Page
from scale0.errors import SettingsError, UsageError
from scale0.management.users import User, changing_users, check_name, read_users
from scale0.management.vocabulary import COMMANDS, Role
from scale0.transport.atomic_file import replace_file

AskPassword = Callable[[str], str]
TOKEN_BYTES = 32


def read_password(name: str) -> str:
    """Asked for twice in a terminal; else the first line of standard input."""
    if not sys.stdin.isatty():
        line = sys.stdin.readline()
        if not line:
            raise UsageError(f"no password for {name} on standard input\ngive it as the first line there")
        return line.rstrip("\r\n")
    first = getpass.getpass(f"Password for {name}: ")
    if getpass.getpass("Once more: ") != first:
        raise UsageError("the two passwords differ; nothing was changed")
    return first


def add(
    path: Path, name: str, role: str, services: Sequence[str], page: Page, ask: AskPassword = read_password
) -> Exit:
    """A new user."""
    _checked(lambda: check_name(name))
    rank = _role(role)
    if name in read_users(path):
        raise UsageError(f"there is a user {name} already\na new password: scale0 user passwd {name}")
    hashed = _hashed(ask(name))
    with changing_users(path) as users:
        users[name] = User(hashed, rank.text, list(services) or None)
    page.line(f"{render.safe(name)} has the role {_may(rank)}; brokers with {render.safe(str(path))} know at once")
    _next(page, f"SCALE0_AUTH_ID={name} scale0 ctl overview", "with SCALE0_AUTH_PASSWORD, or --auth-file")
    return Exit.GOOD


def change_password(path: Path, name: str, page: Page, ask: AskPassword = read_password) -> Exit:
    """Another password; sessions that began with the old one end."""
    _known(path, name)
    hashed = _hashed(ask(name))
    with changing_users(path) as users:
        users[name] = msgspec.structs.replace(_of(users, name), password=hashed)
    page.line(f"{render.safe(name)} has a new password; sessions with the old one end now")
    return Exit.GOOD


def change_role(path: Path, name: str, role: str, services: Sequence[str], page: Page) -> Exit:
    """Another role."""
    rank = _role(role)
    with changing_users(path) as users:
        former = _of(users, name)
        users[name] = msgspec.structs.replace(former, role=rank.text, services=list(services) or former.services)
    page.line(f"{render.safe(name)} has the role {_may(rank)}; before: {former.role}")
    return Exit.GOOD


def remove(path: Path, name: str, page: Page) -> Exit:
    """The user is gone, with all sessions."""
    with changing_users(path) as users:
        _of(users, name)
        del users[name]
        left = len(users)
    page.line(f"{render.safe(name)} is removed; sessions end now")
    if not left:
        _next(page, "scale0 user add NAME --role admin", "nobody can manage by a password now")
    return Exit.GOOD


def show(path: Path, page: Page, *, is_json: bool) -> Exit:
    """Who there is; never a password's hash."""
    users = read_users(path)
    rows = [{"name": name, "role": user.role, "services": user.services} for name, user in sorted(users.items())]
    if is_json:
        sys.stdout.write(json.dumps({"schema": "scale0.users/1", "rows": rows}, separators=(",", ":")) + "\n")
        return Exit.GOOD
    if not rows:
        page.line(f"no users in {render.safe(str(path))}")
        _next(page, "scale0 user add NAME --role admin")
        return Exit.GOOD
    columns = [Column("USER"), Column("ROLE"), Column("TEST TASKS TO")]
    cells = [
        [str(row["name"]), str(row["role"]), ", ".join(row["services"]) if row["services"] is not None else "all"]
        for row in rows
    ]
    page.line(f"{len(rows)} user{'' if len(rows) == 1 else 's'} in {render.safe(str(path))}")
    page.lines(render.table(columns, [[Text(render.safe(cell)) for cell in row] for row in cells], width=page.width))
    return Exit.GOOD


def make_token(file: Path, page: Page) -> Exit:
    """A token for programs that read /metrics, in a file of mode 600. It is not printed."""
    if file.exists():
        raise UsageError(f"{file} is there already\nremove it first, or name another file")
    try:
        replace_file(file, f"{secrets.token_hex(TOKEN_BYTES)}\n".encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    page.line(f"a token for /metrics is in {render.safe(str(file))}")
    _next(page, f'[management] scrape_token_file = "{file}"', "in the broker's config; Prometheus: bearer_token_file")
    return Exit.GOOD


# --- parts ------------------------------------------------------------------------------------------------------------


def _role(text: str) -> Role:
    try:
        return Role.read(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _may(role: Role) -> str:
    """What a role is, in a few words."""
    changes = [command.name for command in COMMANDS.values() if command.role is role and command.is_change]
    return f"{role.text} ({', '.join(changes[:4])}, …)" if changes else f"{role.text} (looks, and changes nothing)"


def _known(path: Path, name: str) -> None:
    _of(read_users(path), name)


def _of(users: dict[str, User], name: str) -> User:
    if name not in users:
        there = f"there are {', '.join(sorted(users))}" if users else "there are none"
        raise UsageError(f"no user {name}; {there}\na new one: scale0 user add {name}")
    return users[name]


def _hashed(password: str) -> str:
    from scale0.management.passwords import hash_password

    return _checked(lambda: hash_password(password))


def _checked(make: Callable[[], str | None]) -> str:
    try:
        return make() or ""
    except SettingsError as error:
        raise UsageError(str(error)) from None


def _next(page: Page, command: str, why: str = "") -> None:
    page.line(Text.assemble(("Next:", "bold"), f" {render.safe(command)}", f"   ({why})" if why else ""))
