"""`scale0 broker --manage`: where the broker's page is, who may come in, and what is said of it at the start.

What the command line says wins over the file. What would keep the page from being up is told before the broker starts:
a port that somebody has, an address that others can reach without TLS and users. The address goes to stderr once the
page is up; while there are no users it holds a token, in the fragment, which browsers send to nobody: good for one
login, within five minutes.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from scale0.cli import failures, render
from scale0.errors import PortTaken, Scale0Error, SettingsError, UsageError

if TYPE_CHECKING:
    from scale0.core.settings import ManagementSettings
    from scale0.transport.server import Server

TOKEN_S: Final = 300.0
DEFAULT_PAGE: Final = "127.0.0.1:8480"
PATHS: Final = ("users", "audit", "tls_cert", "tls_key", "scrape_token_file")  # in the settings


class ManageOptions(msgspec.Struct, frozen=True):
    """What was asked for of the page and of management on the command line."""

    http: str | None = None
    users: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    hosts: list[str] = []


def plan(
    options: ManageOptions,
    told: ManagementSettings,
    environ: Mapping[str, str] = os.environ,
    beside: Path | None = None,
) -> ManagementSettings:
    """Command line over file over defaults. The users are those of this account, unless something else is said.

    Relative paths of the settings file begin where that lies, in the directory `beside`.
    """
    from scale0.management import places

    named = {name: getattr(told, name) for name in PATHS}
    told = msgspec.structs.replace(
        told, **{name: str((beside or Path()) / path) for name, path in named.items() if path}
    )
    http = options.http or told.http
    tls_cert, tls_key = _path(options.tls_cert) or told.tls_cert, _path(options.tls_key) or told.tls_key
    if bool(tls_cert) != bool(tls_key):
        missing, given = ("--manage-tls-key", "certificate") if tls_cert else ("--manage-tls-cert", "key")
        raise UsageError(f"a certificate and its key go together: a {given} alone was given\nadd {missing} FILE")
    if not http and (options.tls_cert or options.hosts):
        raise UsageError(f"there is no page that this could be for\nadd --manage {DEFAULT_PAGE}")
    return msgspec.structs.replace(
        told,
        http=http,
        users=_path(options.users) or told.users or str(places.users_path(environ)),
        tls_cert=tls_cert,
        tls_key=tls_key,
        allowed_hosts=[*told.allowed_hosts, *options.hosts],
    )


def check(settings: ManagementSettings, own: Sequence[str] = ()) -> None:
    """Say before the start what would keep the page from being up; `own` is where the broker itself is to listen."""
    if not settings.http:
        return
    if f"tcp://{settings.http}" in own and not settings.http.endswith(":0"):
        raise UsageError(f"--manage {settings.http} is where the broker itself listens\nadd --manage {DEFAULT_PAGE}")
    from scale0.management.http import server as page
    from scale0.transport.port_owner import owner_of

    try:
        host, port = page.address_of(settings.http)
        page.check_safe(host, has_tls=bool(settings.tls_cert), has_users=has_users(settings))
    except SettingsError as error:
        what, *rest = str(error).splitlines()
        cures = [line.replace("set tls_cert and tls_key in [management]", TLS_CURE) for line in rest]
        raise UsageError("\n".join([what.replace("management.http", "--manage"), *cures])) from None
    for file in (settings.tls_cert, settings.tls_key):
        if file and not Path(file).is_file():
            raise UsageError(f"no file {file}\nTLS needs a certificate and its key, as PEM")
    try:
        page.listening(host, port).close()
    except PortTaken as error:
        owner = owner_of(f"tcp://{host}:{port}")
        who = f"{owner} listens there" if owner else error.why
        free = f"{settings.http.rpartition(':')[0]}:0"
        raise PortTaken(
            f"{settings.http} for the page", f"{who}\nanother port: --manage {free} takes a free one"
        ) from None


TLS_CURE: Final = "add --manage-tls-cert FILE --manage-tls-key FILE"


def has_users(settings: ManagementSettings) -> bool:
    """Whether somebody can log in with a password. A file that cannot be trusted is told at once."""
    from scale0.management.users import read_users

    return bool(settings.users) and bool(read_users(Path(settings.users)))


def announce(server: Server, settings: ManagementSettings) -> None:
    """Say on stderr where the page is, once it is up; the broker does not wait for it."""
    if settings.http:
        threading.Thread(target=_announce, args=(server, settings), name="page-address", daemon=True).start()


def _announce(server: Server, settings: ManagementSettings) -> None:
    try:
        url = server.page_url
        is_open = has_users(settings)
        token = "" if is_open else server.new_token("admin", for_s=TOKEN_S)
    except Scale0Error as error:
        failures.remark(str(error).partition("\n")[0])
        return
    render.Page(sys.stderr).line(sentence(url, token))


def sentence(url: str, token: str = "") -> str:
    """The line with the page's address."""
    where = url.rstrip("/") + "/"
    if not token:
        return f"page: {where}"
    return (
        f"page: {where}#token={token}   (good for one login within {TOKEN_S / 60:.0f} minutes; then: scale0 user add)"
    )


def _path(told: Path | None) -> str:
    return str(told.absolute()) if told is not None else ""
