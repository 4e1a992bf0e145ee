"""Where the brokers are, as people write it."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.client.options import ClientOptions
from scale0.errors import UsageError
from scale0.protocol.limits import IDENTITY_BYTES_MAX
from scale0.transport.addresses import (
    ADDRESS_VARIABLE,
    DEFAULT_ADDRESS,
    default_identity,
    read_addresses,
    this_process,
    told_address,
)


def test_addresses_come_in_any_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS_VARIABLE, raising=False)
    assert read_addresses(()) == [DEFAULT_ADDRESS]
    assert read_addresses(("tcp://a:1",)) == ["tcp://a:1"]
    assert read_addresses((["tcp://a:1", "tcp://b:2"], "tcp://c:3")) == ["tcp://a:1", "tcp://b:2", "tcp://c:3"]


def test_the_environment_names_the_broker_if_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, "tcp://far:5555, tcp://farther:5555")
    assert read_addresses(()) == ["tcp://far:5555", "tcp://farther:5555"]
    assert read_addresses(("tcp://near:1",)) == ["tcp://near:1"]
    assert ClientOptions.read(()).endpoints == ["tcp://far:5555", "tcp://farther:5555"]


@pytest.mark.parametrize("address", ["localhost:5555", "tcp://nowhere", "tcp://a:65536", "", 5555])
def test_what_is_no_address_is_refused(address: object) -> None:
    with pytest.raises(UsageError, match="is not an address such as tcp"):
        read_addresses([address])  # type: ignore[list-item]


def test_addresses_in_one_text_are_told_to_be_a_list() -> None:
    with pytest.raises(UsageError, match="; several are a list"):
        read_addresses(["tcp://a:1,tcp://b:2"])


def test_what_was_bound_on_every_address_is_told_by_the_advertised_host() -> None:
    assert told_address("tcp://10.0.0.1:5555", ["tcp://eu-1:7000"]) == "tcp://10.0.0.1:5555"
    assert told_address("ipc:///tmp/broker") == "ipc:///tmp/broker"
    for bound in ("tcp://0.0.0.0:5556", "tcp://[::]:5556"):
        assert told_address(bound, ["ipc:///tmp/broker", "tcp://eu-1:7000"]) == "tcp://eu-1:5556"
        assert told_address(bound, ["tcp://[fe80::1]:7000"]) == "tcp://[fe80::1]:5556"
        assert told_address(bound, ["ipc:///tmp/broker"]) == told_address(bound) == ""


def test_broker_without_a_name_is_named_after_its_machine_and_port() -> None:
    assert default_identity("tcp://127.0.0.1:5555", "eu-1.example.org") == "eu-1.example.org-5555"
    assert default_identity("tcp://[::1]:5555", "eu-1") == "eu-1-5555"
    assert default_identity("ipc:///run/scale0/main.sock", "eu-1") == "eu-1-main.sock"
    assert default_identity("tcp://127.0.0.1:5555", "ein Rechner\n\u00fc\u202e") == "ein-Rechner--5555"


@given(st.text(), st.text())
def test_default_name_is_always_one_that_may_be_used(endpoint: str, host: str) -> None:
    name = default_identity(endpoint, host)
    assert name.isascii()
    assert name.isprintable()
    assert 0 < len(name) <= IDENTITY_BYTES_MAX


def test_process_is_told_by_its_machine_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert this_process().rpartition(":")[2] == str(os.getpid())
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 300)
    assert len(this_process()) == IDENTITY_BYTES_MAX
