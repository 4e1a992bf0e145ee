"""Listings as a broker sends them, for tests that need no broker."""

from __future__ import annotations

import json
from typing import Any

BROKER = {"identity": "eu-1", "state": "active", "epoch": 1, "config_version": "1.42.00c0ffee", "uptime_us": 65_000_000}


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


def listing(name: str, *rows: dict[str, Any], complete: bool = True) -> bytes:
    document = {
        "schema": f"scale0.{name}/1",
        "at": "2024-05-01T12:00:00Z",
        "complete": complete,
        "broker": BROKER,
        "rows": list(rows),
    }
    return json.dumps(document).encode()
