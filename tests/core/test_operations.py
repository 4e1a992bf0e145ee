"""What operators do to single workers and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import operations
from scale0.errors import ProtocolError
from scale0.protocol.dialects import MDP1_CLIENT, MDP1_WORKER, MDP2_WORKER, REQ_WORKER
from scale0.protocol.ids import show_id
from scale0.protocol.majordomo import MdpDisconnect, MdpReady, MdpRequest
from scale0.protocol.messages import Cancel, Disconnect, Error, ForceNegotiate, Status, TaskReply
from tests.core.desk import Desk, codes, only_task
from tests.core.mesh import group_of, pair_of


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- kick_worker --------------------------------------------------------------------------------------------------


def test_kicked_worker_is_told_why_and_its_tasks_are_lost_by_rule_9(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=2)
    client = desk.client("ada")
    client.submit("greet")
    told = desk.manage("kick_worker", worker="w", reason="it hangs", author="root")
    assert told == {"worker": "w", "tasks": 1, "repeated": 0, "lost": 1}
    farewells = [message for name, message in desk.sent if name == "w"]
    assert farewells == [Disconnect(reason="sent away by root: it hangs")]
    assert codes(desk.sent) == [("ada", 502)]
    assert worker.state == "gone"


def test_what_a_kicked_worker_held_is_repeated_if_it_may_be(desk: Desk) -> None:
    desk.worker("w1", "greet", idempotent=True)
    client = desk.client("ada")
    client.submit("greet")
    desk.worker("w2", "greet", idempotent=True)
    assert desk.manage("kick_worker", worker="w1")["repeated"] == 1
    assert only_task(desk.sent, "w2").attempt == 2


def test_kicked_worker_that_comes_back_is_taken_again(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    desk.manage("kick_worker", worker="w")
    assert [type(message) for _, message in worker.ping()] == [ForceNegotiate]
    worker.connect()
    worker.ready()
    assert worker.state == "ready"
    assert desk.manage("list", what="workers")["rows"][0]["sessions_per_h"] == 2


def test_each_dialect_is_told_in_its_own_way(desk: Desk) -> None:
    for name, dialect in (("m1", MDP1_WORKER), ("m2", MDP2_WORKER)):
        desk.say(name, dialect, MdpReady("old"))
    for name, row in zip(("m1", "m2"), desk.manage("list", what="workers")["rows"], strict=True):
        desk.manage("kick_worker", worker=row["identity"])
        assert desk.sent == [(name, MdpDisconnect())]
    desk.worker("req", "greet", dialect=REQ_WORKER)
    desk.manage("kick_worker", worker="req")
    assert [type(message) for _, message in desk.sent] == [ForceNegotiate], "it has asked, and hears one answer"


def test_req_worker_that_has_not_asked_and_an_absent_one_hear_nothing(desk: Desk) -> None:
    desk.worker("req", "greet", dialect=REQ_WORKER)
    desk.client("ada").submit("greet")
    desk.manage("kick_worker", worker="req")
    assert [name for name, _ in desk.sent] == ["ada"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, "worker"),
        ({"worker": "nobody"}, "is not here"),
        ({"worker": "ada"}, "is a client"),
        ({"worker": 7}, "text"),
    ],
    ids=str,
)
def test_only_a_worker_that_is_here_can_be_kicked(desk: Desk, arguments: dict[str, Any], names: str) -> None:
    desk.client("ada")
    with pytest.raises(ProtocolError, match=names) as refused:
        desk.manage("kick_worker", **arguments)
    assert refused.value.code == 400


# --- cancel_task --------------------------------------------------------------------------------------------------


def test_operator_cancels_what_waits(desk: Desk) -> None:
    desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet")
    client.submit("greet")
    told = desk.manage("cancel_task", task=show_id(client.id(2)), author="root")
    assert (told["state"], told["worker"]) == ("queued", None)
    ((name, error),) = desk.sent
    assert isinstance(error, Error)
    assert (name, error.code, error.text) == ("ada", 499, "cancelled by root")


def test_operator_cancels_what_runs_and_its_slot_stays_occupied(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    client = desk.client("ada")
    task = only_task(client.submit("greet"), "w")
    told = desk.manage("cancel_task", task=show_id(task.id))
    assert (told["state"], told["worker"]) == ("in_flight", "w")
    assert [(name, type(message)) for name, message in desk.sent] == [("w", Cancel), ("ada", Error)]
    assert (worker.state, desk.manage("list", what="workers")["rows"][0]["stuck"]) == ("full", 1)
    assert worker.reply(task, status=Status.FAILED) == [], "its client has its outcome"
    assert worker.state == "ready"


def test_task_of_a_majordomo_client_ends_in_silence(desk: Desk) -> None:
    desk.worker("w", "greet")
    desk.say("m", MDP1_CLIENT, MdpRequest("greet", (b"x",)))
    (row,) = desk.manage("list", what="tasks")["rows"]
    desk.manage("cancel_task", task=row["id"])
    assert [name for name, _ in desk.sent] == ["w"]
    assert desk.broker.census().errored == 1


def test_beginning_of_an_id_is_enough_where_it_fits_one_alone(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=4)
    ada, eve = desk.client("ada"), desk.client("eve.of.two")
    ada.submit("greet")
    ada.submit("greet")
    eve.submit("greet")
    with pytest.raises(ProtocolError, match="fits 2") as refused:
        desk.manage("cancel_task", task="ada")
    assert refused.value.code == 400
    assert desk.manage("cancel_task", task="eve")["client"] == "eve.of.two"
    assert desk.manage("cancel_task", task=show_id(ada.id(1)))["task"] == show_id(ada.id(1))
    with pytest.raises(ProtocolError, match="settled by now"):
        desk.manage("cancel_task", task=show_id(ada.id(1)))


def test_among_very_many_tasks_the_whole_id_is_needed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "BEGUN_AMONG", 1)
    desk.worker("w", "greet", capacity=4)
    client = desk.client("ada")
    client.submit("greet")
    client.submit("greet")
    with pytest.raises(ProtocolError, match="whole id"):
        desk.manage("cancel_task", task="ada.3132")
    assert desk.manage("cancel_task", task=show_id(client.id(2)))["task"] == show_id(client.id(2))


@pytest.mark.parametrize("task", [None, "", 7, "x", "a.b.c", f"a.{'zz' * 8}.1", f"a.{'00' * 8}.99999999999999999999"])
def test_what_names_no_task_is_refused(desk: Desk, task: Any) -> None:
    with pytest.raises(ProtocolError, match="task") as refused:
        desk.manage("cancel_task", task=task)
    assert refused.value.code == 400


def test_task_that_another_broker_forwarded_is_cancelled_for_its_client() -> None:
    mesh, (first, second) = group_of(2)
    second.worker("w", "far")
    mesh.run(3.0)
    first.client("ada")
    first.submit("ada", 1, "far")
    mesh.run(0.1)
    (row,) = second.rows("tasks")
    assert (row["client"], row["origin"], row["worker"]) == ("ada", first.name, "w")
    second.manage("cancel_task", task=row["id"])
    mesh.run(0.1)
    assert first.codes("ada") == [499]


def test_reply_that_comes_after_a_cancel_is_counted_as_late(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    task = only_task(desk.client("ada").submit("greet"), "w")
    desk.manage("cancel_task", task=show_id(task.id))
    worker.say(TaskReply(task.id, (b"late",), task.attempt))
    assert desk.counters["late_replies"] == 1


def test_standby_leaves_its_partners_workers_and_tasks_alone() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "greet", idempotent=True)
    primary.client("ada")
    primary.submit("ada", 1, "greet")
    mesh.run(1.0)
    (row,) = fallback.rows("tasks")
    for command, named in (("kick_worker", {"worker": "w"}), ("cancel_task", {"task": row["id"]})):
        with pytest.raises(ProtocolError, match="prim's") as refused:
            fallback.manage(command, **named)
        assert refused.value.code == 503
    primary.manage("cancel_task", task=row["id"])
    mesh.run(0.5)
    assert (primary.codes("ada"), fallback.rows("tasks")) == ([499], [])
