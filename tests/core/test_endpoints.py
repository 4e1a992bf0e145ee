"""Which brokers are known, and in which order they are tried."""

from __future__ import annotations

import pytest

from scale0.core.endpoints import KNOWN_MAX, Endpoints, named_in


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


@pytest.mark.parametrize(
    "document",
    [
        b'{"group_config": [{"name": "g", "brokers": [{"endpoints": ["b"]}]}, {"brokers": [{"endpoints": ["c"]}]}]}',
        b'{"group_config": {"brokers": [{"endpoints": ["b", 7]}, {"endpoints": ["c"], "public_key": 3}]}}',
    ],
)
def test_brokers_of_the_config_are_learned(document: bytes) -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn_config("JSON", document)
    assert endpoints.known == ["a", "b", "c"]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"group_config": 3}',
        b'{"group_config": [{"brokers": 1}, 2, {"brokers": [4]}]}',
    ],
)
def test_a_config_that_cannot_be_read_teaches_nothing(document: bytes) -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn_config("JSON", document)
    assert endpoints.known == ["a"]


def test_a_config_of_another_type_is_not_read_as_json() -> None:
    endpoints = Endpoints(["a"], {})
    endpoints.learn_config("ZPL", b'{"group_config": [{"brokers": [{"endpoints": ["b"]}]}]}')
    assert endpoints.known == ["a"]


def test_what_is_not_of_its_type_is_not_there() -> None:
    assert named_in({"endpoints": "tcp://x", "public_key": 1}) == ([], "")
    assert named_in({"endpoints": ["tcp://x"], "public_key": "k"}) == (["tcp://x"], "k")
