"""Small data places: a few segments of two brokers, one of which came twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from scale0.telemetry.catalogue import Entry
from scale0.telemetry.place import Place
from scale0.telemetry.segments import write_segment

SECOND_US = 1_000_000
START_US = 1_772_323_200 * SECOND_US  # 2026-03-01


def rows(broker: str, lo: int, hi: int, **more: list[Any]) -> Any:
    """Events number `lo` to `hi` of a broker, one each second of the day."""
    numbers = list(range(lo, hi + 1))
    columns: dict[str, list[Any]] = {
        "v": [1] * len(numbers),
        "kind": ["task"] * len(numbers),
        "broker": [broker] * len(numbers),
        "boot": ["boot"] * len(numbers),
        "seq": numbers,
        "ts_us": [START_US + number * SECOND_US for number in numbers],
        "service": [f"service-{number % 3}" for number in numbers],
        "code": [200] * len(numbers),
    }
    return pa.table({**columns, **more})


def add(place: Place, broker: str, lo: int, hi: int) -> Entry:
    return write_segment(place, rows(broker, lo, hi), broker, "boot", "generate")


def two_brokers(folder: Path) -> Place:
    """eu-1 has 1..300, of which 51..150 came twice; us-1 has 1..100. In all 400 events in 5 segments."""
    place = Place(str(folder))
    add(place, "eu-1", 1, 100)
    add(place, "us-1", 1, 100)
    add(place, "eu-1", 51, 150)
    add(place, "eu-1", 51, 100)
    add(place, "eu-1", 151, 300)
    return place
