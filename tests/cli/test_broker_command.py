"""Where a broker may listen."""

from __future__ import annotations

import pytest

from scale0.cli import broker_command
from scale0.errors import UsageError


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://127.0.0.1:5555", "tcp://127.9.9.9:0", "tcp://localhost:*", "tcp://[::1]:5555", "ipc:///run/scale0"],
)
def test_this_machine_needs_no_permission(endpoint: str) -> None:
    broker_command.check_bind([endpoint], is_insecure=False)


@pytest.mark.parametrize("endpoint", ["tcp://0.0.0.0:5555", "tcp://*:5555", "tcp://[::]:1", "tcp://example.org:5555"])
def test_other_machines_are_refused_unless_that_is_wanted(endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--insecure-bind"):
        broker_command.check_bind([endpoint], is_insecure=False)
    broker_command.check_bind([endpoint], is_insecure=True)
    assert "warning:" in capsys.readouterr().err


@pytest.mark.parametrize("endpoint", ["5555", "127.0.0.1:5555", "tcp://127.0.0.1", "http://127.0.0.1:80"])
def test_what_is_no_address_is_refused_with_an_example(endpoint: str) -> None:
    with pytest.raises(UsageError, match="it looks like tcp://"):
        broker_command.check_bind([endpoint], is_insecure=False)


def test_the_ready_line_is_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    broker_command.announce("eu-1", ["tcp://127.0.0.1:5555"])
    assert capsys.readouterr().out == "scale0 broker eu-1 ready on tcp://127.0.0.1:5555\n"
