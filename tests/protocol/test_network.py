from __future__ import annotations

from scale0.protocol.network import BrokerEntry, Document, GroupEntry

EU_1 = BrokerEntry(identity="eu-1", group="eu")
EU_2 = BrokerEntry(identity="eu-2", group="eu", fallback_groups=["asia"])
ALONE = BrokerEntry(identity="alone")
NETWORK = Document(
    brokers=[EU_1, ALONE, EU_2], groups=[GroupEntry(name="eu", fallback_groups=["us", "asia"]), GroupEntry(name="us")]
)


def test_a_broker_is_found_by_its_identity() -> None:
    assert NETWORK.broker("eu-2") is EU_2
    assert NETWORK.broker("us-1") is None


def test_a_group_has_its_brokers_as_they_are_listed() -> None:
    assert NETWORK.group_of("eu") == [EU_1, EU_2]
    assert NETWORK.group_of("") == [ALONE]
    assert NETWORK.group_of("us") == []


def test_fallback_groups_are_the_brokers_own_or_those_of_its_group() -> None:
    assert NETWORK.fallback_groups(EU_1) == ["us", "asia"]
    assert NETWORK.fallback_groups(EU_2) == ["asia"]
    assert NETWORK.fallback_groups(ALONE) == []


def test_no_group_falls_back_to_itself() -> None:
    entry = BrokerEntry(identity="x", group="eu", fallback_groups=["eu", "us"])
    assert NETWORK.fallback_groups(entry) == ["us"]
