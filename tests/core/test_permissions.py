"""What an entry of the list says of a key."""

from __future__ import annotations

import msgspec
import pytest

from scale0.core.permissions import REMEMBERED_MAX, Grant, Permission, read_time, write_time
from scale0.protocol.dialects import Role
from tests.core.keys_kit import key, permission


@pytest.mark.parametrize(
    ("kind", "roles"),
    [
        ("worker", {Role.WORKER}),
        ("client", {Role.CLIENT}),
        ("peer", {Role.PEER}),
        ("any", {Role.WORKER, Role.CLIENT}),
    ],
)
def test_a_kind_fits_its_roles_and_any_is_never_a_broker(kind: str, roles: set[Role]) -> None:
    assert {role for role in Role if permission("a", kind=kind).fits(role)} == roles


def test_names_are_matched_as_file_names_are() -> None:
    grant = Grant(permission("a", serve=["pay", "ocr.*"], call=["mail?"]))
    assert grant.may_serve("pay")
    assert grant.may_serve("ocr.page")
    assert not grant.may_serve("payroll")
    assert not grant.may_serve("OCR.page"), "letters differ by their case"
    assert grant.may_call("mail1")
    assert not grant.may_call("mail")


def test_a_list_that_is_left_out_means_all_and_an_empty_one_none() -> None:
    told = msgspec.json.decode(b'{"key": "%s", "serve": []}' % key("a").encode(), type=Permission)
    assert Grant(told).may_call("anything")
    assert not Grant(told).may_serve("anything")


def test_what_is_remembered_of_services_is_bounded() -> None:
    grant = Grant(permission("a", call=["pay"]))
    for number in range(3 * REMEMBERED_MAX):
        assert not grant.may_call(f"forged-{number}")
    assert grant.may_call("pay")
    assert len(grant._calls) <= REMEMBERED_MAX


def test_a_key_has_its_time() -> None:
    ends = permission("a", until="2026-12-31T12:00:00Z")
    ends_s = read_time("2026-12-31T12:00:00Z")
    assert not ends.has_ended(ends_s - 1)
    assert ends.has_ended(ends_s)
    assert not permission("a").has_ended(ends_s)
    assert write_time(ends_s) == "2026-12-31T12:00:00Z"
    assert read_time("2026-12-31T12:00:00") == ends_s, "without a zone it is UTC"


def test_keys_with_one_name_have_one_owner() -> None:
    assert permission("a", key=key("new")).owner == permission("a").owner
    assert permission("a", name="").owner == key("a")
