"""`docs/telemetry.md` says what the vocabulary and the command line say."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from scale0.cli.main import app
from scale0.events import ATTEMPT_FIELDS, COLUMNS, KINDS, TASK, Column
from scale0.telemetry import feed, recorder
from scale0.transport import recording
from tests.test_docs import ROOT, quoted, table_headed

TELEMETRY = (ROOT / "docs" / "telemetry.md").read_text()


@pytest.mark.parametrize(("heading", "columns"), [("column", COLUMNS), ("field of `attempts`", ATTEMPT_FIELDS)])
def test_columns_are_those_of_the_vocabulary(heading: str, columns: tuple[Column, ...]) -> None:
    told = [(quoted(row[0])[0], row[1], row[2]) for row in table_headed(TELEMETRY, heading)]
    assert told == [(column.name, column.type, column.meaning) for column in columns]


def test_kinds_are_those_of_the_vocabulary() -> None:
    assert {quoted(row[0])[0]: row[1] for row in table_headed(TELEMETRY, "kind")} == KINDS


def test_options_are_those_of_the_command_line() -> None:
    broker = get_command(app).commands["broker"]  # type: ignore[attr-defined]
    options = {option.opts[0] for option in broker.params if "telemetry" in option.opts[0]}
    assert {quoted(row[0])[0] for row in table_headed(TELEMETRY, "option")} == options


def test_sizes_and_times_are_those_of_the_code() -> None:
    text = re.sub(r"\s+", " ", TELEMETRY)
    assert f"records of {TASK.size} bytes" in text
    assert f"{feed.BUFFER_BYTES_MAX >> 20} MiB wait, then rows are dropped" in text
    assert f"the last {feed.KEPT_BYTES >> 20} MiB of rows" in text
    assert f"from {feed.PAUSE_S:g} to {feed.PAUSE_S_MAX:g} s" in text
    assert f"when {recording.BURST_BYTES >> 10} KiB wait" in text
    assert f"every {recorder.SYNC_S * 1000:.0f} ms" in text
    assert f"Every {recorder.SEAL_S:g} s, or every {recorder.SEAL_FOLLOWED_S:g} s while somebody follows" in text
    assert f"tried again every {recorder.MEND_S:g} s" in text
