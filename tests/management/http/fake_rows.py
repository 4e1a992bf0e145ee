"""Rows as a broker of a busy network gives them: made from a seed, so that each is the same every time."""

from __future__ import annotations

import random
from typing import Any

Row = dict[str, Any]
EVIL = "<img src=x onerror=alert(1)>"
VERSION = "1.42.eu-1"
NAMES = ("render", "ocr", "thumbnail", "translate", "index", "notify", "resize", "score")


def service_name(number: int) -> str:
    return NAMES[number] if number < len(NAMES) else f"{NAMES[number % len(NAMES)]}-{number}"


def services(chance: random.Random, count: int) -> list[Row]:
    return [_service(chance, number) for number in range(count)]


def _service(chance: random.Random, number: int) -> Row:
    is_lost = number == 1
    is_full = number % 17 == 5
    workers = 0 if is_lost else chance.randint(1, 40)
    capacity = workers * 8
    free = 0 if is_lost or is_full else chance.randint(1, capacity)
    queued = 12 if is_lost else chance.randint(1, 40) if is_full else 0
    families = {"late": 8 if is_lost else 0, "lost": 0, "refused": 4 if is_lost else 0, "caller": 0}
    p50 = chance.randint(500, 20_000)
    return {
        "name": service_name(number),
        "state": "no worker" if is_lost else "full" if is_full else "ok",
        "workers": workers,
        "free": free,
        "capacity": capacity,
        "queued": queued,
        "oldest_us": 8_200_000 if is_lost else chance.randint(1_000, 900_000) if queued else None,
        "tasks_per_s": 0.0 if is_lost else round(chance.uniform(0.5, 1_204), 3),
        "p50_us": None if is_lost else p50,
        "p99_us": None if is_lost else p50 * 5,
        "errors_5m": sum(families.values()),
        "errors_by_family": families,
        "idempotent": number % 2 == 0,
        "max_attempts": 3,
    }


def workers(chance: random.Random, count: int, services_count: int, broker: str = "eu-1") -> list[Row]:
    return [_worker(chance, number, services_count, broker) for number in range(count)]


def _worker(chance: random.Random, number: int, services_count: int, broker: str) -> Row:
    capacity = 8
    busy = 8 if number % 5 == 0 else chance.randint(0, 7)
    is_late = number == 12
    is_full = busy == capacity
    return {
        "identity": EVIL if number == 3 else f"w-{number}",
        "broker": broker,
        "state": "full" if is_full else "draining" if number % 400 == 399 else "ready",
        "services": sorted({service_name(chance.randrange(services_count)) for _ in range(2)}),
        "lru": None if is_full else number + 1,
        "busy": busy,
        "capacity": capacity,
        "stuck": 1 if number == 40 else 0,
        "is_absent": False,
        "heartbeat_age_us": 2_900_000 if is_late else chance.randint(10_000, 900_000),
        "heartbeat_interval_us": 1_000_000,
        "config_version": "1.41.eu-1" if is_late else VERSION,
        "clock_offset_us": chance.randint(-12_000, 12_000),
        "dispatched": chance.randint(0, 100_000),
        "dialect": "SC0W01",
        "process": f"host-{number % 20}:{1000 + number}",
        "p99_us": chance.randint(1_000, 80_000),
        "sessions_per_h": 6.0 if is_late else 0.0,
        "connected_us": chance.randint(10**6, 10**11),
        "tasks": [f"c-{number}.00000000000000aa.{slot}" for slot in range(busy)],
        "key": None,
        "is_behind": is_late,
    }


def clients(chance: random.Random, count: int) -> list[Row]:
    return [
        {
            "identity": f"c-{number}",
            "open_tasks": chance.randint(0, 30),
            "outcomes_kept": 0,
            "is_absent": False,
            "heard_us": chance.randint(10_000, 900_000),
            "config_version": VERSION,
            "clock_offset_us": chance.randint(-3_000, 3_000),
            "dialect": "SC0C01",
            "tasks_per_s": round(chance.uniform(0, 60), 3),
            "errors_5m": 12 if number == 2 else 0,
            "limit_percent": 96.0 if number == 4 else round(chance.uniform(0, 20), 1),
            "key": None,
        }
        for number in range(count)
    ]


def tasks(chance: random.Random, count: int, services_count: int) -> list[Row]:
    return [
        {
            "id": f"c-{number % 9}.00000000000000aa.{number}",
            "service": service_name(chance.randrange(services_count)),
            "client": f"c-{number % 9}",
            "state": "queued" if number % 4 == 0 else "in_flight",
            "age_us": chance.randint(1_000, 5_000_000),
            "deadline_us": 1_000_000 + number * 40_000,
            "attempt": 2 if number % 30 == 7 else 1,
            "worker": None if number % 4 == 0 else f"w-{number % 50}",
            "priority": 1,
            "bytes": chance.randint(20, 20_000),
        }
        for number in range(count)
    ]


def network() -> list[Row]:
    """Two groups and a fallback group, one broker gone with its standby serving, one behind."""
    places = [
        ("eu-1", "eu", "active", "eu-1b", "self", True),
        ("eu-1b", "eu", "passive", "", "none", False),
        ("eu-2", "eu", "active", "", "up", False),
        ("eu-3", "eu", "active", "", "up", False),
        ("us-1", "us", "gone", "us-1b", "down", False),
        ("us-1b", "us", "active", "", "up", False),
        ("ap-1", "ap", "draining", "", "up", False),
    ]
    return [
        {
            "identity": identity,
            "group": group,
            "endpoints": [f"tcp://10.0.0.{place}:5555"],
            "fallback_broker": fallback,
            "fallback_groups": ["us", "ap"] if group == "eu" else ["eu"],
            "is_self": is_self,
            "is_sequencer": is_self,
            "state": state,
            "star": "passive" if state == "passive" else "active" if fallback or identity.endswith("b") else None,
            "epoch": 4 if group == "us" else 3,
            "fallback": "12 ms" if identity == "eu-1" else None,
            "config_version": "1.41.eu-1" if identity == "eu-3" else VERSION,
            "is_behind": identity == "eu-3",
            "workers": 0 if state in ("gone", "passive") else 24,
            "clients": 0 if state in ("gone", "passive") else 9,
            "queued": 12 if is_self else 0,
            "services": {"render": 12, "thumbnail": 7},
            "link": link,
            "heard_us": None if is_self else 14_000_000 if state == "gone" else 400_000,
            "forwarded": 120 if group == "us" else 0,
            "received": 0,
            "tasks_per_s": None if state == "gone" else 120.0 * place,
            "cpu_percent": None if state == "gone" else 11.5 * place,
            "rss_bytes": None if state == "gone" else 44_000_000 * place,
            "connections": None if state == "gone" else 30 * place,
        }
        for place, (identity, group, state, fallback, link, is_self) in enumerate(places, 1)
    ]


def broker_row() -> Row:
    return {
        "identity": "eu-1",
        "state": "active",
        "endpoints": ["tcp://127.0.0.1:5555"],
        "accepted": 120_400,
        "replied": 119_000,
        "errored": 1_360,
        "queued": 12,
        "in_flight": 28,
        "clients": 9,
        "workers": 51,
        "dead_letters": 3,
        "process": "host-1:4242",
        "counters": {"discarded_late": 4, "malformed": 2},
        "cpu_percent": 37.5,
        "rss_bytes": 88_000_000,
        "connections": 61,
    }


def dead_letters() -> list[Row]:
    return [
        {
            "id": f"c-1.00000000000000aa.{number}",
            "service": "ocr",
            "client": "c-1",
            "code": 502,
            "text": "the worker was lost 3 times",
            "attempts": 3,
            "died_at": f"2026-03-01T11:5{number}:00.000Z",
            "bytes": 1_240,
        }
        for number in range(3)
    ]


def gone_workers() -> list[Row]:
    return [
        {
            "identity": identity,
            "state": state,
            "why": why,
            "at": f"2026-03-01T11:5{place}:00Z",
            "services": ["render"],
            "busy": place,
            "sessions_per_h": 1 + place,
        }
        for place, (identity, state, why) in enumerate((("w-71", "gone", "silent"), ("w-72", "left", "drained")))
    ]


def alarms(at_us: int) -> list[Row]:
    return [
        {
            "name": "service_without_worker",
            "state": "raised",
            "since_us": at_us - 240_000_000,
            "severity": "bad",
            "cause": "nobody serves ocr: 12 tasks wait, the oldest for 8.2 s",
            "cure": "start one: scale0 worker module:app",
            "subject": "ocr",
            "value": 12.0,
            "threshold": 1.0,
            "link": "#/services?sel=ocr",
        },
        {
            "name": "worker_behind_config",
            "state": "raised",
            "since_us": at_us - 60_000_000,
            "severity": "warn",
            "cause": "w-12 runs config v41, v42 is current",
            "cure": "scale0 ctl kick w-12, if it stays so",
            "subject": "w-12",
            "value": 1.0,
            "threshold": 1.0,
            "link": "#/workers?sel=w-12",
        },
    ]
