"""Recorded loads for tests: made up, and of known shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from scale0_pipeline.gold import schema_of
from scale0_pipeline.whatif.recorded import About, Recorded, peak_of

MONDAY_US = 1_793_577_600_000_000  # 2026-11-02
HOUR_US = 3_600_000_000


def poisson(tasks: int, erlangs: float, *, seed: int = 1, work_s: float = 0.1, clients: int = 5) -> Recorded:
    """Arrivals and work without memory: what Erlang's formula supposes."""
    draw = np.random.default_rng(seed)
    came_s = np.cumsum(draw.exponential(work_s / erlangs, tasks))
    work = draw.exponential(work_s, tasks)
    return recorded(came_s, work, draw.integers(0, clients, tasks))


def recorded(
    came_s: np.ndarray, work_s: np.ndarray, client: np.ndarray | None = None, speeds: tuple[float, ...] = (1.0,)
) -> Recorded:
    came, work = np.asarray(came_s, float), np.asarray(work_s, float)
    who = np.zeros(len(came), np.int32) if client is None else client.astype(np.int32)
    about = About("resize", 0, int(came[-1] * 1e6) + 1, peak_of(came, work), list(speeds))
    return Recorded(about, came, work, who, np.zeros(len(came), np.int8))


def equal_workers_fifo(came_s: np.ndarray, work_s: np.ndarray, workers: int) -> np.ndarray:
    """Latencies of a plain queue before so many equal workers, computed without any broker."""
    free_s = np.zeros(workers)
    ended = np.empty(len(came_s))
    for place, (came, work) in enumerate(zip(came_s, work_s, strict=True)):
        first = int(free_s.argmin())
        free_s[first] = ended[place] = max(came, free_s[first]) + work
    return np.asarray(ended - came_s)


def put_table(place: Path, name: str, rows: list[dict[str, object]]) -> None:
    """A Delta table in a data place, with the contract's columns; those that are not given are null."""
    known = schema_of(name)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in known]
    write_deltalake(str(place / "tables" / name), pa.table(columns, schema=known), mode="append")
