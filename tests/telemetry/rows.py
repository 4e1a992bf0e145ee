"""Rows as a broker would tell them, made by hand."""

from __future__ import annotations

from typing import Any

from scale0.events import NEVER_S, TASK, TASK_FIELDS, UNKNOWN_OFFSET, UNKNOWN_US, Note, Records
from scale0.telemetry.frames import Hello

ANCHOR_US = 1_700_000_000_000_000
HELLO = Hello("eu-1", "boot-1", ANCHOR_US, "eu")
NAMES = [(1, "echo"), (2, "client-1"), (3, "worker-1"), (4, "native"), (5, "1.2.abc")]

USUAL: dict[str, Any] = {
    "sequence": 7,
    "nonce": bytes.fromhex("0123456789abcdef"),
    "received_s": 10.0,
    "dispatched_s": 10.001,
    "settled_s": 10.005,
    "sent_us": ANCHOR_US + 9_999_000,
    "worker_us": ANCHOR_US + 10_004_000,
    "client_offset_us": -25,
    "worker_offset_us": UNKNOWN_OFFSET,
    "wait_us": 100,
    "work_us": 2_000,
    "request_bytes": 11,
    "reply_bytes": 12,
    "epoch": 1,
    "free": 3,
    "queued": 2,
    "workers": 4,
    "service_no": 1,
    "client_no": 2,
    "worker_no": 3,
    "dialect_no": 4,
    "config_version_no": 5,
    "code": 200,
    "client_error_bits": 4,
    "attempt": 1,
    "priority": 1,
}


def task(seq: int, **other: Any) -> bytes:
    """A task's record; usual but for what is told."""
    fields = {**USUAL, "seq": seq, **other}
    unknown = {"worker_us": 0, "dispatched_s": NEVER_S, "wait_us": UNKNOWN_US, "work_us": UNKNOWN_US}
    values = [fields.get(name, unknown.get(name, 0)) for name, code in TASK_FIELDS if not code.endswith("x")]
    return TASK.pack(*values)


def tasks(low: int, high: int, **other: Any) -> Records:
    """The rows `low` to `high`, all of them tasks; the first ones come with their names."""
    records = [task(seq, settled_s=10.0 + seq / 1000, **other) for seq in range(low, high + 1)]
    return Records(NAMES if low == 1 else [], [], [], records)


def note(seq: int, kind: str = "gauge", **other: Any) -> Note:
    return Note(seq, other.pop("at_s", 10.0), kind, **other)
