"""Which brokers are known, and in which order they are tried."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core.endpoints import ENDPOINT_BYTES_MAX, KNOWN_MAX, Endpoints, fit_identity, named_in
from scale0.protocol import documents
from scale0.protocol.messages import ChangeBroker, Error
from scale0.protocol.network import GroupBroker, GroupConfig, Part
from tests.core.sessions_kit import document


def test_the_first_endpoint_is_preferred_and_none_stands_twice() -> None:
    endpoints = Endpoints(["a", "b", "a"], {})
    assert endpoints.known == ["a", "b"]
    assert endpoints.preferred == "a"


def test_a_preferred_endpoint_moves_to_the_front() -> None:
    endpoints = Endpoints(["a", "b"], {})
    endpoints.prefer("b")
    endpoints.prefer("c")
    assert endpoints.known == ["c", "b", "a"]


def test_each_endpoint_is_tried_once_a_round() -> None:
    endpoints = Endpoints(["a", "b"], {})
    endpoints.tried["a"] = "refused"
    assert endpoints.next_untried() == "b"
    endpoints.tried["b"] = "silent"
    assert endpoints.next_untried() is None


def test_what_is_learned_comes_last_and_brings_its_key() -> None:
    endpoints = Endpoints(["a"], {"a": "key-a"})
    endpoints.learn(["b", "a"], "key-b")
    assert endpoints.known == ["a", "b"]
    assert endpoints.public_key("b") == "key-b"
    assert endpoints.public_key("unknown") == ""


def test_the_number_of_known_endpoints_is_bounded() -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn(f"tcp://host:{port}" for port in range(1000))
    assert len(endpoints.known) == KNOWN_MAX
    endpoints.prefer("new")
    assert len(endpoints.known) == KNOWN_MAX
    assert endpoints.preferred == "new"


@pytest.mark.parametrize("config_type", ["JSON", "XML", "ZPL"])
def test_brokers_of_the_config_are_learned_the_own_group_first(config_type: str) -> None:
    endpoints = Endpoints(["a"], {})
    groups = {"b1": "b", "c1": "c"}, {"d1": "d", "a1": "a"}
    part = endpoints.learn_config(config_type, document(*groups, preferred="b1", config_type=config_type))
    assert part is not None
    assert part.preferred_broker == "b1"
    assert endpoints.known == ["a", "b", "c", "d"]
    assert [endpoints.identity_of(endpoint) for endpoint in "abcde"] == ["a1", "b1", "c1", "d1", ""]


def test_the_older_name_of_a_config_type_is_understood() -> None:
    endpoints = Endpoints(["a"], {})
    assert endpoints.learn_config("zfl", document({"b1": "b"}, config_type="ZPL"))
    assert endpoints.known == ["a", "b"]


def test_a_new_config_replaces_what_the_former_one_listed() -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn_config("JSON", document({"b1": "b"}, {"d1": "d"}))
    endpoints.prefer("b")
    endpoints.learn_config("JSON", document({"c1": "c"}, {"e1": "e"}))
    assert endpoints.known == ["b", "a", "c", "e"], "one that was used stays known, one that was only listed does not"


@pytest.mark.parametrize(
    ("config_type", "config"),
    [
        ("JSON", b""),
        ("JSON", b"{"),
        ("JSON", b"[]"),
        ("JSON", b"\xff"),
        ("JSON", b"{}"),
        ("JSON", b'{"identity": "me", "group_config": 3}'),
        ("ZPL", document({"b1": "b"}, config_type="XML")),
        ("TOML", document({"b1": "b"})),
    ],
)
def test_a_config_that_cannot_be_read_teaches_nothing(config_type: str, config: bytes) -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn_config("JSON", document({"c1": "c"}))
    assert endpoints.learn_config(config_type, config) is None
    assert endpoints.known == ["a", "c"]


def test_a_config_cannot_fill_the_list() -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn_config("JSON", document({f"b{number}": f"tcp://b:{number}" for number in range(200)}))
    assert len(endpoints.known) == KNOWN_MAX


def test_what_an_earlier_process_had_learned_comes_last_and_is_not_kept_for_ever() -> None:
    endpoints = Endpoints(["a"], {}, ["z", "a", "b"])
    endpoints.learn_config("JSON", document({"b1": "b"}))
    assert endpoints.known == ["a", "b", "z"]
    assert endpoints.worth_keeping == []
    endpoints.learn(["y"])
    endpoints.prefer("z")
    assert endpoints.worth_keeping == ["z", "y"]


def test_a_key_is_changed_by_the_config_alone() -> None:
    endpoints = Endpoints(["a"], {"a": "key-a"})
    endpoints.learn(["a", "b"], "other")
    assert (endpoints.public_key("a"), endpoints.public_key("b")) == ("key-a", "other")
    broker = GroupBroker(identity="a1", endpoints=["a", "b"], public_key="new")
    part = Part(identity="me", group_config=[GroupConfig(name="g", brokers=[broker])])
    endpoints.learn_config("JSON", documents.encode(part, "JSON"))
    assert (endpoints.public_key("a"), endpoints.public_key("b")) == ("new", "new")


def test_who_is_where_is_learned_from_brokers_and_the_config_knows_better() -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn(["b"], identity="b1")
    endpoints.identify("a", "a1")
    endpoints.identify("unknown", "u1")
    assert [endpoints.identity_of(name) for name in ("a", "b", "unknown")] == ["a1", "b1", ""]
    endpoints.learn_config("JSON", document({"b2": "b"}))
    assert endpoints.identity_of("b") == "b2"


def test_an_endpoint_that_no_message_could_name_is_not_learned() -> None:
    endpoints = Endpoints(["a"], {})
    long, longest = "x" * (ENDPOINT_BYTES_MAX + 1), "y" * ENDPOINT_BYTES_MAX
    endpoints.learn([long, longest])
    assert endpoints.known == ["a", longest]
    endpoints.learn_config("JSON", document({"b1": long, "b2": "b"}))
    assert endpoints.known == ["a", longest, "b"]


def test_an_identity_that_no_message_could_name_is_nobodys() -> None:
    assert fit_identity("é" * 64) == "é" * 64
    assert fit_identity("é" * 65) == ""


def test_what_is_not_of_its_type_is_not_there() -> None:
    nothing = ChangeBroker(identity="", endpoints=[], reason="301 moved")
    details: list[dict[str, Any]] = [{}, {"endpoints": "tcp://x", "public_key": 1, "identity": 2}, {"endpoints": [7]}]
    for detail in details:
        assert named_in(Error(code=301, text="moved", detail=detail)) == nothing
    right = {"endpoints": ["tcp://x", 7], "public_key": "k", "identity": "b"}
    named = ChangeBroker(identity="b", endpoints=["tcp://x"], public_key="k", reason="301 moved")
    assert named_in(Error(code=301, text="moved", detail=right)) == named
