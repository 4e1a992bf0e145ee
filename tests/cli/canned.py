"""Listings as a broker sends them, for tests that need no broker."""

from __future__ import annotations

import json
from typing import Any

BROKER = {
    "identity": "eu-1",
    "state": "active",
    "epoch": 1,
    "config_version": "1.42.00c0ffee",
    "uptime_us": 65_000_000,
    "network": "prod",
    "group": "eu",
}


def service(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "state": "ok",
        "workers": 12,
        "free": 31,
        "capacity": 96,
        "queued": 0,
        "oldest_us": None,
        "tasks_per_s": 1204.2,
        "p50_us": 8_000,
        "p99_us": 41_000,
        "errors_5m": 0,
        "idempotent": True,
        **changes,
    }


def bare_service(name: str, **changes: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "state": "no worker",
        "workers": 0,
        "free": 0,
        "capacity": 0,
        "queued": 12,
        "oldest_us": 8_200_000,
        "tasks_per_s": 0.0,
        "p50_us": None,
        "p99_us": None,
        "errors_5m": 12,
    }
    return service(name, **{**empty, **changes})


def worker(identity: str, **changes: Any) -> dict[str, Any]:
    return {
        "identity": identity,
        "state": "ready",
        "services": ["render"],
        "lru": 1,
        "busy": 2,
        "capacity": 8,
        "stuck": 0,
        "heartbeat_age_us": 200_000,
        "heartbeat_interval_us": 1_000_000,
        "config_version": "1.42.00c0ffee",
        "clock_offset_us": -1_000,
        "dispatched": 1_500,
        "dialect": "worker",
        **changes,
    }


def network_broker(identity: str, **changes: Any) -> dict[str, Any]:
    """A row of `scale0.network`; eu-1 is the broker that was asked."""
    is_self = identity == "eu-1"
    return {
        "identity": identity,
        "group": identity.partition("-")[0],
        "state": "active",
        "star": None,
        "is_self": is_self,
        "endpoints": [f"tcp://{identity}:5555"],
        "epoch": 1,
        "fallback": None,
        "config_version": "1.42.00c0ffee",
        "is_behind": False,
        "fallback_broker": "",
        "fallback_groups": [],
        "workers": 12,
        "clients": 3,
        "queued": 0,
        "services": {"render": 12},
        "link": "self" if is_self else "up",
        "heard_us": None if is_self else 1_200_000,
        "forwarded": 0,
        "received": 0,
        "is_sequencer": is_self,
        **changes,
    }


def standby_broker(identity: str, **changes: Any) -> dict[str, Any]:
    """The one of a pair that follows the other."""
    idle = {"state": "passive", "star": "passive", "workers": 0, "clients": 0, "services": {}}
    return network_broker(identity, **{**idle, **changes})


def gone_broker(identity: str, **changes: Any) -> dict[str, Any]:
    lost = {"state": "gone", "link": "dialing", "heard_us": 14_000_000, "workers": 0, "clients": None, "queued": None}
    return network_broker(identity, **{**lost, "services": {}, **changes})


def document(**changes: Any) -> dict[str, Any]:
    """A network's document, as JSON has it."""
    brokers = [{"identity": name, "group": name.partition("-")[0]} for name in ("eu-1", "eu-2", "us-1")]
    return {"network": "prod", "brokers": brokers, "service": [{"name": "render", "timeout": 10.0}], **changes}


def config(**changes: Any) -> dict[str, Any]:
    """A row of `scale0.config`."""
    return {
        "version": "1.42.00c0ffee",
        "document": document(),
        "author": "ops",
        "comment": "a third broker",
        "time_us": 1_714_564_800_000_000,
        "sequencer": "eu-1",
        "brokers": 3,
        "behind": [],
        "unknown": [],
        **changes,
    }


def past_config(version: str, state: str = "past", **changes: Any) -> dict[str, Any]:
    """A row of `scale0.config_history`."""
    row = config(version=version, state=state, **changes)
    return {key: row[key] for key in ("version", "document", "author", "comment", "time_us", "state")}


def listing(name: str, *rows: dict[str, Any], complete: bool = True) -> bytes:
    document = {
        "schema": f"scale0.{name}/1",
        "at": "2024-05-01T12:00:00Z",
        "complete": complete,
        "broker": BROKER,
        "rows": list(rows),
    }
    return json.dumps(document).encode()
