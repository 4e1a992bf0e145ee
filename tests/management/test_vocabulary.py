"""One vocabulary: what doors offer is what the core can do, and each command says who may use it and how."""

from __future__ import annotations

import msgspec
import pytest

from scale0.core import management
from scale0.management.vocabulary import COMMANDS, LISTINGS, SHELL_LISTINGS, Arguments, Role

BY_ROLE = {
    Role.VIEW: {"list", "snapshot", "segments", "segment", "config_check"},
    Role.OPERATE: {
        "disable",
        "enable",
        "drain",
        "reload_config",
        "balance",
        "failback",
        "kick_worker",
        "cancel_task",
        "retry_dead_letter",
        "clear_dead_letters",
        "clear_error_client",
        "test_task",
        "hints",
    },
    Role.ADMIN: {
        "handover",
        "takeover",
        "config_apply",
        "config_rollback",
        "forget_broker",
        "partition",
        "heal",
    },
}


def test_the_core_can_do_what_doors_offer_and_nothing_else() -> None:
    assert set(COMMANDS) == set(management.COMMANDS)
    assert set(LISTINGS) == set(management.LISTINGS) | SHELL_LISTINGS | {"overview"}


def test_each_command_has_the_role_that_was_agreed_on() -> None:
    assert {role: {name for name, command in COMMANDS.items() if command.role is role} for role in Role} == BY_ROLE


def test_what_only_looks_needs_no_more_than_view_and_every_change_more() -> None:
    for command in COMMANDS.values():
        assert (command.role is Role.VIEW) == (not command.is_change), command.name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_complete(name: str) -> None:
    command = COMMANDS[name]
    assert command.name == name
    assert command.tier in (1, 2, 3)
    assert command.summary
    assert issubclass(command.arguments, Arguments)
    names = {field.name for field in msgspec.structs.fields(command.arguments)}
    assert not command.target or command.target in names
    assert msgspec.json.schema(command.arguments)


def test_a_role_is_read_as_it_is_written() -> None:
    assert [Role.read(role.text) for role in Role] == list(Role)
    with pytest.raises(ValueError, match="view, operate, admin"):
        Role.read("root")


def test_the_audit_log_is_not_for_everybody() -> None:
    assert {name for name, listing in LISTINGS.items() if listing.role is not Role.VIEW} == {"audit"}
