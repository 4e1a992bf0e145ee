"""`scale0 broker`: settle who it is, where it listens and whom it joins by, start it, say when it is ready.

What the command line says wins over the file, and the file over defaults. A broker of a network keeps its config and
its state under the user's state directory by default, so that it comes back as what it was; one that is alone keeps
nothing unless it is told to.

With `--key` everything is encrypted, and only keys that are allowed come in. Without one a broker listens on this
machine only, unless the operator says with `--insecure-bind` that the network is trusted; then it starts with a
warning. The one line on stdout is for scripts, everything else goes to stderr.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from scale0.cli import broker_manage, render, state_dirs
from scale0.cli.failures import Exit, remark
from scale0.errors import UsageError

if TYPE_CHECKING:
    from scale0.core.settings import BrokerSettings, ManagementSettings
    from scale0.protocol.network import Document
    from scale0.transport.recording import Telemetry
    from scale0.transport.security import Security
    from scale0.transport.server import Server
    from scale0.transport.settings_file import BrokerFile, SecuritySettings

DEFAULT_BIND = "tcp://127.0.0.1:5555"
FREE_BIND = "tcp://127.0.0.1:0"
KEEP_DAYS = 30.0
CAP_GB = 20.0
RATE_MAX = 10_000  # tasks that one row may stand for
NEEDED = ("pyarrow", "numpy")  # by a recorder, and by nothing else of a broker

_TCP = re.compile(r"tcp://(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d+|\*)$")


class TelemetryOptions(msgspec.Struct, frozen=True):
    """What was asked for of recording."""

    directory: Path | None = None
    data: str | None = None
    keep_days: float = KEEP_DAYS
    cap_gb: float = CAP_GB
    samples: list[str] = []


class BrokerOptions(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    bind: str | None = None
    backend: str | None = None
    config: Path | None = None
    identity: str | None = None
    group: str | None = None
    join: list[str] = []
    publish: str | None = None
    state_dir: Path | None = None
    is_stateless: bool = False
    is_log_json: bool = False
    is_verbose: bool = False
    is_quiet: bool = False
    is_insecure: bool = False
    key: str | None = None
    allowed: Path | None = None
    server_key: str | None = None
    telemetry: TelemetryOptions | None = None
    manage: broker_manage.ManageOptions = broker_manage.ManageOptions()


class Plan(msgspec.Struct, frozen=True):
    """What follows from command line and file: all that a broker is started with."""

    settings: BrokerSettings
    bind: str
    backend: str | None = None
    peer: str | None = None
    publish: str | None = None
    seeds: list[str] = []
    document: Document | None = None
    state_dir: Path | None = None
    telemetry: Telemetry | None = None
    security: Security | None = None
    management: ManagementSettings | None = None

    @property
    def addresses(self) -> list[str]:
        return [address for address in (self.bind, self.backend, self.peer, self.publish) if address]


def run(options: BrokerOptions) -> Exit:
    """Run a broker until it is told to stop."""
    from scale0.transport.process import run_broker

    plan = make_plan(options, read_file(options))
    check_bind(plan.addresses, is_insecure=options.is_insecure, is_encrypted=plan.security is not None)
    if plan.telemetry is not None:
        check_telemetry(plan.telemetry)
    management = plan.management
    if management is not None:
        broker_manage.check(management, plan.addresses)

    def ready(server: Server) -> None:
        if plan.seeds and not options.is_quiet:
            say_joining(plan.seeds, server, plan.state_dir)
        announce(server.identity, server.endpoints, waiting_for(server))
        if management is not None:
            broker_manage.announce(server, management)

    run_broker(
        plan.settings,
        plan.bind,
        plan.backend,
        peer=plan.peer,
        publish=plan.publish,
        seeds=plan.seeds,
        document=plan.document,
        state_dir=plan.state_dir,
        telemetry=plan.telemetry,
        security=plan.security,
        management=plan.management,
        reread=(lambda: read_file(options).document) if options.config else None,
        ready=ready,
        is_log_json=options.is_log_json,
        is_verbose=options.is_verbose,
        is_quiet=options.is_quiet,
    )
    return Exit.GOOD


def read_file(options: BrokerOptions) -> BrokerFile:
    """The settings file, if there is one."""
    from scale0.transport import settings_file

    return settings_file.load(options.config) if options.config else settings_file.BrokerFile()


# --- what follows from what was asked -----------------------------------------------------------------------------


def make_plan(options: BrokerOptions, file: BrokerFile, environ: Mapping[str, str] = os.environ) -> Plan:
    """Put command line, file and defaults together, without starting anything."""
    from scale0.protocol.network_addresses import listens_on
    from scale0.transport import settings_file
    from scale0.transport.addresses import default_identity

    told_seeds = options.join or file.local.join_addresses
    check_seeds(told_seeds)
    settings = settings_file.settings_of(file, options.identity)
    listening = settings_file.listening_of(file, settings.identity)
    entry = file.document.broker(settings.identity)
    if not told_seeds:
        check_listed(settings.identity, [listed.identity for listed in file.document.brokers])
    bind = options.bind or listening.bind or default_bind(told_seeds)
    seeds = [seed for seed in told_seeds if seed not in (bind, *settings.advertise)]  # one file may serve all brokers
    if options.join and not seeds:
        raise UsageError(f"a broker cannot join by its own address, {bind}\ngive that of another one")
    is_named = not told_seeds or bool(options.identity or file.local.identity or entry)
    if not is_named and not is_free(bind):
        own_name = default_identity(bind, socket.gethostname())
        settings, is_named = msgspec.structs.replace(settings, identity=own_name), True
    if options.group is not None:
        check_group(options.group, settings.identity, entry.group if entry else None)
        settings = msgspec.structs.replace(settings, group=options.group)
    is_network = bool(told_seeds) or len(file.document.brokers) > 1
    keeps = is_network and is_named  # a name that follows from a free port is another one at the next start
    return Plan(
        settings=settings,
        bind=bind,
        backend=options.backend or listening.backend,
        peer=(listens_on(entry).peer if entry else "") or None,
        publish=options.publish or listening.config_pub or (beside(bind) if is_network else None),
        seeds=seeds,
        document=file.document if options.config else None,
        state_dir=choose_state_dir(options, file.local.state_dir, settings.identity if keeps else None, environ),
        telemetry=plan_telemetry(options.telemetry, settings.identity if is_named else None, environ)
        if options.telemetry
        else None,
        security=plan_security(options, file.local.security, bool(seeds), environ),
        management=broker_manage.plan(
            options.manage, file.local.management, environ, options.config.parent if options.config else None
        ),
    )


def plan_security(
    options: BrokerOptions, told: SecuritySettings, is_joining: bool, environ: Mapping[str, str]
) -> Security | None:
    """Its key and whom it allows; a file's own paths begin beside it."""
    from scale0.protocol.public_keys import is_key
    from scale0.transport import key_files
    from scale0.transport.security import Security

    beside_file = options.config.parent if options.config is not None else Path()
    key = key_files.path_of(options.key, environ) if options.key else None
    if key is None and told.key:
        named = key_files.path_of(told.key, environ)
        key = beside_file / named  # an absolute one stays as it is
    server_key = options.server_key or told.server_key
    if server_key and not is_key(server_key):
        raise UsageError(f"{server_key!r} is no public key\nover there: scale0 keys show NAME")
    if key is None:
        if options.allowed or options.server_key:
            raise UsageError("--allowed and --server-key are for a broker with a key\nmake one: scale0 keys new broker")
        return None
    if is_joining and not server_key:
        raise UsageError(
            "a broker with a key joins by one whose key it knows\nadd --server-key: scale0 keys show, there"
        )
    allowed = options.allowed or (beside_file / told.allowed if told.allowed else key_files.allowed_path(environ))
    return Security(str(key.absolute()), str(allowed.absolute()), server_key)


def plan_telemetry(options: TelemetryOptions, identity: str | None, environ: Mapping[str, str]) -> Telemetry:
    """Where the broker records. Who names a directory has everything there; else all brokers share one data place."""
    from scale0.transport.recording import Telemetry

    if identity is None and options.directory is None:
        raise UsageError("a broker that records needs a name, or a directory\ngive --identity or --telemetry-dir")
    directory = options.directory or state_dirs.telemetry_dir(identity or "", environ)
    usual = options.directory / "data" if options.directory else state_dirs.data_place(environ)
    return Telemetry(
        directory=str(directory.absolute()),
        data=options.data or str(usual.absolute()),
        keep_s=options.keep_days * 86_400,
        cap_bytes=round(options.cap_gb * 1e9),
        rates=dict(read_sample(told) for told in options.samples),
    )


def default_bind(seeds: list[str]) -> str:
    """The usual address; a free port if the broker to join by has the usual one on this very machine."""
    usual_port = DEFAULT_BIND.rpartition(":")[2]
    is_taken = any(seed.endswith(f":{usual_port}") and is_loopback(seed) for seed in seeds)
    return FREE_BIND if is_taken else DEFAULT_BIND


def beside(bind: str) -> str:
    """A free port on the same host, for the publisher."""
    found = _TCP.match(bind)
    return f"tcp://{found['host']}:0" if found else FREE_BIND


def choose_state_dir(
    options: BrokerOptions, told: str | None, identity: str | None, environ: Mapping[str, str]
) -> Path | None:
    """Where the broker keeps its state: as told, else by its identity; without either it keeps none."""
    if options.is_stateless:
        if options.state_dir is not None:
            raise UsageError("--state-dir and --no-state exclude one another; give one of them")
        return None
    if options.state_dir is not None:
        return options.state_dir
    if told:
        return Path(told)
    return state_dirs.broker_dir(identity, environ) if identity is not None else None


def is_free(bind: str) -> bool:
    """Whether the system chooses the port."""
    return bind.endswith((":0", ":*"))


# --- what cannot be right -----------------------------------------------------------------------------------------


def check_telemetry(telemetry: Telemetry) -> None:
    """Say before the start what would keep it from being recorded."""
    from scale0.telemetry import lock

    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"recording needs {' and '.join(missing)}\nadd it: pip install 'scale0[pipeline]'")
    lock.check(Path(telemetry.directory))


def read_sample(told: str) -> tuple[str, int]:
    """`pay=100`: of the service `pay`, one row for a hundred usual tasks."""
    service, _, rate = told.rpartition("=")
    if not service or not rate.isdigit() or not 1 <= int(rate) <= RATE_MAX:
        raise UsageError(f"{told!r} is no sample\nwrite SERVICE=N, with N from 1 to {RATE_MAX:,}")
    return service, int(rate)


def check_seeds(seeds: list[str]) -> None:
    """A broker is joined by its address."""
    from scale0.protocol.network_addresses import is_address

    for seed in seeds:
        if not is_address(seed) or is_free(seed):
            raise UsageError(f"{seed!r} is not an address to join by\nit looks like {DEFAULT_BIND}")


def check_listed(identity: str, listed: list[str]) -> None:
    """One that begins with a document is in it: else two first versions would differ, and chance would choose."""
    if listed and identity not in listed:
        raise UsageError(
            f"the document lists {', '.join(listed)}, and no {identity}\n"
            "say which one this is with --identity; a new one is added to the document, or comes with --join ADDRESS"
        )


def check_group(group: str, identity: str, listed: str | None) -> None:
    """The document has the last word on the brokers that it lists."""
    if listed is not None and group != listed:
        raise UsageError(
            f"the document lists {identity} in {f'group {listed}' if listed else 'no group'}, not in {group}\n"
            "leave --group out, or change the document"
        )


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


def check_bind(endpoints: list[str], *, is_insecure: bool, is_encrypted: bool = False) -> None:
    """Refuse to listen beyond this machine, unless with a key, or if that was asked for in so many words."""
    for endpoint in endpoints:
        if is_loopback(endpoint) or is_encrypted:
            continue
        if not is_insecure:
            raise UsageError(
                f"{endpoint} can be reached from other machines, and traffic is not encrypted\n"
                "encrypted: scale0 keys new broker, then --key broker\n"
                "on a network that you trust: add --insecure-bind\n"
                f"for this machine alone: an address such as {DEFAULT_BIND}"
            )
        remark(f"{endpoint} can be reached from other machines without encryption; anybody there may send tasks")


# --- what is said -------------------------------------------------------------------------------------------------


def say_joining(seeds: list[str], server: Server, state_dir: Path | None) -> None:
    """On stderr: it goes on trying; or it is of a network already by what it has kept, and `--join` adds an address."""
    state = server.broker.state
    if state.mode == "joining":
        told = f"joining by {', '.join(seeds)}; until a broker there answers, tasks are refused"
    else:
        told = (
            f"of network {render.safe(state.config.document.network)} already, as kept in {state_dir}; "
            "to join another one: remove that, or give --no-state"
        )
    sys.stderr.write(f"{told}\n")
    sys.stderr.flush()


def waiting_for(server: Server) -> str:
    """Why it does not serve yet, if it does not: it was disabled, or of a pair it waits for the other, or stands by."""
    from scale0.core.star import Star

    state = server.broker.state
    pair = state.pair
    if state.mode == "disabled":
        return "disabled: scale0 ctl enable"
    if pair is None or state.mode != "passive":
        return ""
    return f"waits for {pair.partner}" if pair.star is Star.PRIMARY else f"standby of {pair.partner}"


def announce(identity: str, endpoints: list[str], waits: str = "") -> None:
    """The one line on stdout. A script may wait for it: what it names is bound."""
    sys.stdout.write(f"scale0 broker {identity} ready on {' '.join(endpoints)}{f' ({waits})' if waits else ''}\n")
    sys.stdout.flush()
