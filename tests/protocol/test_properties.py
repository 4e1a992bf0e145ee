from __future__ import annotations

import pytest

from scale0.errors import SettingsError
from scale0.protocol.network import BrokerEntry, Document, GroupConfig, Part, PeerEntry, ServiceEntry
from scale0.protocol.properties import Unfolding, to_properties
from scale0.protocol.zpl import Property, write


def test_lists_are_names_that_come_again() -> None:
    document = Document(
        config_brokers=["a", "b"],
        brokers=[BrokerEntry(identity="a", peers=[PeerEntry(identity="b")])],
        service=[ServiceEntry(name="x", idempotent=False, timeout_s=5)],
    )
    assert write(to_properties(document)).splitlines() == [
        'config_brokers = "a"',
        'config_brokers = "b"',
        "brokers",
        '    identity = "a"',
        "    peers",
        '        identity = "b"',
        "service",
        '    name = "x"',
        '    idempotent = "false"',
        '    timeout = "5.0"',
    ]


def test_an_empty_list_that_is_not_the_default_is_a_name_alone() -> None:
    (brokers,) = to_properties(Document(brokers=[BrokerEntry(identity="a", services=[])]))
    assert brokers.children[1] == Property("services")


@pytest.mark.parametrize("value", [[""], ["all"]])
def test_lists_that_would_read_as_something_else_are_refused(value: list[str]) -> None:
    with pytest.raises(SettingsError, match="cannot carry the list"):
        to_properties(Document(brokers=[BrokerEntry(identity="a", services=value)]))


def test_a_part_says_everything() -> None:
    assert [one.name for one in to_properties(Part(identity="w"))] == [
        "identity",
        "services",
        "preferred_broker",
        "group_config",
        "default_heartbeat_interval",
        "liveness",
    ]


def test_unfolding_remembers_the_lines() -> None:
    unfolding = Unfolding()
    brokers = [
        Property("brokers", children=[Property("identity", "a", line=4)], line=3),
        Property("brokers", "b", line=5),
    ]
    plain = unfolding.entry([Property("network", "x", line=1), *brokers], Document)
    assert plain == {"network": "x", "brokers": [{"identity": "a"}, {"identity": "b"}]}
    assert unfolding.lines[("brokers", 0, "identity")] == 4
    assert unfolding.lines[("brokers", 1)] == 5
    assert not unfolding.problems


def test_unfolding_tells_what_is_in_the_wrong_place() -> None:
    unfolding = Unfolding()
    child = Property("x", line=2)
    unfolding.entry(
        [Property("network", "a", [child], 1), Property("limits", "3", line=3), Property("limits", line=4)], Document
    )
    assert [one.text for one in unfolding.problems] == [
        "has x below it; it is a single value",
        "given twice, first in line 3; keep one of them",
        "has a value of its own; its keys stand below it",
    ]


def test_an_unknown_name_is_left_to_the_reader() -> None:
    assert Unfolding().entry([Property("name", "g"), Property("size", "3")], GroupConfig) == {"name": "g", "size": "3"}
