from __future__ import annotations

from typing import Any

import pytest

from scale0.protocol.network import BrokerEntry
from scale0.protocol.network_addresses import Listens, is_address, linked_at, listens_on, publishes_at, reached_at


def entry(**keys: Any) -> BrokerEntry:
    return BrokerEntry(identity="a", **keys)


@pytest.mark.parametrize("text", ["tcp://10.0.0.1:5555", "tcp://[::1]:1", "tcp://eu-1:65535", "ipc:///run/x"])
def test_addresses_are_recognised(text: str) -> None:
    assert is_address(text)


@pytest.mark.parametrize(
    "text", ["", "eu-1", "eu-1:5555", "tcp://eu-1", "tcp://eu-1:*", "tcp://:5", "tcp://a:70000", "udp://a:1", "ipc://"]
)
def test_what_leads_nowhere_is_no_address(text: str) -> None:
    assert not is_address(text)


def test_a_broker_listens_where_bind_says() -> None:
    assert listens_on(entry(bind="tcp://10.0.0.1:5555")) == Listens(bind="tcp://10.0.0.1:5555")
    assert listens_on(entry(bind="ipc:///run/x")).bind == "ipc:///run/x"
    assert listens_on(entry()) == Listens()


def test_ports_stand_on_the_host_of_bind() -> None:
    told = entry(bind="10.0.0.1", frontend_port=1, backend_port=2, peer_port=3, config_pub_port=4)
    at = "tcp://10.0.0.1:"
    assert listens_on(told) == Listens(f"{at}1", f"{at}2", f"{at}3", f"{at}4")
    assert listens_on(entry(bind="::1", frontend_port=1)).bind == "tcp://[::1]:1"
    whole = entry(bind="tcp://10.0.0.1:1", config_pub_port=4)
    assert listens_on(whole) == Listens(bind=f"{at}1", config_pub=f"{at}4")


def test_ports_without_a_host_stay_on_this_machine() -> None:
    assert listens_on(entry(frontend_port=1)).bind == "tcp://127.0.0.1:1"
    assert listens_on(entry(frontend_port=1, advertise="eu-1")).bind == "tcp://eu-1:1"


def test_workers_and_peers_share_the_port_unless_they_have_their_own() -> None:
    listens = listens_on(entry(bind="h", frontend_port=1, backend_port=1, peer_port=0))
    assert (listens.backend, listens.peer) == ("", "")


def test_endpoints_that_are_written_out_win() -> None:
    told = entry(endpoints=["tcp://x:1"], config_pub="tcp://x:2", bind="tcp://10.0.0.1:5", config_pub_port=6)
    assert reached_at(told) == ["tcp://x:1"]
    assert publishes_at(told) == "tcp://x:2"


def test_a_broker_is_reached_by_the_advertised_host_and_its_ports() -> None:
    told = entry(bind="0.0.0.0", advertise="eu-1", frontend_port=1, backend_port=2, peer_port=3, config_pub_port=4)
    assert reached_at(told) == ["tcp://eu-1:1", "tcp://eu-1:2"]
    assert linked_at(told) == ["tcp://eu-1:3"]
    assert publishes_at(told) == "tcp://eu-1:4"
    assert reached_at(entry(bind="ipc:///run/x", advertise="eu-1")) == ["ipc:///run/x"]
    assert reached_at(entry(bind="tcp://10.0.0.1:5", advertise="fd00::1")) == ["tcp://[fd00::1]:5"]


@pytest.mark.parametrize("bind", ["tcp://*:5", "tcp://0.0.0.0:5", "tcp://[::]:5", "tcp://10.0.0.1:*", "tcp://a:0", ""])
def test_what_nobody_else_can_connect_to_is_not_told(bind: str) -> None:
    assert reached_at(entry(bind=bind)) == []
    assert publishes_at(entry(bind=bind)) == ""


def test_peers_come_to_everybodys_port_if_they_have_none() -> None:
    assert linked_at(entry(bind="tcp://10.0.0.1:5")) == ["tcp://10.0.0.1:5"]
