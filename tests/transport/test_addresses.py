"""Where the brokers are, as people write it."""

from __future__ import annotations

import pytest

from scale0.client.options import ClientOptions
from scale0.errors import UsageError
from scale0.transport.addresses import ADDRESS_VARIABLE, DEFAULT_ADDRESS, read_addresses


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


@pytest.mark.parametrize("address", ["localhost:5555", "tcp://nowhere", "", 5555])
def test_what_is_no_address_is_refused(address: object) -> None:
    with pytest.raises(UsageError, match="is not an address such as tcp"):
        read_addresses([address])  # type: ignore[list-item]
