"""What a worker is told is checked in words."""

from __future__ import annotations

import pytest

from scale0.errors import UsageError
from scale0.worker import Worker
from scale0.worker.options import ADDRESS_VARIABLE, DEFAULT_ADDRESS, read_addresses


def test_addresses_come_in_any_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    assert read_addresses(()) == [DEFAULT_ADDRESS]
    assert read_addresses(("tcp://a:1",)) == ["tcp://a:1"]
    assert read_addresses((["tcp://a:1", "tcp://b:2"], "tcp://c:3")) == ["tcp://a:1", "tcp://b:2", "tcp://c:3"]


def test_the_environment_names_the_broker_if_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, "tcp://far:5555")
    assert read_addresses(()) == ["tcp://far:5555"]
    assert read_addresses(("tcp://near:1",)) == ["tcp://near:1"]


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
    ],
)
def test_what_cannot_be_right_is_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Worker(**options)  # type: ignore[arg-type]
