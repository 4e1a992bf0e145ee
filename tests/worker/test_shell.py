"""What the worker's shell says in the log."""

from __future__ import annotations

import logging

import pytest

from scale0.worker.shell import note


def test_what_is_usual_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="scale0.worker"):
        note("lost the broker")
        note("the broker sent a new config", is_usual=True)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "lost the broker"),
        ("INFO", "the broker sent a new config"),
    ]
