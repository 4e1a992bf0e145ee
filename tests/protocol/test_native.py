"""The native dialect's bounds: what is too short, too long, too deep or out of range is refused, with its cause."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.errors import ProtocolError
from scale0.protocol import limits, native
from scale0.protocol.commands import COMMANDS
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    Command,
    Connect,
    Error,
    Ping,
    Pong,
    Ready,
    Task,
    TaskId,
    TaskReply,
)
from tests.protocol import strategies

NONCE = bytes(8)
ID = make_id(id_prefix("c-1", NONCE), 7)
PACKED: list[Any] = [Task(ID, "echo", (), 1000), TaskReply(ID, ()), Ping(1), Pong(1, 2)]


def refusal(frames: list[bytes]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        native.decode(frames)
    return caught.value


def frame(command: Command, parameters: Any) -> bytes:
    return b"SC0C01" + bytes([command]) + msgspec.msgpack.encode(parameters)


@pytest.mark.parametrize("message", PACKED, ids=lambda message: type(message).__name__)
def test_packed_header_frame_of_another_length_is_refused(message: Any) -> None:
    header = native.encode(b"SC0C01", message)[0]
    for length in range(len(header)):
        assert refusal([header[:length]]).code == 400
    assert refusal([header + b"\0"]).code == 400


@pytest.mark.parametrize("message", [Ping(1), Pong(1, 2)], ids=lambda message: type(message).__name__)
def test_heartbeats_have_no_body(message: Any) -> None:
    assert refusal([*native.encode(b"SC0C01", message), b""]).code == 400


@pytest.mark.parametrize("command", list(COMMANDS), ids=lambda command: command.name)
def test_rare_message_has_no_body_frames(command: Command) -> None:
    assert refusal([frame(command, {}), b""]).code == 400


@pytest.mark.parametrize(
    "task",
    [
        Task(TaskId(b"\1" * 16), "echo", (), 1),  # an id without identity
        Task(TaskId(b"\1" * (limits.ID_BYTES_MAX + 1)), "echo", (), 1),
        Task(ID, "", (), 1),
        Task(ID, "s" * (limits.SERVICE_BYTES_MAX + 1), (), 1),
        Task(ID, "echo", (), 1, priority=limits.PRIORITIES),
        Task(ID, "echo", (), 1, options=bytes(limits.OPTIONS_BYTES_MAX + 1)),
    ],
)
def test_task_out_of_bounds_is_refused(task: Task) -> None:
    assert refusal(native.encode(b"SC0C01", task)).code == 400


@pytest.mark.parametrize(
    "task",
    [
        Task(TaskId(b"\1" * limits.ID_BYTES_MIN), "s", (), 0),
        Task(
            TaskId(b"\1" * limits.ID_BYTES_MAX),
            "s" * limits.SERVICE_BYTES_MAX,
            (),
            2**32 - 1,
            priority=limits.PRIORITIES - 1,
            options=bytes(limits.OPTIONS_BYTES_MAX),
        ),
    ],
)
def test_task_at_its_bounds_passes(task: Task) -> None:
    assert native.decode(native.encode(b"SC0C01", task)) == task


def test_service_name_that_is_not_utf8_is_refused() -> None:
    header = native.encode(b"SC0C01", Task(ID, "echo", (), 1))[0]
    assert refusal([header.replace(b"echo", b"\xff\xfe\xfd\xfc")]).code == 400


@pytest.mark.parametrize("size", [0, 16, limits.ID_BYTES_MAX + 1, 255])
def test_reply_with_an_impossible_id_is_refused(size: int) -> None:
    assert refusal(native.encode(b"SC0W01", TaskReply(TaskId(bytes(size)), ()))).code == 400


@pytest.mark.parametrize("status", [3, 255])
def test_reply_with_an_unknown_status_is_refused(status: int) -> None:
    assert refusal(native.encode(b"SC0W01", TaskReply(ID, (), status=status))).code == 400


# --- small bodies in the header frame -----------------------------------------------------------------------------

SMALL: list[Any] = [Task(ID, "echo", (b"small",), 1000, flags=3, options=b"\x80"), TaskReply(ID, (b"small",))]


def of_small(test: Any) -> Any:
    return pytest.mark.parametrize("message", SMALL, ids=lambda message: type(message).__name__)(test)


@of_small
def test_body_in_the_header_frame_and_further_frames_are_refused(message: Any) -> None:
    (header,) = native.encode(b"SC0C01", message)
    assert refusal([header, b""]).code == 400
    assert refusal([header, b"more", b"and more"]).code == 400


@of_small
def test_body_in_the_header_frame_over_its_limit_is_refused(message: Any) -> None:
    (header,) = native.encode(b"SC0C01", message)
    longest = header + bytes(limits.INLINE_BYTES_MAX - len(b"small"))
    assert len(native.decode([longest]).body[0]) == limits.INLINE_BYTES_MAX  # type: ignore[union-attr]
    assert refusal([longest + b"\0"]).code == 400
    assert refusal([longest + bytes(limits.MESSAGE_BYTES_MAX)]).code == 400


@of_small
def test_header_frame_that_ends_before_its_body_begins_is_refused(message: Any) -> None:
    (header,) = native.encode(b"SC0C01", message)
    fields = len(header) - len(b"small")
    for length in range(fields):
        assert refusal([header[:length]]).code == 400
    assert native.decode([header[:fields]]).body == (b"",)  # type: ignore[union-attr]


@of_small
def test_body_that_is_not_flagged_must_not_stand_in_the_header_frame(message: Any) -> None:
    (header,) = native.encode(b"SC0C01", message)
    assert refusal([header[:9] + bytes([header[9] & 0x7F]) + header[10:]]).code == 400


@of_small
def test_small_body_in_a_frame_of_its_own_says_the_same(message: Any) -> None:
    (header,) = native.encode(b"SC0C01", message)
    bare = header[:9] + bytes([header[9] & 0x7F]) + header[10 : -len(b"small")]
    assert native.decode([bare, b"small"]) == message


def test_mark_of_a_body_in_the_header_frame_is_no_flag_of_the_task() -> None:
    task = native.decode(native.encode(b"SC0C01", SMALL[0]))
    assert isinstance(task, Task)
    assert task.flags == 3


def test_bounds_are_those_of_a_task_wherever_its_body_stands() -> None:
    assert refusal(native.encode(b"SC0C01", Task(ID, "", (b"x",), 1))).code == 400
    assert refusal(native.encode(b"SC0C01", Task(TaskId(bytes(16)), "echo", (b"x",), 1))).code == 400
    assert refusal(native.encode(b"SC0C01", Task(ID, "echo", (b"x",), 1, priority=limits.PRIORITIES))).code == 400
    assert refusal(native.encode(b"SC0W01", TaskReply(TaskId(bytes(16)), (b"x",)))).code == 400
    assert refusal(native.encode(b"SC0W01", TaskReply(ID, (b"x",), status=3))).code == 400


# --- replies that are passed on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [(), (b"",), (b"small",), (bytes(8193),), (b"two", b"frames")], ids=len)
def test_reply_is_passed_on_with_the_dialects_bytes_changed_alone(body: tuple[bytes, ...]) -> None:
    came = native.encode(b"SC0W01", TaskReply(ID, body, 2, 1, 3, False, 4, 5, 6, bytes(range(16))))
    assert native.encode(b"SC0C01", native.decode(came)) == [b"SC0C01" + came[0][6:], *came[1:]]


def test_reply_whose_small_body_came_in_its_own_frame_is_passed_on_so() -> None:
    (header,) = native.encode(b"SC0W01", TaskReply(ID, ()))
    passed_on = native.encode(b"SC0C01", native.decode([header, b"small"]))
    assert passed_on == [b"SC0C01" + header[6:], b"small"]
    assert native.decode(passed_on) == TaskReply(ID, (b"small",))


# --- maps of parameters -------------------------------------------------------------------------------------------


def test_header_frame_over_its_limit_is_refused() -> None:
    assert refusal([frame(Command.DISCONNECT, {"reason": "x" * limits.HEADER_BYTES_MAX})]).code == 400
    assert refusal([frame(Command.CONNECT, {"x": "x" * limits.LONG_HEADER_BYTES_MAX})]).code == 400


NASTY = {
    "nested arrays": b"\x91" * 60_000 + b"\xc0",
    "nested maps": b"\x81\xa0" * 30_000 + b"\xc0",
    "an array of 4 billion": b"\xdd\xff\xff\xff\xff",
    "arrays of 16 million, nested": b"\xdd\x01\x00\x00\x00" * 20,
    "a map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "a string of 4 GB": b"\xdb\xff\xff\xff\xff",
    "bytes of 4 GB": b"\xc6\xff\xff\xff\xff",
    "a map as a map's key": b"\x81\x80\xc0",
    "an extension as a map's key": b"\x81\xc7\x00\x05\xc0",
    "a string that is not UTF-8": b"\xa1\xff",
    "a time beyond all years": b"\xc7\x0c\xff" + bytes(4) + b"\x7f" + b"\xff" * 7,
    "a type that does not exist": b"\xc1",
    "nothing": b"",
    "a value, and one too many": b"\xc0\xc0",
}


@pytest.mark.parametrize("value", NASTY.values(), ids=NASTY.keys())
def test_nasty_msgpack_is_refused_wherever_it_stands(value: bytes) -> None:
    for command in COMMANDS:
        prefix = b"SC0C01" + bytes([command])
        assert refusal([prefix + value]).code == 400
        assert refusal([prefix + b"\x81\xa4nope" + value]).code == 400
    error = b"SC0C01\x11\x83\xa4code\xcd\x01\x94\xa4text\xa0\xa6detail\x81\xa1a"
    assert refusal([error + value]).code == 400


@given(command=st.sampled_from(list(COMMANDS)), parameters=st.dictionaries(st.text(max_size=12), strategies.anything))
def test_any_map_decodes_or_is_refused(command: Command, parameters: dict[str, Any]) -> None:
    try:
        native.decode([frame(command, parameters)])
    except ProtocolError as error:
        refused = error
    else:
        return
    assert refused.code == 400


def test_unknown_parameters_are_ignored() -> None:
    assert native.decode([frame(Command.ERROR, {"code": 404, "text": "no", "hint": 1})]) == Error(code=404, text="no")


# --- older names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("older", ["hbeatinterval", "heartbeat_interval", "heartbeat_interval_ms"])
def test_every_name_of_the_interval_means_the_same(older: str) -> None:
    assert native.decode([frame(Command.READY, {"services": [], older: 5000})]) == Ready(
        services=[], heartbeat_interval_ms=5000
    )


@pytest.mark.parametrize("older", ["configversion", "config_version"])
def test_every_name_of_the_config_version_means_the_same(older: str) -> None:
    version = bytes(range(16))
    assert native.decode([frame(Command.CONNECT, {"identity": "x", "nonce": NONCE, older: version})]) == Connect(
        identity="x", nonce=NONCE, config_version=version
    )


def test_the_drafts_name_of_the_task_id_is_accepted() -> None:
    error = native.decode([frame(Command.ERROR, {"code": 504, "text": "", "work_request_indentifier": ID})])
    assert error == Error(code=504, text="", id=ID)


def test_the_short_name_of_a_time_is_accepted() -> None:
    assert native.decode([frame(Command.READY, {"services": [], "time": 5})]) == Ready(services=[], time_us=5)
