"""Tasks that cross from one broker to another, seen from both ends (rules 3, 7, 12, 13, 16, 28, 29)."""

from __future__ import annotations

import msgspec
import pytest

from scale0.core.settings import Limits
from scale0.protocol.dialects import (
    CLIENT,
    MDP1_CLIENT,
    MDP1_WORKER,
    MDP2_CLIENT,
    MDP2_WORKER,
    REQ_CLIENT,
    REQ_WORKER,
    WORKER,
    Dialect,
)
from scale0.protocol.majordomo import MdpReady, MdpReply, MdpRequest, MdpResult, MdpTask
from scale0.protocol.messages import (
    Cancel,
    Connect,
    Disconnect,
    Error,
    Flag,
    Ready,
    ServiceOffer,
    Status,
    Task,
    TaskReply,
)
from tests.core.desk import Desk, bodies, codes, only_task, tasks_to
from tests.core.mesh import CLIENT_NONCE, WORKER_NONCE, Mesh, Node, id_of, network_of
from tests.core.neighbour import Neighbour, said, status

SHORTLY_S = 0.2


@pytest.fixture
def desk() -> Desk:
    return Desk(identity="b1", advertise=["tcp://10.0.0.1:5555"])


def pair(**worker: object) -> tuple[Mesh, Node, Node]:
    """ada at b1, and a worker of echo at b2."""
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.worker("w", "echo", **worker)  # type: ignore[arg-type]
    mesh.run(SHORTLY_S)
    b1.client("ada")
    return mesh, b1, b2


# --- there and back -------------------------------------------------------------------------------------------------


def test_task_is_forwarded_and_its_reply_comes_back() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    (task,) = b2.answer("w")
    assert (task.id, task.body, task.options) == (id_of("ada", 1), (b"body",), b"")
    assert b1.bodies("ada") == [b"done"]
    assert (b1.broker.census().replied, b2.broker.census().replied) == (1, 1)
    assert (b1.peer("b2").forwarded, b2.peer("b1").received) == (1, 1)


def test_failed_handler_is_a_reply_and_is_not_repeated() -> None:
    _, b1, b2 = pair(idempotent=True)
    b1.submit("ada", 1, "echo")
    b2.answer("w", b"ValueError", status=Status.FAILED)
    (reply,) = b1.heard("ada", TaskReply)
    assert (reply.status, reply.body) == (Status.FAILED, (b"ValueError",))


def test_parts_pass_in_order_and_the_final_reply_ends_them() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    (task,) = b2.heard("w", Task)
    for part in range(3):
        b2.say("w", WORKER, TaskReply(task.id, (b"%d" % part,), task.attempt, part=part, final=False))
    b2.say("w", WORKER, TaskReply(task.id, (b"end",), task.attempt, part=3))
    replies = b1.heard("ada", TaskReply)
    assert [(reply.part, reply.body, reply.final) for reply in replies] == [
        (0, (b"0",), False),
        (1, (b"1",), False),
        (2, (b"2",), False),
        (3, (b"end",), True),
    ]


def test_outcome_is_kept_at_the_origin_alone_and_answers_a_resend() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b2.answer("w")
    b1.bodies("ada")
    b1.submit("ada", 1, "echo", flags=Flag.RESENT)
    assert b1.bodies("ada") == [b"done"]
    assert (b1.state.outcomes.count, b2.state.outcomes.count) == (1, 0)
    assert b2.heard("w", Task) == []


def test_tasks_of_both_brokers_cross() -> None:
    mesh, b1, b2 = pair()
    b1.worker("w1", "render")
    b2.client("bob")
    mesh.run(SHORTLY_S)
    b1.submit("ada", 1, "echo")
    b2.submit("bob", 1, "render")
    b2.answer("w")
    b1.answer("w1")
    assert (b1.bodies("ada"), b2.bodies("bob")) == ([b"done"], [b"done"])


# --- who may be asked -----------------------------------------------------------------------------------------------


def test_service_is_unknown_only_if_no_peer_knows_it() -> None:
    mesh, b1, b2 = pair()
    b1.submit("ada", 1, "ecko")
    (error,) = b1.heard("ada", Error)
    assert (error.code, error.detail["near"]) == (404, ["echo"])
    b2.say("w", WORKER, Disconnect())
    mesh.run(SHORTLY_S)
    b1.submit("ada", 2, "echo", timeout_s=1.0)
    assert b1.codes("ada") == [], "known, without live workers: it waits"
    mesh.run(1.2)
    assert b1.codes("ada") == [408]


def test_service_that_a_broker_does_not_manage_is_forwarded() -> None:
    mesh, (b1, b2) = network_of({"b1": {"services": ["render"]}, "b2": {"services": ["echo"]}})
    b2.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    b2.answer("w")
    assert b1.bodies("ada") == [b"done"]
    b1.submit("ada", 2, "unheard-of")
    assert b1.codes("ada") == [404]


def test_service_that_a_broker_does_not_manage_waits_for_peers_after_its_start() -> None:
    mesh, (b1, b2) = network_of({"b1": {"services": ["render"]}, "b2": {"services": ["echo"]}})
    b2.worker("w", "echo")
    b1.restart()
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    mesh.run(5.0)
    b2.answer("w")
    assert b1.bodies("ada") == [b"done"]


def test_forwarded_task_is_never_forwarded_again() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b2.worker("w2", "echo")
    b3.worker("w3", "echo", capacity=10)
    mesh.run(SHORTLY_S)
    b1.client("ada")
    for sequence in range(1, 6):
        b1.submit("ada", sequence, "echo")
    mesh.run(SHORTLY_S)
    assert mesh.between("b2", "b3", Task) == mesh.between("b3", "b2", Task) == []
    tasks = [*b2.answer("w2"), *b3.answer("w3")]
    assert sorted(task.id for task in tasks) == [id_of("ada", sequence) for sequence in range(1, 6)]


@pytest.mark.parametrize("why", ["no worker", "busy", "draining", "visited", "full ledger", "too many bytes"])
def test_task_that_cannot_be_taken_at_once_goes_back_at_once(why: str) -> None:
    limits = {"full ledger": Limits(accepted=1), "too many bytes": Limits(accepted_bytes=7)}
    desk = Desk(identity="b1", limits=limits.get(why, Limits()))
    b2 = Neighbour(desk)
    if why != "no worker":
        desk.worker("w", "echo", capacity=2 if why in limits else 1)
    if why in ("busy", "draining", *limits):
        desk.client("ada").submit("echo")
    if why == "draining":
        desk.worker("w2", "echo")
        desk.manage("drain")
    options = msgspec.msgpack.encode(["b1"]) if why == "visited" else b""
    (reply,) = said(b2.forward(1, "echo", attempt=3, options=options), TaskReply, "b2")
    assert (reply.id, reply.attempt, reply.status, reply.final) == (b2.id(1), 3, Status.RETURNED, True)
    assert desk.broker.census().queued == 0, "only the origin queues"


def test_task_that_went_back_to_its_origin_was_never_accepted(desk: Desk) -> None:
    worker = desk.worker("w", "echo")
    b2 = Neighbour(desk)
    task = only_task(b2.forward(1, "echo", attempt=2), "w")
    assert task.attempt == 2, "the origin counts attempts"
    (reply,) = said(worker.give_back(task), TaskReply, "b2")
    assert (reply.status, reply.attempt) == (Status.RETURNED, 2)
    census = desk.broker.census()
    assert (census.accepted, census.replied, census.in_flight) == (0, 0, 0)


def test_repeated_task_of_the_same_origin_changes_nothing(desk: Desk) -> None:
    worker = desk.worker("w", "echo", capacity=2)
    b2 = Neighbour(desk)
    task = only_task(b2.forward(1, "echo"), "w")
    assert b2.forward(1, "echo") == []
    assert bodies(worker.reply(task)) == [("b2", b"done")]


def test_attempt_that_its_origin_holds_for_lost_leaves_no_room_for_another(desk: Desk) -> None:
    worker = desk.worker("w", "echo", capacity=2)
    b2 = Neighbour(desk)
    task = only_task(b2.forward(1, "echo"), "w")
    (reply,) = said(b2.forward(1, "echo", attempt=2), TaskReply)
    assert (reply.status, reply.attempt) == (Status.RETURNED, 2)
    assert bodies(worker.reply(task)) == [("b2", b"done")]


# --- a worker is lost -----------------------------------------------------------------------------------------------


def test_lost_worker_is_told_to_the_origin_and_the_origin_repeats() -> None:
    mesh, b1, b2 = pair(idempotent=True)
    b1.submit("ada", 1, "echo")
    b2.worker("w2", "echo", idempotent=True)
    mesh.run(SHORTLY_S)
    b2.say("w", WORKER, Disconnect())
    assert [error.code for error in mesh.between("b2", "b1", Error)] == [502]
    (again,) = b2.answer("w2")
    assert again.attempt == 2
    assert b1.bodies("ada") == [b"done"]
    assert b2.state.dead_letters.total == 0


def test_lost_worker_of_a_service_that_is_not_idempotent_is_502_at_the_client() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b2.say("w", WORKER, Disconnect())
    (error,) = b1.heard("ada", Error)
    assert error.code == 502
    assert "b2: worker w is gone" in error.text
    assert (b1.state.dead_letters.total, b2.state.dead_letters.total) == (1, 0), "the origin has it"


def test_lost_broker_is_a_lost_worker() -> None:
    mesh, (b1, b2, b3) = network_of({"b1": {}, "b2": {}, "b3": {}})
    b2.worker("w2", "pure", idempotent=True)
    b2.worker("w2b", "once")
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.submit("ada", 1, "pure")
    b1.submit("ada", 2, "once")
    b3.worker("w3", "pure", idempotent=True)
    mesh.run(SHORTLY_S)
    b2.kill()
    mesh.run(10.0)
    assert [task.attempt for task in b3.answer("w3")] == [2]
    assert b1.bodies("ada") == [b"done"]
    assert b1.codes("ada") == [502], "it may have run"


# --- cancel ---------------------------------------------------------------------------------------------------------


def test_cancel_of_a_forwarded_task_reaches_its_worker_and_the_first_final_settles_it() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b1.say("ada", CLIENT, Cancel(id=id_of("ada", 1)))
    assert [cancel.id for cancel in b2.heard("w", Cancel)] == [id_of("ada", 1)]
    b2.answer("w", status=Status.FAILED)
    assert b1.codes("ada") == [499]


def test_reply_that_overtakes_the_cancel_wins() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b1.say("ada", CLIENT, Cancel(id=id_of("ada", 1)))
    b2.answer("w")
    assert b1.bodies("ada") == [b"done"]
    assert b1.codes("ada") == []


def test_cancelled_task_that_never_started_is_499() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b1.say("ada", CLIENT, Cancel(id=id_of("ada", 1)))
    b2.answer("w", b"", status=Status.RETURNED)
    assert b1.codes("ada") == [499]


def test_only_the_origin_may_cancel(desk: Desk) -> None:
    worker = desk.worker("w", "echo")
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    task = only_task(b2.forward(1, "echo"), "w")
    assert codes(b3.say(Cancel(id=task.id))) == [("b3", 502)], "of such a task it has nothing here"
    assert bodies(worker.reply(task)) == [("b2", b"done")]


# --- deadlines ------------------------------------------------------------------------------------------------------


def test_deadline_passes_at_both_brokers_and_the_client_gets_one_504() -> None:
    mesh, b1, b2 = pair()
    b1.submit("ada", 1, "echo", timeout_s=2.0)
    mesh.run(3.0)
    assert b1.codes("ada") == [504]
    assert len(b2.heard("w", Cancel)) >= 1
    assert b2.state.ledger.entries == {}
    b2.answer("w")
    assert b1.bodies("ada") == [], "a late reply is discarded"
    b1.submit("ada", 2, "echo")
    mesh.run(SHORTLY_S)
    b2.answer("w")
    assert b1.bodies("ada") == [b"done"], "and the slot is free again at both"


def test_origin_does_not_wait_for_a_peer_that_says_nothing() -> None:
    mesh, b1, _ = pair()
    b1.submit("ada", 1, "echo", timeout_s=2.0)
    mesh.cut("b1", "b2")
    mesh.run(2.2)
    assert b1.codes("ada") == [504]


# --- what counts as a reply -----------------------------------------------------------------------------------------


def test_reply_counts_only_if_id_attempt_and_peer_match(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    b2.offer("echo")
    task = only_task(desk.client("ada").submit("echo"), "b2")
    assert bodies(b3.reply(task)) == []
    assert bodies(b2.say(TaskReply(task.id, (b"old",), task.attempt + 1))) == []
    assert bodies(b2.say(TaskReply(b2.id(9), (b"what",), 1))) == []
    assert desk.counters["late_replies"] == 3
    assert bodies(b2.reply(task)) == [("ada", b"done")]
    assert bodies(b2.reply(task)) == [], "once"


def test_part_of_a_task_that_is_settled_is_discarded(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    task = only_task(desk.client("ada").submit("echo"), "b2")
    b2.reply(task)
    assert b2.reply(task, b"part", final=False) == []
    assert desk.counters["late_replies"] == 1


def test_cancelled_task_that_a_peer_reports_as_failed_is_499(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    client = desk.client("ada")
    task = only_task(client.submit("echo"), "b2")
    client.cancel(1)
    assert codes(b2.reply(task, b"stopped", status=Status.FAILED)) == [("ada", 499)]


def test_error_counts_only_from_the_peer_that_has_the_task(desk: Desk) -> None:
    b2, b3 = Neighbour(desk, "b2"), Neighbour(desk, "b3")
    b2.offer("echo")
    task = only_task(desk.client("ada").submit("echo"), "b2")
    assert b3.say(Error(code=502, text="gone", id=task.id)) == []
    assert codes(b2.say(Error(code=413, text="too large", id=task.id))) == [("ada", 413)]


def test_unknown_code_of_a_newer_peer_is_a_lost_attempt(desk: Desk) -> None:
    b2 = Neighbour(desk)
    b2.offer("echo")
    task = only_task(desk.client("ada").submit("echo"), "b2")
    assert codes(b2.say(Error(code=599, text="no words", id=task.id))) == [("ada", 502)]


# --- the client comes here itself -----------------------------------------------------------------------------------


def test_client_that_lost_its_origin_gets_its_outcome_where_the_task_runs() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b1.kill()
    b2.client("ada")
    b2.submit("ada", 1, "echo", flags=Flag.RESENT)
    assert b2.codes("ada") == [], "it is not repeatable, and need not be"
    assert len(b2.answer("w")) == 1
    assert b2.bodies("ada") == [b"done"]
    assert b2.state.counters["forwarded_adopted"] == 1


def test_origin_is_told_301_when_the_client_has_gone_to_the_other_broker() -> None:
    mesh, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b2.client("ada")
    b2.submit("ada", 1, "echo", flags=Flag.RESENT)
    assert [error.code for error in mesh.between("b2", "b1", Error)] == [301]
    assert b1.state.ledger.entries == {}
    assert b1.state.outcomes.count == 0, "301 is no outcome that a resend should get"
    b2.answer("w")
    assert b2.bodies("ada") == [b"done"]
    assert b1.bodies("ada") == []


def test_adopted_task_belongs_to_its_new_broker() -> None:
    mesh, b1, b2 = pair(idempotent=True)
    b1.submit("ada", 1, "echo")
    b2.client("ada")
    b2.submit("ada", 1, "echo", flags=Flag.RESENT)
    b2.worker("w2", "echo", idempotent=True)
    mesh.run(SHORTLY_S)
    b2.say("w", WORKER, Disconnect())
    (again,) = b2.answer("w2")
    assert again.attempt == 2, "it is repeated here"
    assert b2.bodies("ada") == [b"done"]


def test_client_that_comes_back_gets_the_outcome_that_was_kept_though_its_task_runs_for_another_broker() -> None:
    mesh, b1, b2 = pair(idempotent=True)
    b2.client("ada")
    b2.submit("ada", 1, "echo")
    b2.answer("w")
    assert b2.bodies("ada") == [b"done"]
    b1.submit("ada", 1, "echo", flags=Flag.RESENT)  # she had gone to the other one meanwhile
    mesh.run(SHORTLY_S)
    b2.submit("ada", 1, "echo", flags=Flag.RESENT)
    assert b2.bodies("ada") == [b"done"]
    assert b2.state.counters["forwarded_adopted"] == 0


def test_task_that_its_client_has_asked_for_here_is_returned_to_a_former_origin(desk: Desk) -> None:
    worker = desk.worker("w", "echo", capacity=2, idempotent=True)
    b2 = Neighbour(desk)
    bob = desk.client("bob")
    task = only_task(bob.submit("echo", flags=Flag.RESENT), "w")
    (reply,) = said(b2.forward(1, "echo"), TaskReply)
    assert reply.status == Status.RETURNED
    assert bodies(worker.reply(task)) == [("bob", b"done")]


def test_client_cannot_take_what_another_client_sent() -> None:
    _, b1, b2 = pair()
    b1.submit("ada", 1, "echo")
    b2.client("eve")
    b2.say("eve", CLIENT, Task(id_of("ada", 1), "echo", (b"body",), 30_000, flags=Flag.RESENT))
    assert b2.codes("eve") == [400]
    b2.answer("w")
    assert b1.bodies("ada") == [b"done"]


# --- other dialects -------------------------------------------------------------------------------------------------


def test_req_client_gets_one_answer_with_the_parts_joined() -> None:
    _, b1, b2 = pair()
    b1.say("req", REQ_CLIENT, Connect(identity="req", nonce=CLIENT_NONCE))
    b1.say("req", REQ_CLIENT, Task(id_of("req", 1), "echo", (b"body",), 30_000))
    (task,) = b2.heard("w", Task)
    b2.say("w", WORKER, TaskReply(task.id, (b"one ",), task.attempt, part=0, final=False))
    b2.say("w", WORKER, TaskReply(task.id, (b"two",), task.attempt, part=1))
    (reply,) = b1.heard("req", TaskReply)
    assert (b"".join(reply.body), reply.final) == (b"one two", True)


def test_joined_parts_are_no_obstacle_to_a_repetition() -> None:
    mesh, b1, b2 = pair(idempotent=True)
    b1.say("req", REQ_CLIENT, Connect(identity="req", nonce=CLIENT_NONCE))
    b1.say("req", REQ_CLIENT, Task(id_of("req", 1), "echo", (b"body",), 30_000))
    (task,) = b2.heard("w", Task)
    b2.say("w", WORKER, TaskReply(task.id, (b"half",), task.attempt, part=0, final=False))
    b2.worker("w2", "echo", idempotent=True)
    mesh.run(SHORTLY_S)
    b2.say("w", WORKER, Disconnect())
    b2.answer("w2", b"whole")
    assert b1.bodies("req") == [b"whole"]


def test_req_worker_at_another_broker_serves() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.say("w", REQ_WORKER, Connect(identity="w", nonce=WORKER_NONCE, services=["echo"]))
    b2.say("w", REQ_WORKER, Ready(services=[ServiceOffer("echo")]))
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    (task,) = b2.heard("w", Task)
    b2.say("w", REQ_WORKER, TaskReply(task.id, (b"done",), task.attempt))
    assert b1.bodies("ada") == [b"done"]


@pytest.mark.parametrize("dialect", [MDP1_CLIENT, MDP2_CLIENT])
def test_majordomo_client_is_served_by_a_worker_at_another_broker(dialect: Dialect) -> None:
    _, b1, b2 = pair()
    b1.say("mdp", dialect, MdpRequest("echo", (b"hello",)))
    (task,) = b2.answer("w")
    assert task.body == (b"hello",)
    assert b1.heard("mdp", MdpResult) == [MdpResult("echo", (b"done",))]


@pytest.mark.parametrize("dialect", [MDP1_WORKER, MDP2_WORKER])
def test_majordomo_worker_at_another_broker_serves(dialect: Dialect) -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.say("w", dialect, MdpReady("echo"))
    mesh.run(SHORTLY_S)
    b1.client("ada")
    b1.submit("ada", 1, "echo")
    (task,) = b2.heard("w", MdpTask)
    b2.say("w", dialect, MdpReply(task.address, (b"done",)))
    assert b1.bodies("ada") == [b"done"]
    b1.submit("ada", 2, "echo")
    mesh.run(SHORTLY_S)
    assert len(b2.heard("w", MdpTask)) == 1, "its slot is free again"


def test_majordomo_request_waits_at_its_origin_until_a_peer_has_a_worker() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b1.say("mdp", MDP1_CLIENT, MdpRequest("echo", (b"hello",)))
    mesh.run(1.0)
    b2.worker("w", "echo")
    mesh.run(SHORTLY_S)
    b2.answer("w")
    assert b1.heard("mdp", MdpResult) == [MdpResult("echo", (b"done",))]


# --- resent tasks ---------------------------------------------------------------------------------------------------


def test_resent_task_waits_for_a_peers_word_whether_it_may_run_again() -> None:
    desk = Desk(identity="b1", is_settled=False)
    b2 = Neighbour(desk)
    ada, bob = desk.client("ada"), desk.client("bob")
    ada.submit("pure", flags=Flag.RESENT)
    bob.submit("once", flags=Flag.RESENT)
    assert tasks_to(b2.offer("pure", credit=1, idempotent=True, max_attempts=3)) == ["b2"]
    assert codes(b2.offer("once", credit=1)) == [("bob", 502)]


def test_status_of_a_peer_without_workers_is_no_word() -> None:
    desk = Desk(identity="b1", is_settled=False)
    b2 = Neighbour(desk)
    desk.client("ada").submit("pure", flags=Flag.RESENT)
    assert codes(b2.offer("pure", workers=0, credit=0, queued=3)) == []
    assert codes(b2.say(status())) == []
