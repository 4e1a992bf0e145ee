"""The brokers' keys as a client or worker knows them."""

from __future__ import annotations

import msgspec

from scale0.core.endpoints import Endpoints
from scale0.protocol.network import GroupBroker, GroupConfig, Part
from tests.core.keys_kit import key

A, B = "tcp://a:1", "tcp://b:1"


def config(*brokers: GroupBroker) -> bytes:
    return msgspec.json.encode(Part(identity="me", group_config=[GroupConfig(name="", brokers=list(brokers))]))


def at(endpoint: str, owner: str = "", following: str = "") -> GroupBroker:
    return GroupBroker(
        identity=endpoint,
        endpoints=[endpoint],
        public_key=key(owner) if owner else "",
        next_public_key=key(following) if following else "",
    )


def test_who_was_given_a_key_learns_no_address_without_one() -> None:
    endpoints = Endpoints([A], {A: key("a")})
    endpoints.learn([B])
    endpoints.learn_config("JSON", config(at(A, "a"), at("tcp://c:1")))
    assert endpoints.known == [A]
    endpoints.learn([B], key("b"))
    assert endpoints.known == [A, B]
    assert endpoints.public_key(B) == key("b")


def test_who_was_given_none_learns_all() -> None:
    endpoints = Endpoints([A], {})
    endpoints.learn([B])
    assert endpoints.known == [A, B]


def test_what_an_earlier_process_remembered_has_no_keys_and_is_not_used() -> None:
    assert Endpoints([A], {A: key("a")}, [B]).known == [A]
    assert Endpoints([A], {}, [B]).known == [A, B]


def test_a_changed_key_is_taken_from_the_config_alone() -> None:
    endpoints = Endpoints([A], {A: key("a")})
    endpoints.learn([A], key("forged"))
    assert endpoints.public_key(A) == key("a")
    endpoints.learn_config("JSON", config(at(A, "new")))
    assert endpoints.public_key(A) == key("new")


def test_two_keys_are_tried_in_turn() -> None:
    endpoints = Endpoints([A], {A: key("a")})
    assert not endpoints.flip_key(A), "there is no other"
    endpoints.learn_config("JSON", config(at(A, "a", following="next")))
    assert endpoints.public_key(A) == key("a")
    assert endpoints.flip_key(A)
    assert endpoints.public_key(A) == key("next")
    assert endpoints.flip_key(A)
    assert endpoints.public_key(A) == key("a")


def test_a_key_that_has_followed_is_the_first() -> None:
    endpoints = Endpoints([A], {A: key("a")})
    endpoints.learn_config("JSON", config(at(A, "a", following="next")))
    endpoints.flip_key(A)
    endpoints.learn_config("JSON", config(at(A, "next")))
    assert endpoints.public_key(A) == key("next")
    assert not endpoints.flip_key(A)


def test_a_saved_config_does_not_replace_a_key_that_was_given_but_follows_it() -> None:
    endpoints = Endpoints([A], {A: key("given")})
    endpoints.learn_config("JSON", config(at(A, "saved")), is_saved=True)
    assert endpoints.public_key(A) == key("given")
    assert endpoints.flip_key(A)
    assert endpoints.public_key(A) == key("saved")
