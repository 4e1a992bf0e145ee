"""`scale0 broker`: settle where it listens, start it, say when it is ready.

Traffic is not encrypted yet, so a broker listens on this machine only, unless the operator says with `--insecure-bind`
that the network is trusted; then it starts with a warning. The one line on stdout is for scripts, everything else goes
to the log on stderr.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from scale0.cli.failures import Exit, remark
from scale0.errors import UsageError

if TYPE_CHECKING:
    from scale0.transport.settings_file import BrokerFile

DEFAULT_BIND = "tcp://127.0.0.1:5555"

_TCP = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d+|\*)$")


class BrokerOptions(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    bind: str | None = None
    backend: str | None = None
    config: Path | None = None
    identity: str | None = None
    state_dir: Path | None = None
    is_log_json: bool = False
    is_verbose: bool = False
    is_quiet: bool = False
    is_insecure: bool = False


def is_loopback(endpoint: str) -> bool:
    """Whether only this machine can connect there. A name other than `localhost` may point anywhere."""
    if endpoint.startswith(("ipc://", "inproc://")):
        return True
    found = _TCP.match(endpoint)
    if found is None:
        raise UsageError(
            f"{endpoint!r} is not an address to listen on\nit looks like {DEFAULT_BIND}; port 0 takes a free one"
        )
    host = found["host"].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(endpoints: list[str], *, is_insecure: bool) -> None:
    """Refuse to listen beyond this machine unless that was asked for in so many words."""
    for endpoint in endpoints:
        if is_loopback(endpoint):
            continue
        if not is_insecure:
            raise UsageError(
                f"{endpoint} can be reached from other machines, and traffic is not encrypted\n"
                f"on a network that you trust: scale0 broker --bind {endpoint} --insecure-bind\n"
                f"for this machine alone: scale0 broker --bind {DEFAULT_BIND}"
            )
        remark(f"{endpoint} can be reached from other machines without encryption; anybody there may send tasks")


def run(options: BrokerOptions) -> Exit:
    """Run a broker until it is told to stop. The command line wins over the settings file."""
    from scale0.transport.process import run_broker

    settings = read_settings(options)
    bind = options.bind or settings.bind or DEFAULT_BIND
    backend = options.backend or settings.backend
    check_bind([bind, *([backend] if backend else [])], is_insecure=options.is_insecure)
    state_dir = options.state_dir or (Path(settings.state_dir) if settings.state_dir else None)
    run_broker(
        settings,
        bind,
        backend,
        state_dir=state_dir,
        reread=(lambda: read_settings(options)) if options.config else None,
        ready=lambda endpoints: announce(settings.identity, endpoints),
        is_log_json=options.is_log_json,
        is_verbose=options.is_verbose,
        is_quiet=options.is_quiet,
    )
    return Exit.GOOD


def read_settings(options: BrokerOptions) -> BrokerFile:
    """The settings file, if there is one, and what the command line says instead."""
    from scale0.transport import settings_file

    settings = settings_file.load(options.config) if options.config else settings_file.BrokerFile()
    if options.identity:
        settings = msgspec.structs.replace(settings, identity=options.identity)
    return settings


def announce(identity: str, endpoints: list[str]) -> None:
    """The one line on stdout. A script may wait for it: what it names is bound."""
    sys.stdout.write(f"scale0 broker {identity} ready on {' '.join(endpoints)}\n")
    sys.stdout.flush()
