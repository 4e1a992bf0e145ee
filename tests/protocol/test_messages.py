"""Config versions are totally ordered; each command has one class, named after it letter for letter."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.protocol import messages
from scale0.protocol.commands import ALIASES, COMMANDS
from scale0.protocol.messages import (
    NO_VERSION,
    Command,
    ConfigVersion,
    Flag,
    Status,
    TaskId,
    TaskReply,
)

versions = st.builds(
    ConfigVersion,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=8, max_size=8),
)


@given(version=versions)
def test_config_version_comes_back_as_it_was_packed(version: ConfigVersion) -> None:
    assert len(version.pack()) == 16
    assert ConfigVersion.unpack(version.pack()) == version


@given(one=versions, other=versions)
def test_packed_versions_sort_as_versions_do(one: ConfigVersion, other: ConfigVersion) -> None:
    assert (one < other) == (one.pack() < other.pack())


def test_epoch_outweighs_number_and_number_outweighs_hash() -> None:
    highest_hash = b"\xff" * 8
    assert ConfigVersion() < ConfigVersion(1, 1, highest_hash) < ConfigVersion(1, 2) < ConfigVersion(2, 0)


def test_no_version_is_all_zero() -> None:
    assert ConfigVersion().pack() == NO_VERSION


def test_version_is_shown_as_epoch_number_and_the_hash_beginning() -> None:
    assert str(ConfigVersion(1, 42, bytes.fromhex("a1b2c3d4e5f60718"))) == "1.42.a1b2c3d4"


def test_class_of_each_command_is_named_after_it() -> None:
    packed = {Command.TASK, Command.TASKREPLY, Command.PING, Command.PONG, Command.STREAM}
    assert set(COMMANDS) == set(Command) - packed
    names = {name.upper() for name, kind in vars(messages).items() if isinstance(kind, type)}
    assert {command.name for command in Command} <= names
    for command, kind in COMMANDS.items():
        assert kind.__name__.upper() == command.name


def test_command_numbers_are_stable() -> None:
    names = (
        "CONNECT CONFIG CONFIGACK READY READYOK PING PONG TASK TASKREPLY CANCEL NEEDBROKER CHANGEBROKER "
        "FORCENEGOTIATE DISCONNECT MANAGEMENTREQ MANAGEMENTREP ERROR PEERSTATUS TABLE TABLEREQ SNAPSHOT SNAPSHOTREQ "
        "STREAM STREAMACK CONFIGCHANGE"
    )
    assert " ".join(command.name for command in sorted(Command)) == names
    assert sorted(Command) == list(range(1, 26))


def test_statuses_are_stable() -> None:
    assert {status.name: status.value for status in Status} == {"OK": 0, "FAILED": 1, "RETURNED": 2}


def test_flags_are_stable_and_leave_the_bit_that_says_where_the_body_stands() -> None:
    assert {flag.name: flag.value for flag in Flag} == {"RESENT": 1, "PARTLY_ANSWERED": 2, "SAME_PAIR": 4}
    assert not any(flag & 0x80 for flag in Flag)


def test_replies_are_equal_if_they_say_the_same_however_they_came() -> None:
    reply = TaskReply(TaskId(b"id"), (b"body",))
    assert reply == TaskReply(TaskId(b"id"), (b"body",), received=b"header")
    other = {"id": b"other", "body": (), "attempt": 2, "status": 1, "part": 1, "final": False, "time_us": 1}
    other |= {"wait_us": 1, "work_us": 1, "config_version": b"1" * 16}
    assert {*other, "received"} == {field.name for field in msgspec.structs.fields(TaskReply)}
    for name, value in other.items():
        assert reply != msgspec.structs.replace(reply, **{name: value}), name
    assert reply != "a reply"


def test_reply_cannot_be_a_key() -> None:
    with pytest.raises(TypeError):
        hash(TaskReply(TaskId(b"id"), ()))


def test_no_alias_leads_round_in_a_circle() -> None:
    for name in ALIASES:
        seen = [name]
        while seen[-1] in ALIASES:
            seen.append(ALIASES[seen[-1]])
            assert len(seen) <= len(ALIASES), seen
