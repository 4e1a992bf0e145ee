"""Hints on their way: a real broker hears them from a key that opens nothing else."""

from __future__ import annotations

import time
from pathlib import Path

from scale0 import testing
from scale0.cli.hints_command import send
from scale0.cli.manage_command import Credentials
from scale0.errors import Scale0Error

KEY = Credentials("hints", "secret")


def test_each_broker_hears_and_one_that_refuses_stops_no_other(tmp_path: Path) -> None:
    management = testing.managed_by(tmp_path, {"hints": "secret"}, role="operate")
    expires_us = int(time.time() * 1e6) + 3_600_000_000
    document = {"version": 5, "mode": "enforce", "hints": [{"hint_id": "h", "subject": "w", "expires_us": expires_us}]}
    with testing.broker() as closed, testing.broker(management=management) as open_one:
        answers = send(document, [closed.endpoint, open_one.endpoint], KEY)
        refused, heard = answers[closed.endpoint], answers[open_one.endpoint]
        again = send({**document, "version": 4}, [open_one.endpoint], KEY)[open_one.endpoint]
        assert open_one.manage("list", what="hints")["rows"][0]["worker"] == "w"
    assert isinstance(refused, Scale0Error)
    assert "has no users" in str(refused)
    assert heard == {"version": 5, "mode": "enforce", "hints": 1, "damped": [], "changed": True}
    assert isinstance(again, Scale0Error)
    assert "hints are at 5" in str(again)
