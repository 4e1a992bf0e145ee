"""What a worker is told is checked in words."""

from __future__ import annotations

import pytest

from scale0.errors import UsageError
from scale0.worker import Worker


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"capacity": 0}, "capacity is a whole number"),
        ({"capacity": 5000}, "capacity is a whole number"),
        ({"heartbeat_interval": 0}, "heartbeat_interval is a number of seconds above 0"),
        ({"connect_timeout": -1}, "connect_timeout is"),
        ({"drain_timeout": float("inf")}, "drain_timeout is"),
        ({"identity": ""}, "identity"),
        ({"identity": "x" * 200}, "identity"),
        ({"save_config": ""}, "save_config is the path of a file"),
    ],
)
def test_what_cannot_be_right_is_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Worker(**options)  # type: ignore[arg-type]
