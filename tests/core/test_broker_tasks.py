"""Tasks of the broker itself: test tasks and dead letters, through everything that a client's task goes through."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scale0.core.askers import Later
from scale0.core.broker_tasks import BODY_BYTES_MAX, OWN_TASKS_MAX, TIMEOUT_S_MAX
from scale0.core.effects import Answered
from scale0.errors import ProtocolError
from scale0.protocol.dialects import MDP1_WORKER
from scale0.protocol.majordomo import MdpReady, MdpReply, MdpTask
from scale0.protocol.messages import Disconnect, ManagementRep, Status, Task, TaskReply
from tests.core.desk import Desk, Worker, only_task
from tests.core.mesh import group_of, pair_of
from tests.core.record_reader import Reader

packed = msgspec.msgpack.encode


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1")


def try_service(desk: Desk, service: str = "greet", **arguments: Any) -> tuple[Later, Task]:
    """A test task that was accepted and dispatched."""
    later = desk.manage("test_task", service=service, **arguments)
    assert isinstance(later, Later)
    (task,) = [message for _, message in desk.sent if isinstance(message, Task)]
    return later, task


def answers(desk: Desk) -> dict[int, Any]:
    """What the last verb answered to whoever waits in this process."""
    told = [effect for effect in desk.others if isinstance(effect, Answered)]
    return {effect.key: effect.message.result for effect in told if isinstance(effect.message, ManagementRep)}


def bury(desk: Desk, body: bytes = b"body") -> str:
    """A dead letter: its client and its worker are gone. Its id."""
    worker = desk.worker("clumsy", "greet")
    desk.client("ada").submit("greet", body, priority=2, options=packed({"encoding": "raw"}))
    worker.say(Disconnect())
    return str(desk.manage("list", what="dead_letters")["rows"][0]["id"])


def test_test_task_is_answered_with_who_did_it_and_how_long_it_took(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    later, task = try_service(desk, body='{"name": "ada"}')
    assert msgspec.msgpack.decode(task.body[0]) == {"args": [], "kwargs": {"name": "ada"}}
    assert msgspec.msgpack.decode(task.options) == {"encoding": "msgpack"}
    desk.pass_time(0.25)
    worker.reply(task, packed({"hello": "ada"}))
    told = answers(desk)[later.key]
    assert (told["code"], told["worker"], told["body"]) == (200, "w", '{"hello":"ada"}')
    assert told["duration_us"] == pytest.approx(250_000)
    assert told["task"].startswith("b1.")
    assert desk.sent == [], "nobody hears of it on a socket"


@pytest.mark.parametrize(
    ("text", "body"),
    [("null", []), ("", []), ("[1, 2]", [1, 2]), ('"ada"', ["ada"]), ("7", [7]), ("{}", {"args": [], "kwargs": {}})],
)
def test_body_is_read_as_the_command_line_reads_it(desk: Desk, text: str, body: Any) -> None:
    desk.worker("w", "greet")
    _, task = try_service(desk, body=text)
    assert msgspec.msgpack.decode(task.body[0]) == body


@pytest.mark.parametrize(
    ("arguments", "code", "names"),
    [
        ({"body": "{"}, 400, "JSON"),
        ({"body": "[" * 100 + "]" * 100}, 400, "deep"),
        ({"body": '"' + "x" * BODY_BYTES_MAX + '"'}, 413, "bytes"),
        ({"body": 7}, 400, "body"),
        ({"timeout_s": 0}, 400, "timeout_s"),
        ({"timeout_s": TIMEOUT_S_MAX + 1}, 400, "timeout_s"),
        ({"timeout_s": True}, 400, "timeout_s"),
        ({"timeout_s": float("nan")}, 400, "timeout_s"),
        ({"service": ""}, 400, "service"),
        ({"service": "x" * 200}, 400, "service"),
        ({"service": None}, 400, "service"),
        ({"service": "\ud800"}, 400, "service"),
        ({"body": '"\ud800"'}, 400, "body"),
    ],
    ids=str,
)
def test_bad_arguments_name_themselves(desk: Desk, arguments: dict[str, Any], code: int, names: str) -> None:
    desk.worker("w", "greet")
    with pytest.raises(ProtocolError, match=names) as refused:
        desk.manage("test_task", **{"service": "greet", **arguments})
    assert refused.value.code == code
    assert not desk.broker.state.own.asked


def test_unknown_service_refuses_the_command_with_near_names(desk: Desk) -> None:
    desk.worker("w", "greet")
    with pytest.raises(ProtocolError, match="did you mean greet") as refused:
        desk.manage("test_task", service="greeet")
    assert refused.value.code == 404
    assert not desk.broker.state.network.askers, "nobody waits"


def test_failed_handler_and_a_passed_deadline_are_outcomes_not_refusals(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    later, task = try_service(desk)
    failure = packed({"type": "ValueError", "message": "no name", "traceback": "…"})
    worker.reply(task, failure, status=Status.FAILED)
    assert (answers(desk)[later.key]["code"], answers(desk)[later.key]["text"]) == (500, "ValueError: no name")
    later, task = try_service(desk, timeout_s=1.0)
    desk.pass_time(1.1)
    told = answers(desk)[later.key]
    assert (told["code"], told["worker"]) == (504, "w")
    assert "w did not reply by the deadline" in told["text"]


def test_reply_of_bytes_and_of_a_majordomo_worker_are_shown_as_text(desk: Desk) -> None:
    worker = desk.worker("w", "raw")
    later, task = try_service(desk, "raw")
    worker.say(TaskReply(task.id, (b"", b"\xffpng"), task.attempt))
    assert answers(desk)[later.key]["body"] == "\ufffdpng"
    desk.say("m", MDP1_WORKER, MdpReady("old"))
    later = desk.manage("test_task", service="old")
    ((_, request),) = [(name, message) for name, message in desk.sent if isinstance(message, MdpTask)]
    desk.say("m", MDP1_WORKER, MdpReply(request.address, (b"plain",), True))
    assert answers(desk)[later.key]["body"] == "plain"


def test_long_reply_is_cut_and_its_size_told(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    later, task = try_service(desk)
    worker.reply(task, packed("x" * 100_000))
    told = answers(desk)[later.key]
    assert len(told["body"].encode()) == BODY_BYTES_MAX
    assert told["body_bytes"] > 100_000


def test_partial_replies_are_joined(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    later, task = try_service(desk)
    worker.reply(task, b"one ", part=0, final=False)
    assert answers(desk) == {}
    worker.reply(task, b"two")
    assert answers(desk)[later.key]["body"] == "one two"


def test_services_of_the_broker_itself_answer_at_once(desk: Desk) -> None:
    told = desk.manage("test_task", service="scale0.brokers")
    assert told["code"] == 200
    assert msgspec.json.decode(told["body"])["schema"] == "scale0.brokers/1"
    assert not desk.broker.state.network.askers


@pytest.mark.parametrize("command", ["disable", "drain"])
def test_broker_that_takes_no_tasks_takes_none_of_its_own(desk: Desk, command: str) -> None:
    letter = bury(desk)
    desk.worker("w", "greet")
    desk.client("eve").submit("greet")
    desk.manage(command)
    for refused in ({"command": "test_task", "service": "greet"}, {"command": "retry_dead_letter", "task": letter}):
        with pytest.raises(ProtocolError, match="takes no task") as error:
            desk.manage(**refused)
        assert error.value.code == 503


def test_disabling_answers_what_is_under_way(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=1)
    in_flight, _ = try_service(desk, timeout_s=30)
    queued = desk.manage("test_task", service="greet")
    desk.manage("disable")
    assert answers(desk)[queued.key]["code"] == 503
    desk.pass_time(6.0)
    assert answers(desk)[in_flight.key]["code"] == 502
    assert desk.broker.state.mode == "disabled"


def test_tasks_of_operators_have_a_limit_and_are_recorded_once_each() -> None:
    desk = Desk(identity="b1", boot="run")
    worker = desk.worker("w", "greet", capacity=100)
    reader = Reader(desk.broker)
    pending = [try_service(desk) for _ in range(OWN_TASKS_MAX)]
    with pytest.raises(ProtocolError, match="under way") as refused:
        desk.manage("test_task", service="greet")
    assert refused.value.code == 429
    for _, task in pending:
        worker.reply(task)
    rows = reader.read()
    assert len(rows) == OWN_TASKS_MAX
    assert {(row["client"], row["dialect"]) for row in rows} == {("b1", "broker")}
    with pytest.raises(ProtocolError):
        desk.manage("test_task", service="nobody")
    reader.check()
    census = desk.broker.census()
    assert (census.accepted, census.replied) == (OWN_TASKS_MAX, OWN_TASKS_MAX)


# --- dead letters -------------------------------------------------------------------------------------------------


def test_dead_letter_that_is_tried_with_success_leaves_the_list(desk: Desk) -> None:
    letter = bury(desk, b"precious")
    worker = desk.worker("w", "greet")
    later = desk.manage("retry_dead_letter", task=letter)
    task = only_task(desk.sent, "w")
    assert (task.body, task.priority, task.options) == ((b"precious",), 2, packed({"encoding": "raw"}))
    assert task.attempt == 1
    with pytest.raises(ProtocolError, match="being tried again") as refused:
        desk.manage("retry_dead_letter", task=letter)
    assert refused.value.code == 409
    worker.reply(task)
    told = answers(desk)[later.key]
    assert (told["code"], told["letter"], told["is_removed"]) == (200, letter, True)
    assert desk.manage("list", what="dead_letters")["rows"] == []
    assert desk.broker.state.dead_letters.bytes == 0


def test_dead_letter_that_fails_again_stays_and_has_no_second_one(desk: Desk) -> None:
    letter = bury(desk)
    worker = desk.worker("w", "greet")
    later = desk.manage("retry_dead_letter", task=letter)
    worker.say(Disconnect())
    told = answers(desk)[later.key]
    assert (told["code"], told["is_removed"]) == (502, False)
    (row,) = desk.manage("list", what="dead_letters")["rows"]
    assert (row["id"], row["retries"]) == (letter, 1)


def test_dead_letter_is_named_by_the_beginning_of_its_id(desk: Desk) -> None:
    letter = bury(desk)
    desk.worker("w", "greet")
    assert isinstance(desk.manage("retry_dead_letter", task=letter[:6]), Later)
    with pytest.raises(ProtocolError, match="no dead letter is"):
        desk.manage("retry_dead_letter", task="nobody")


def test_letter_that_was_cleared_meanwhile_is_not_missed(desk: Desk) -> None:
    letter = bury(desk)
    worker = desk.worker("w", "greet")
    later = desk.manage("retry_dead_letter", task=letter)
    task = only_task(desk.sent, "w")
    desk.manage("clear_dead_letters")
    worker.reply(task)
    assert answers(desk)[later.key]["code"] == 200


# --- in a network -------------------------------------------------------------------------------------------------


def test_test_task_crosses_to_a_peer_that_serves() -> None:
    mesh, (first, second) = group_of(2)
    second.worker("w", "far")
    mesh.run(3.0)
    assert first.manage("test_task", service="far") is None, "its answer comes later"
    mesh.run(0.1)
    second.answer("w", packed("done"))
    mesh.run(0.1)
    (told,) = first.answers.values()
    assert isinstance(told, ManagementRep)
    assert (told.result["code"], told.result["via"], told.result["worker"]) == (200, second.name, None)


def test_broker_that_gives_way_says_that_the_outcome_is_unknown() -> None:
    mesh, primary, fallback = pair_of()
    primary.worker("w", "greet", idempotent=True)
    mesh.run(1.0)
    primary.manage("test_task", service="greet", timeout_s=30.0)
    mesh.run(0.2)
    assert not fallback.state.ledger.entries, "its fallback is told of no task of its own"
    primary.manage("handover")
    mesh.run(10.0)
    assert (primary.mode, fallback.mode) == ("passive", "active")
    (told,) = primary.answers.values()
    assert isinstance(told, ManagementRep)
    assert (told.result["code"], primary.state.own.asked) == (502, {})
    with pytest.raises(ProtocolError, match="passive"):
        primary.manage("test_task", service="greet")


def test_worker_of_a_test_task_may_be_lost_and_the_task_repeated(desk: Desk) -> None:
    workers = [Worker(desk, name, "greet", idempotent=True) for name in ("w1", "w2")]
    later, first = try_service(desk)
    workers[0].say(Disconnect())
    again = only_task(desk.sent, "w2")
    assert (again.id, again.attempt) == (first.id, 2)
    workers[1].reply(again)
    assert (answers(desk)[later.key]["worker"], answers(desk)[later.key]["attempts"]) == ("w2", 2)
