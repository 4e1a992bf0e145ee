"""Two data places with the same segments: whether their tables say the same, row for row.

How rows were grouped into batches is no part of it, for that is chance. So facts, which hold partial sums of each
batch, are added up first, and what tells of batches and of the time of making is left out.
"""

from __future__ import annotations

from typing import Any

from scale0.telemetry.place import Place
from scale0_pipeline import schema
from scale0_pipeline.transforms import facts
from tests.chaos.pipeline_reader import read

FACTS = {
    "facts/minute": facts.MINUTE_KEYS,
    "facts/hour": facts.HOUR_KEYS,
    "facts/split": facts.SPLIT_KEYS,
    "facts/recorded": facts.RECORDED_KEYS,
}
ROWS = ("silver/tasks", "silver/notes")
KEYS = ("broker", "boot", "seq")
GOLD = ("gold/service_1m", "gold/service_1h", "gold/service_1d", "gold/completeness_1h", "gold/cost_1d")
BY_CHANCE = frozenset({"batch", "landed_us", "revision"})
DIGITS = 9  # of fractions, which are added up in any order

Rows = list[tuple[Any, ...]]


def differences(left: Place, right: Place) -> list[str]:
    """A sentence for each table that is not the same in both."""
    found = []
    for name in (*FACTS, *ROWS, *GOLD):
        ours, theirs = rows_of(left, name), rows_of(right, name)
        if ours != theirs:
            odd = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
            found.append(f"{name}: {len(ours):,} rows, and {len(theirs):,} where nothing was killed; first {odd}")
    return found


def rows_of(place: Place, name: str) -> Rows:
    """The rows of a table in an order of their own."""
    table = read(place, name)
    if table is None or not len(table):
        return []
    if name in FACTS:
        table = _added_up(table, name)
    columns = [column for column in schema.TABLES[name].names if column not in BY_CHANCE]
    first = [*(FACTS.get(name) or (KEYS if name in ROWS else ())), *columns]
    ordered = list(dict.fromkeys(first))
    cells = [table[column].to_pylist() for column in ordered]
    return sorted((tuple(_plain(cell) for cell in row) for row in zip(*cells, strict=True)), key=repr)


def _added_up(table: Any, name: str) -> Any:
    keys = FACTS[name]
    measures = [column for column in schema.TABLES[name].names if column not in (*keys, *BY_CHANCE)]
    how = {column: _how(column) for column in measures}
    sums = table.group_by(list(keys)).aggregate(list(how.items()))
    return sums.rename_columns([*keys, *measures])


def _how(column: str) -> str:
    return "max" if column in facts.BY_MAXIMUM else "min" if column in facts.BY_MINIMUM else "sum"


def _plain(cell: Any) -> Any:
    if isinstance(cell, float):
        return float(f"{cell:.{DIGITS}g}")
    return tuple(map(str, cell)) if isinstance(cell, list) else cell
