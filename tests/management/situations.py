"""Rows of a small healthy network as its listings have them, for tests to spoil."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scale0.management.vitals import Rows, Shell, Vitals, read

AT_US = 1_700_000_000_000_000


def service(name: str = "render", **given: Any) -> dict[str, Any]:
    row = {"name": name, "workers": 2, "free": 3, "capacity": 8, "queued": 0, "oldest_us": None}
    return {**row, "tasks_per_s": 10.0, "errors_5m": 0, **given}


def worker(identity: str = "w-1", **given: Any) -> dict[str, Any]:
    row = {"identity": identity, "stuck": 0, "sessions_per_h": 1, "is_behind": False, "clock_offset_us": 200}
    return {**row, **given}


def broker(identity: str = "eu-2", **given: Any) -> dict[str, Any]:
    row = {"identity": identity, "state": "active", "link": "up", "is_self": False, "is_behind": False}
    row |= {"heard_us": 400_000, "star": None, "fallback": None, "fallback_broker": "", "services": {}, "workers": 2}
    return {**row, **given}


def own(**given: Any) -> dict[str, Any]:
    return broker("eu-1", **{"is_self": True, "link": "self", "heard_us": None, **given})


def shell(**given: Any) -> Shell:
    known = {
        "queued_per_service_max": 50_000,
        "loop_late_us": 900,
        "rss_bytes": 60 * 2**20,
        "memory_bytes": 2**30,
        "disk_bytes": 2**40,
        "disk_free_bytes": 2**39,
        "connections": 40,
        "connections_max": 1024,
        "recorder_dropped_bytes": 0,
        "audit_error": "",
        "page_error": "",
        "webhook_failures": 0,
    }
    return Shell(identity="eu-1", network="prod", at_us=AT_US, **{**known, **given})


def vitals(
    *,
    services: list[dict[str, Any]] | None = None,
    workers: list[dict[str, Any]] | None = None,
    network: list[dict[str, Any]] | None = None,
    counts: dict[str, Any] | None = None,
    keys: list[dict[str, Any]] | None = None,
    **of_shell: Any,
) -> Vitals:
    """A healthy broker, but for what is given."""
    rows = Rows(
        services=[service()] if services is None else services,
        workers=[worker(), worker("w-2")] if workers is None else workers,
        network=[own(), broker()] if network is None else network,
        brokers=[{"dead_letters": 0, "error_clients": 0, **(counts or {})}],
        keys=keys or [],
    )
    return read(rows, shell(**of_shell))


def days_from_now(days: float) -> str:
    """As key files write a time, from the one at which these vitals are."""
    return datetime.fromtimestamp(AT_US / 1e6 + days * 86_400, UTC).isoformat().replace("+00:00", "Z")
