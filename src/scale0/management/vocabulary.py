"""The one vocabulary of management: every command and every listing, who may use it, and how it is asked for.

Each door only translates into it: MANAGEMENTREQ, the HTTP API, the page, the command line. What a command does is in
`core/management.py`; what stands here is who may do it (`role`), how surely it must be meant (`tier`) and what its
arguments are, from which doors make their checks, their help and the API's description.

Tiers: 1 is done at once, 2 wants a button that names verb and object, 3 wants the object's name to be typed.
"""

from __future__ import annotations

import enum
from typing import Any, Final, Literal

import msgspec


class Role(enum.IntEnum):
    """What somebody may do; each may do what the former may."""

    VIEW = 1
    OPERATE = 2
    ADMIN = 3

    @property
    def text(self) -> str:
        """As people and files write it."""
        return self.name.lower()

    @classmethod
    def read(cls, text: str) -> Role:
        """`ValueError` says which roles there are."""
        for role in cls:
            if text == role.text:
                return role
        raise ValueError(f"no role {text!r}; there are {', '.join(role.text for role in cls)}")


class Arguments(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The arguments of a command that has none, and the base of all others."""


class FailbackArguments(Arguments):
    broker: str | None = None


class KickWorkerArguments(Arguments):
    worker: str
    reason: str = ""


class TaskArguments(Arguments):
    task: str


class ConnectionArguments(Arguments):
    connection: str | None = None


class TryServiceArguments(Arguments):
    """`body` is JSON text."""

    service: str
    body: str = "null"
    timeout_s: float = 5.0


class DocumentArguments(Arguments):
    document: str


class ConfigApplyArguments(DocumentArguments):
    base: str | None = None
    comment: str = ""
    force: bool = False


class ConfigRollbackArguments(Arguments):
    version: str
    comment: str = ""
    force: bool = False


class BrokerArguments(Arguments):
    broker: str


class PartitionArguments(Arguments):
    peer: str
    for_s: float
    lost: Literal["both", "sent", "received"] = "both"


class HealArguments(Arguments):
    peer: str = ""


class HintsArguments(Arguments, forbid_unknown_fields=False):
    """A document of hints; the core reads it, and passes over what a newer pipeline added."""

    version: int
    mode: str = "shadow"
    hints: list[dict[str, Any]] = []


class SegmentsArguments(Arguments):
    after: int = 0
    limit: int | None = None
    consumer: str = ""


class SegmentArguments(Arguments):
    path: str
    offset: int = 0
    length: int | None = None


class ListArguments(Arguments):
    what: str = "brokers"
    after: str | None = None
    limit: int | None = None


class SnapshotArguments(Arguments):
    parts: list[str]
    after: str | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who asks, through which door: what he may do, and which services he may send test tasks to (`None`: all)."""

    user: str
    role: Role
    door: str  # managementreq, http, peer, process
    source: str = ""
    services: list[str] | None = None
    limit: str = ""  # why he may do less than he could elsewhere, and the cure


class Command(msgspec.Struct, frozen=True):
    """One command, as all doors know it."""

    name: str
    role: Role
    tier: int
    summary: str
    arguments: type[Arguments] = Arguments
    is_change: bool = True  # it is written into the audit log before it is carried out
    target: str = ""  # the argument that names its object


class Listing(msgspec.Struct, frozen=True):
    """What can be looked at; `columns` are the keys of its rows that matter most, in their order."""

    name: str
    role: Role
    summary: str
    columns: tuple[str, ...]


VIEW, OPERATE, ADMIN = Role.VIEW, Role.OPERATE, Role.ADMIN

_COMMANDS: Final = (
    Command("disable", OPERATE, 3, "accept nothing more, finish what is in flight, and stay off over restarts"),
    Command("enable", OPERATE, 2, "accept again"),
    Command("drain", OPERATE, 2, "move workers and clients away, finish what is held"),
    Command("reload_config", OPERATE, 1, "read the config file again"),
    Command("balance", OPERATE, 2, "move workers until the brokers of the group have equal shares"),
    Command("failback", OPERATE, 3, "send those who came from a lost broker back to it", FailbackArguments,
            target="broker"),
    Command("handover", ADMIN, 3, "give way to the other one of the pair, which follows"),
    Command("takeover", ADMIN, 3, "serve, though the other one of the pair was not seen: only if it is surely dead"),
    Command("kick_worker", OPERATE, 2, "end a worker's session; it may come back", KickWorkerArguments,
            target="worker"),
    Command("cancel_task", OPERATE, 2, "end a task that waits or runs; its client hears 499", TaskArguments,
            target="task"),
    Command("retry_dead_letter", OPERATE, 2, "try a task that failed its last attempt once more", TaskArguments,
            target="task"),
    Command("clear_dead_letters", OPERATE, 2, "forget the tasks that failed their last attempt"),
    Command("clear_error_client", OPERATE, 2, "forgive a connection that is ignored, or all", ConnectionArguments,
            target="connection"),
    Command("test_task", OPERATE, 1, "send a task to a service, and see who answers and how fast", TryServiceArguments,
            target="service"),
    Command("config_check", VIEW, 1, "what a new config would change; it changes nothing", DocumentArguments,
            is_change=False),
    Command("config_apply", ADMIN, 3, "change the network's config", ConfigApplyArguments),
    Command("config_rollback", ADMIN, 3, "run an older version of the config again", ConfigRollbackArguments,
            target="version"),
    Command("forget_broker", ADMIN, 3, "take a broker that will not come back out of the config", BrokerArguments,
            target="broker"),
    Command("partition", ADMIN, 3, "a drill: drop all traffic with a peer; it heals by itself", PartitionArguments,
            target="peer"),
    Command("heal", ADMIN, 1, "end a drill's partition with a peer, or all", HealArguments, target="peer"),
    Command("hints", OPERATE, 1, "bring advice of the pipeline: workers that should be asked last", HintsArguments),
    Command("segments", VIEW, 1, "which segments were recorded here", SegmentsArguments, is_change=False),
    Command("segment", VIEW, 1, "a piece of a recorded segment", SegmentArguments, is_change=False, target="path"),
    Command("list", VIEW, 1, "what there is: services, workers, clients, brokers, …", ListArguments, is_change=False,
            target="what"),
    Command("snapshot", VIEW, 1, "several listings of one moment, piece by piece", SnapshotArguments,
            is_change=False),
)  # fmt: skip
COMMANDS: Final[dict[str, Command]] = {command.name: command for command in _COMMANDS}

_LISTINGS: Final = (
    Listing("overview", VIEW, "the verdict, the figures, what is wrong", ("verdict", "figures", "alarms", "services")),
    Listing("services", VIEW, "each service: its queue, its workers, its speed",
            ("name", "state", "queued", "oldest_us", "tasks_per_s", "p50_us", "p99_us", "workers", "free",
             "errors_5m")),
    Listing("workers", VIEW, "each worker: place in the LRU queue, tasks, heartbeat",
            ("identity", "state", "services", "lru", "busy", "capacity", "heartbeat_age_us", "config_version",
             "clock_offset_us", "p99_us")),
    Listing("gone_workers", VIEW, "workers that left or died within the last hour, the newest first",
            ("identity", "state", "why", "at", "services", "sessions_per_h")),
    Listing("clients", VIEW, "each client: open tasks, rates, errors",
            ("identity", "open_tasks", "tasks_per_s", "errors_5m", "heard_us", "config_version")),
    Listing("brokers", VIEW, "this broker, with all its counts",
            ("identity", "state", "accepted", "replied", "errored", "queued", "in_flight", "workers", "clients",
             "cpu_percent", "rss_bytes", "connections")),
    Listing("network", VIEW, "all brokers of the network and their links",
            ("identity", "group", "state", "star", "link", "config_version", "workers", "clients", "queued",
             "cpu_percent", "rss_bytes")),
    Listing("network_workers", VIEW, "all workers that this broker knows of",
            ("identity", "broker", "state", "services", "busy", "capacity", "heard_us")),
    Listing("tasks", VIEW, "tasks that wait or run, the nearest deadline first",
            ("id", "service", "state", "age_us", "deadline_us", "attempt", "worker", "client", "priority", "bytes")),
    Listing("dead_letters", VIEW, "tasks that failed their last attempt, the newest first",
            ("id", "service", "client", "code", "text", "attempts", "died_at", "bytes")),
    Listing("error_clients", VIEW, "connections that are ignored for what they sent",
            ("connection", "bad", "penalty_us", "ignored", "reason")),
    Listing("config", VIEW, "the current config, and who runs it",
            ("version", "author", "comment", "time_us", "sequencer", "brokers", "behind", "unknown")),
    Listing("config_history", VIEW, "the versions of the config, the newest first",
            ("version", "state", "author", "comment", "time_us")),
    Listing("alarms", VIEW, "what is wrong, since when, and what to do",
            ("name", "state", "since_us", "severity", "subject", "cause", "cure")),
    Listing("events", VIEW, "what happened lately, and who did it",
            ("at", "kind", "actor", "door", "command", "target", "result", "broker")),
    Listing("audit", OPERATE, "who did what, or was denied it, the newest first",
            ("seq", "at", "user", "role", "door", "source", "command", "target", "outcome", "code")),
    Listing("hints", VIEW, "the hints in force", ("worker", "kind", "mode", "is_damped", "passed", "expires_us")),
    Listing("keys", VIEW, "public keys that may connect, and what each may do",
            ("key", "name", "kind", "serve", "call", "until", "sessions")),
)  # fmt: skip
LISTINGS: Final[dict[str, Listing]] = {listing.name: listing for listing in _LISTINGS}

SHELL_LISTINGS: Final = frozenset({"alarms", "events", "audit", "gone_workers"})
"""Listings that the gate makes; the core has the others."""
