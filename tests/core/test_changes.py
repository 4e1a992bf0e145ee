"""What the fallback is told of each change, and what it is not told."""

from __future__ import annotations

from typing import TypeVar

import pytest

from scale0.core import changes
from scale0.core.stream import (
    Accepted,
    Announced,
    AnyChange,
    Cancelled,
    Closed,
    Dropped,
    Failed,
    Forgotten,
    Opened,
    Parted,
    Replied,
    Returned,
    Sent,
    unpacked,
)
from scale0.protocol import native
from scale0.protocol.dialects import CLIENT, MDP1_CLIENT, MDP2_WORKER, REQ_CLIENT, WORKER
from scale0.protocol.majordomo import MdpReady, MdpRequest
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Disconnect,
    Ping,
    Ready,
    ServiceOffer,
    Status,
    Stream,
    Task,
    TaskReply,
)
from tests.core.mesh import CLIENT_NONCE, Mesh, Node, id_of, pair_of
from tests.core.star_kit import SHORTLY_S, copy_of, pair_and_third

C = TypeVar("C")
ID = id_of("ada", 1)


def told(mesh: Mesh) -> list[AnyChange]:
    """All changes that the fallback heard since it was asked last."""
    messages = mesh.between("prim", "back", Stream)
    mesh.passed.clear()
    return [change for message in messages for change in unpacked(message.changes)]


def of(listed: list[AnyChange], kind: type[C]) -> list[C]:
    return [change for change in listed if isinstance(change, kind)]


def working(*, idempotent: bool = False) -> tuple[Mesh, Node]:
    """w has ada's task."""
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", idempotent=idempotent)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    told(mesh)
    return mesh, primary


# --- sessions -------------------------------------------------------------------------------------------------------


def test_session_that_begins_is_told_with_all_that_it_said() -> None:
    mesh, primary, _ = pair_of()
    primary.client("ada", config_type="ZPL", home="third")
    assert told(mesh) == [Opened("ada", CLIENT_NONCE, "client", 2.5, [], "third", "ZPL", 1, 0)]


def test_session_that_ends_is_told_after_its_tasks() -> None:
    mesh, primary = working()
    primary.say("ada", CLIENT, Disconnect())
    listed = told(mesh)
    assert listed[-1] == Closed("ada")
    assert len(listed) > 1


def test_what_a_worker_offers_is_told_each_time_it_says_ready() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo", capacity=3, idempotent=True)
    assert of(told(mesh), Announced) == [Announced("w", [("echo", True, 3)], 3, True, 2.5)]
    ready = Ready(services=[ServiceOffer("echo"), ServiceOffer("sum", max_attempts=7)], heartbeat=False)
    primary.say("w", WORKER, ready)
    assert of(told(mesh), Announced) == [Announced("w", [("echo", False, 3), ("sum", False, 7)], 1, False, 2.5)]


def test_floor_is_told_when_a_client_says_what_it_has() -> None:
    mesh, primary = working()
    primary.say("ada", CLIENT, Ping(round(mesh.now * 1e6), oldest_unanswered=2))
    assert told(mesh) == [Forgotten("ada", 2)]
    primary.say("ada", CLIENT, Ping(round(mesh.now * 1e6), oldest_unanswered=2))
    assert told(mesh) == [], "it says nothing new"


# --- tasks ----------------------------------------------------------------------------------------------------------


def test_task_is_told_with_all_that_travels_with_it_and_then_where_it_went() -> None:
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    told(mesh)
    primary.submit("ada", 1, "echo", timeout_s=9.0, priority=2, options=b"\x80", send_time_us=5)
    accepted, sent = told(mesh)
    assert accepted == Accepted(ID, "echo", (b"body",), b"\x80", 2, 0, 5, 9000, 0, told_ms=int(mesh.now * 1000))
    assert sent == Sent(ID, "w", 1)


def test_task_that_waits_is_told_without_a_place() -> None:
    mesh, primary = working()
    primary.submit("ada", 2, "echo")
    assert [type(change) for change in told(mesh)] == [Accepted]


def test_task_that_was_returned_is_told() -> None:
    mesh, primary = working()
    primary.say("w", WORKER, Ready(services=[ServiceOffer("echo")], capacity=0, in_flight=[ID]))
    told(mesh)
    primary.say("w", WORKER, TaskReply(ID, (), 1, int(Status.RETURNED)))
    assert told(mesh) == [Returned(ID, 0)], "no attempt is counted"


def test_task_that_is_repeated_is_told_with_its_attempts() -> None:
    mesh, primary = working(idempotent=True)
    primary.say("w", WORKER, Disconnect())
    primary.worker("v", "echo", idempotent=True)
    listed = told(mesh)
    assert of(listed, Returned) == [Returned(ID, 1)]
    assert of(listed, Sent) == [Sent(ID, "v", 2)]


def test_parts_and_cancels_are_told() -> None:
    mesh, primary = working()
    primary.say("w", WORKER, TaskReply(ID, (b"part",), 1, part=0, final=False))
    assert told(mesh) == [Parted(ID, 1)]
    primary.say("ada", CLIENT, Cancel(id=ID))
    assert {type(change) for change in told(mesh)} <= {Cancelled, Failed}


def test_task_at_another_broker_or_at_a_majordomo_worker_is_with_nobody_who_could_come() -> None:
    mesh, primary, _, third = pair_and_third()
    third.worker("w", "echo")
    mesh.run(SHORTLY_S)
    primary.client("ada")
    told(mesh)
    primary.submit("ada", 1, "echo")
    assert of(told(mesh), Sent) == [Sent(ID, "", 1)]
    primary.say("m", MDP2_WORKER, MdpReady("other"))
    primary.submit("ada", 2, "other")
    assert of(told(mesh), Sent) == [Sent(id_of("ada", 2), "", 1)]


# --- outcomes -------------------------------------------------------------------------------------------------------


def test_reply_is_told_with_its_frames() -> None:
    mesh, primary = working()
    primary.answer("w")
    (replied,) = of(told(mesh), Replied)
    reply = native.decode(replied.frames)
    assert isinstance(reply, TaskReply)
    assert (reply.id, reply.body, reply.attempt) == (ID, (b"done",), 1)


def test_error_is_told_with_its_code_and_text() -> None:
    mesh, primary = working()
    primary.say("w", WORKER, Disconnect())
    (failed,) = of(told(mesh), Failed)
    assert (failed.id, failed.code) == (ID, 502)
    assert "w" in failed.text


def test_task_whose_client_has_gone_elsewhere_is_dropped() -> None:
    mesh, primary, fallback, third = pair_and_third()
    third.worker("w", "echo")
    mesh.run(SHORTLY_S)
    primary.client("ada")
    primary.submit("ada", 1, "echo")
    mesh.run(SHORTLY_S)
    told(mesh)
    third.client("ada")
    third.submit("ada", 1, "echo", flags=1)
    mesh.run(SHORTLY_S)
    assert of(told(mesh), Dropped) == [Dropped(ID)], "third has adopted it"
    assert ID not in fallback.state.ledger.entries
    assert copy_of(fallback.state) == copy_of(primary.state)


# --- what is not streamed -------------------------------------------------------------------------------------------


def test_sessions_and_tasks_of_majordomo_and_req_sockets_are_not_told() -> None:
    mesh, primary, fallback = pair_of()
    primary.say("m", MDP2_WORKER, MdpReady("echo"))
    primary.say("mc", MDP1_CLIENT, MdpRequest("echo", (b"body",)))
    primary.say("r", REQ_CLIENT, Connect(identity="r", nonce=CLIENT_NONCE))
    primary.say("r", REQ_CLIENT, Task(id_of("r", 1), "echo", (b"body",), 5000))
    assert primary.state.ledger.accepted == 2
    assert told(mesh) == []
    assert fallback.state.counters["alarm_stream_unread"] == 0


def test_task_that_is_too_large_is_not_told_and_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "STREAMED_BYTES_MAX", 3)
    mesh, primary, _ = pair_of()
    primary.worker("w", "echo")
    primary.client("ada")
    told(mesh)
    mesh.cut("prim", "back")
    primary.submit("ada", 1, "echo")
    assert len(primary.heard("w", Task)) == 1, "nobody has a copy that could lead to a second run"
    mesh.heal()
    mesh.settle()
    assert told(mesh) == []


def test_reply_that_is_too_large_is_told_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh, primary = working()
    monkeypatch.setattr(changes, "STREAMED_BYTES_MAX", 10)
    primary.answer("w", bytes(100))
    (failed,) = of(told(mesh), Failed)
    assert (failed.code, "too large" in failed.text) == (502, True)
    assert primary.bodies("ada") == [bytes(100)]


def test_large_bodies_leave_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "TOGETHER_BYTES_MAX", 100)
    mesh, primary, fallback = pair_of()
    primary.worker("w", "echo", capacity=0)
    primary.client("ada")
    for sequence in range(1, 6):
        primary.say("ada", CLIENT, Task(id_of("ada", sequence), "echo", (bytes(60),), 30_000))
    fallback.restart()
    mesh.run(3.0)
    mesh.passed.clear()
    fallback.restart()
    mesh.run(3.0)
    sizes = [sum(map(len, message.changes)) for message in mesh.between("prim", "back", Stream)]
    assert len(sizes) >= 5
    assert copy_of(fallback.state) == copy_of(primary.state)
