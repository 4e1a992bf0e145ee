from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

from scale0.protocol.network import BrokerEntry, Document, GroupEntry, Limits, PeerEntry, ServiceEntry
from scale0.protocol.network_diff import Change, diff
from tests.protocol import documents_strategies as strategies


def broker(identity: str, **keys: Any) -> BrokerEntry:
    return BrokerEntry(identity=identity, **keys)


def told(old: Document, new: Document) -> list[str]:
    return [f"{change.key} {change.text}" for change in diff(old, new)]


def test_changes_are_named_by_keys_and_names() -> None:
    old = Document(
        service=[ServiceEntry(name="render", timeout_s=10)],
        brokers=[broker("eu-1", peers=[PeerEntry(identity="eu-2")]), broker("eu-2")],
    )
    new = Document(
        liveness=5,
        service=[ServiceEntry(name="render", timeout_s=5)],
        brokers=[broker("eu-1", peers=[PeerEntry(identity="eu-2", table="off")]), broker("eu-2", state="disabled")],
        limits=Limits(sessions=7),
    )
    assert told(old, new) == [
        "liveness 3 → 5",
        "broker.eu-1.peer.eu-2.table push → off",
        "broker.eu-2.state active → disabled",
        "service.render.timeout 10 → 5",
        "limits.sessions 20000 → 7",
    ]


def test_an_entry_that_comes_or_goes_is_one_change() -> None:
    old = Document(brokers=[broker("eu-1"), broker("eu-2", group="eu")])
    new = Document(brokers=[broker("eu-1"), broker("eu-3", group="us", services=["a", "b"])])
    gone, came = diff(old, new)
    assert gone == Change("broker.eu-2", "group eu", None)
    assert came == Change("broker.eu-3", None, "group us, services [a, b]")
    assert [gone.text, came.text] == ["removed", "added: group us, services [a, b]"]
    assert told(Document(), Document(groups=[GroupEntry(name="eu")])) == ["group.eu added: as by default"]


def test_a_key_that_is_set_or_left_out_has_no_other_side() -> None:
    old, new = (Document(service=[ServiceEntry(name="x", idempotent=flag)]) for flag in (None, True))
    assert diff(old, new) == [Change("service.x.idempotent", None, "true")]
    assert diff(new, old) == [Change("service.x.idempotent", "true", None)]


def test_lists_and_empty_texts_can_be_read() -> None:
    old = Document(config_brokers=["a"], brokers=[broker("a", group="eu", services=["x"])])
    new = Document(config_brokers=[], brokers=[broker("a")])
    assert told(old, new) == ["config_brokers [a] → []", "broker.a.group eu → (empty)", "broker.a.services [x] → all"]


def test_another_order_of_brokers_is_a_change() -> None:
    old, new = Document(brokers=[broker("a"), broker("b")]), Document(brokers=[broker("b"), broker("a")])
    assert told(old, new) == ["brokers a, b → b, a"]


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.documents(), strategies.documents())
def test_documents_without_a_change_are_equal(old: Document, new: Document) -> None:
    assert diff(old, old) == []
    assert bool(diff(old, new)) == (old != new)
    assert {change.key for change in diff(old, new)} == {change.key for change in diff(new, old)}
