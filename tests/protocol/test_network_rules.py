from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from scale0.errors import SettingsError
from scale0.protocol.network import BrokerEntry, Document, GroupEntry, Limits, PeerEntry, ServiceEntry
from scale0.protocol.network_rules import check, problems
from tests.protocol import documents_strategies as strategies


def broker(identity: str = "a", **keys: Any) -> BrokerEntry:
    return BrokerEntry(identity=identity, **keys)


def pair(fallback: BrokerEntry) -> Document:
    """a with its fallback, and c."""
    return Document(brokers=[broker("a", fallback_broker=fallback.identity), fallback, broker("c")])


def with_broker(**keys: Any) -> Document:
    return Document(brokers=[broker("a", **keys), broker("b", group="other")])


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.documents())
def test_valid_documents_have_no_problems(document: Document) -> None:
    assert problems(document) == []


def test_a_document_of_defaults_is_good() -> None:
    check(Document())


@pytest.mark.parametrize(
    ("document", "key", "told"),
    [
        (Document(network=""), "network", "must not be empty"),
        (Document(network="a\nb"), "network", "cannot be printed"),
        (Document(liveness=0), "liveness", "must be above 0"),
        (Document(grace_s=-1.0), "grace", "must be above 0"),
        (Document(ageing_s=float("inf")), "ageing", "must be above 0"),
        (Document(ageing_s=float("nan")), "ageing", "must be above 0"),
        (Document(liveness=10**6 + 1), "liveness", "must be above 0 and at most 1000000, not 1000001"),
        (Document(grace_s=604_801.0), "grace", "must be above 0 and at most 604800"),
        (Document(service=[ServiceEntry(name="x", timeout_s=1e9)]), "service.x.timeout", "at most 604800"),
        (Document(limits=Limits(sessions=0)), "limits.sessions", "must be above 0"),
        (Document(limits=Limits(sessions=2**60)), "limits.sessions", "at most 9007199254740991"),
        (Document(brokers=[broker("a"), broker("a")]), "broker.a", "listed twice"),
        (Document(brokers=[broker("")]), "brokers[0]", "a name has 1 to 128 bytes"),
        (Document(groups=[GroupEntry(name=" eu")]), "group. eu", "neither begins nor ends with a blank"),
        (with_broker(group=" "), "broker.a.group", "neither begins nor ends with a blank"),
        (Document(brokers=[broker("é" * 65)]), f"broker.{'é' * 65}", "a name has 1 to 128 bytes"),
        (Document(brokers=[broker("a\x1b")]), "broker.a\x1b.identity", "cannot be printed"),
        (Document(brokers=[broker("a"), broker("b")], limits=Limits(brokers=1)), "brokers", "limits.brokers allows 1"),
        (Document(brokers=[broker("a")], config_brokers=["b"]), "config_brokers", "'b' is not a listed broker"),
        (Document(brokers=[broker("a")], config_brokers=["a", "a"]), "config_brokers", "named twice"),
        (with_broker(fallback_broker="c"), "broker.a.fallback_broker", "'c' is not another listed broker"),
        (with_broker(fallback_broker="a"), "broker.a.fallback_broker", "not another listed broker"),
        (pair(broker("b", fallback_broker="c")), "broker.a.fallback_broker", "pairs do not form chains"),
        (pair(broker("b", group="g")), "broker.a.fallback_broker", "a pair is in one group"),
        (pair(broker("b", services=["x"])), "broker.a.fallback_broker", "manages other services"),
        (Document(takeover_timeout_s=2.0), "takeover_timeout", "less than a heartbeat interval"),
        (with_broker(peers=[PeerEntry(identity="a")]), "broker.a.peers", "not another listed broker"),
        (with_broker(peers=[PeerEntry(identity="b")] * 2), "broker.a.peers", "'b' is named twice"),
        (with_broker(frontend_port=65_536), "broker.a.frontend_port", "allowed are 0 to 65535"),
        (with_broker(config_pub_port=-1), "broker.a.config_pub_port", "allowed are 0 to 65535"),
        (with_broker(endpoints=["eu-1:5555"]), "broker.a.endpoints", "is no address such as tcp://"),
        (with_broker(endpoints=["tcp://eu-1:*"]), "broker.a.endpoints", "is no address such as tcp://"),
        (with_broker(config_sub_ports=["5556"]), "broker.a.config_sub_ports", "is no address such as tcp://"),
        (with_broker(config_pub="x"), "broker.a.config_pub", "is no address such as tcp://"),
        (with_broker(bind="udp://x"), "broker.a.bind", "is no address such as tcp://"),
        (with_broker(bind="a b"), "broker.a.bind", "nor a host"),
        (with_broker(bind="tcp://h:1", frontend_port=2), "broker.a.bind", "differ; keep one of them"),
        (with_broker(advertise="tcp://h:1"), "broker.a.advertise", "is no host"),
        (with_broker(services=["all"]), "broker.a.services", "stands alone"),
        (with_broker(public_key="k"), "broker.a.public_key", "'k' is no public key"),
        (with_broker(public_key="0" * 40, next_public_key="x"), "broker.a.next_public_key", "is no public key"),
        (
            with_broker(public_key="0" * 40, next_public_key="0" * 40),
            "broker.a.next_public_key",
            "the key of 'a' already",
        ),
        (with_broker(next_public_key="0" * 40), "broker.a.next_public_key", "no public_key that it could follow"),
        (
            Document(brokers=[broker("a", public_key="0" * 40), broker("b", public_key="0" * 40)]),
            "broker.b.public_key",
            "it is the key of 'a' already",
        ),
        (with_broker(services=["x", "x"]), "broker.a.services", "'x' is named twice"),
        (with_broker(services=[""]), "broker.a.services", "a name has 1 to 128 bytes"),
        (with_broker(services=["mmi.service"]), "broker.a.services", "are the broker's own"),
        (with_broker(fallback_groups=["othr"]), "broker.a.fallback_groups", "no group 'othr'; did you mean other?"),
        (with_broker(group="g", fallback_groups=["g"]), "broker.a.fallback_groups", "its own fallback group"),
        (with_broker(fallback_groups=["other", "other"]), "broker.a.fallback_groups", "named twice"),
        (with_broker(group="g" * 129), "broker.a.group", "a name has 1 to 128 bytes"),
        (Document(groups=[GroupEntry(name="g")] * 2), "group.g", "listed twice"),
        (Document(groups=[GroupEntry(name="g", fallback_groups=["g"])]), "group.g.fallback_groups", "its own fallback"),
        (
            Document(groups=[GroupEntry(name="g", fallback_groups=["h"])]),
            "group.g.fallback_groups",
            "there is no other",
        ),
        (Document(service=[ServiceEntry(name="x")] * 2), "service.x", "listed twice"),
        (Document(service=[ServiceEntry(name="scale0.x")]), "service.scale0.x", "are the broker's own"),
        (Document(service=[ServiceEntry(name="x" * 129)]), f"service.{'x' * 129}", "1 to 128 bytes"),
        (Document(service=[ServiceEntry(name="x", max_attempts=0)]), "service.x.max_attempts", "must be above 0"),
        (Document(service=[ServiceEntry(name="x", max_attempts=256)]), "service.x.max_attempts", "1 to 255"),
        (Document(service=[ServiceEntry(name="x", timeout_s=0.0)]), "service.x.timeout", "must be above 0"),
    ],
)
def test_each_rule_refuses_what_breaks_it_and_names_the_key(document: Document, key: str, told: str) -> None:
    (found,) = problems(document)
    assert found.key == key
    assert told in found.text


@pytest.mark.parametrize(
    "document",
    [
        with_broker(fallback_groups=["other"]),
        pair(broker("b")),
        Document(takeover_timeout_s=2.5),
        with_broker(bind="tcp://*:*"),
        with_broker(bind="tcp://h:1", frontend_port=1),
        with_broker(bind="ipc:///run/x"),
        with_broker(services=[]),
        Document(config_brokers=["anybody"]),
        Document(groups=[GroupEntry(name="g", fallback_groups=["h"]), GroupEntry(name="h", fallback_groups=["g"])]),
        Document(service=[ServiceEntry(name="x", max_attempts=255)]),
    ],
)
def test_what_is_unusual_and_right_is_allowed(document: Document) -> None:
    assert problems(document) == []


def test_a_broker_is_the_fallback_of_one_other_only() -> None:
    brokers = [broker("a", fallback_broker="c"), broker("b", fallback_broker="c"), broker("c")]
    found = problems(Document(brokers=brokers))
    assert [problem.key for problem in found] == ["broker.a.fallback_broker", "broker.b.fallback_broker"]
    assert all("each has its own" in problem.text for problem in found)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        check(Document(liveness=0, brokers=[broker("a", frontend_port=-1)]), "network.toml")
    assert str(caught.value).splitlines() == [
        "network.toml: liveness: must be above 0, not 0",
        "network.toml: broker.a.frontend_port: -1 is no port; allowed are 0 to 65535",
    ]
