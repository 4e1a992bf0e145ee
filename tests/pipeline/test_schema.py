"""The contract of the tables: it parses, and the documents say the same."""

from __future__ import annotations

from pathlib import Path

from scale0 import events
from scale0_pipeline import schema
from scale0_pipeline.quality import KEYS, RULES

DOCUMENT = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_document_lists_every_table_and_column() -> None:
    assert schema.as_markdown() in DOCUMENT.read_text(encoding="utf-8"), (
        "docs/pipeline.md differs; python -m scale0_pipeline.schema prints its chapter"
    )


def test_names_are_unique_and_types_are_known() -> None:
    known = {"bigint", "int", "smallint", "string", "date", "double", "boolean", schema.ATTEMPTS}
    for name, contract in schema.TABLES.items():
        assert len(set(contract.names)) == len(contract.names), name
        assert {field.type for field in contract.fields} <= known, name
        assert all(field.meaning for field in contract.fields), name


def test_silver_holds_every_column_of_events() -> None:
    stored = {*schema.TABLES["silver/tasks"].names, *schema.TABLES["silver/notes"].names}
    assert {column.name for column in events.COLUMNS} <= stored


def test_every_table_is_filed_by_day_but_snapshots() -> None:
    without = {name for name, contract in schema.TABLES.items() if contract.names[0] != "day"}
    assert without == {"gold/capacity"}


def test_rules_are_of_tables_and_keys_of_columns() -> None:
    assert set(RULES) <= set(schema.TABLES)
    for name, keys in KEYS.items():
        assert set(keys) <= set(schema.TABLES[name].names), name
