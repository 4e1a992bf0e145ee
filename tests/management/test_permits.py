"""Who may do what, and what the audit log has of it."""

from __future__ import annotations

import pytest

from scale0.errors import ProtocolError
from scale0.management.permits import capped, check_arguments, limit_of, summary_of, target_of, why_denied
from scale0.management.vocabulary import COMMANDS, Role
from tests.management.engine import who


@pytest.mark.parametrize(
    ("claimed", "most", "expected"),
    [
        ("admin", "admin", Role.ADMIN),
        ("admin", "operate", Role.OPERATE),
        ("view", "admin", Role.VIEW),
        ("operate", "none", None),
        ("emperor", "admin", None),
        ("", "admin", None),
    ],
)
def test_a_peers_user_is_believed_up_to_what_the_peer_may(claimed: str, most: str, expected: Role | None) -> None:
    assert capped(claimed, most) is expected


def test_only_what_was_given_is_handed_on() -> None:
    assert check_arguments(COMMANDS["failback"], {}) == {}
    assert check_arguments(COMMANDS["partition"], {"peer": "b2", "for_s": 5}) == {"peer": "b2", "for_s": 5.0}


def test_arguments_that_are_nested_without_end_are_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ProtocolError) as caught:
        check_arguments(COMMANDS["list"], {"what": deep})
    assert caught.value.code == 400
    while deep:
        deep = deep.pop()  # type: ignore[assignment]  # else its end would be as deep


def test_a_denial_names_the_role_that_is_needed_and_the_one_that_is_there() -> None:
    assert why_denied(who(Role.VIEW), COMMANDS["drain"], {}) == "drain needs the role operate; ann has view"
    assert why_denied(who(Role.OPERATE), COMMANDS["drain"], {}) == ""


@pytest.mark.parametrize(
    ("is_proven", "cure"),
    [(False, "plain_peers in [management] of eu-2"), (True, "max_role of eu-1 in the network's config")],
)
def test_a_denial_of_what_was_passed_on_names_the_limit_and_how_to_raise_it(is_proven: bool, cure: str) -> None:
    limit = limit_of("admin", Role.VIEW, "eu-1", "eu-2", is_proven=is_proven)
    denied = why_denied(who(Role.VIEW, limit=limit), COMMANDS["drain"], {})
    assert denied.startswith("drain needs the role operate; what eu-1 passes on may have view here: ask eu-2 itself")
    assert denied.endswith(f"or raise {cure}")
    assert limit_of("operate", Role.OPERATE, "eu-1", "eu-2", is_proven=is_proven) == ""


def test_the_target_is_the_objects_name() -> None:
    assert target_of(COMMANDS["kick_worker"], {"worker": "w-12"}) == "w-12"
    assert target_of(COMMANDS["heal"], {}) == ""
    assert target_of(COMMANDS["drain"], {}) == ""


def test_a_summary_hides_what_may_be_private_and_is_short() -> None:
    told = summary_of({"document": "x" * 10_000, "comment": "why"}, "all")
    assert told.startswith('{"document":"10000 bytes, sha256 ')
    assert '"comment":"why","brokers":"all"' in told
    assert len(summary_of({"reason": "x" * 10_000})) == 500
    assert summary_of({}) == ""
