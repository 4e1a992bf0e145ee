"""Majordomo 0.1 and 0.2 and MMI, strict to RFC 7, 8 and 18."""

from __future__ import annotations

import pytest

from scale0.core.settings import Limits, ServiceSettings
from scale0.errors import ProtocolError
from scale0.protocol.dialects import MDP1_CLIENT, MDP1_WORKER, MDP2_CLIENT, MDP2_WORKER, Dialect
from scale0.protocol.majordomo import (
    MdpDisconnect,
    MdpHeartbeat,
    MdpReady,
    MdpReply,
    MdpRequest,
    MdpResult,
    MdpTask,
)
from scale0.protocol.messages import Status
from tests.core.desk import Desk, Sent, bodies, only_task
from tests.core.neighbour import Neighbour

CLIENTS = [MDP1_CLIENT, MDP2_CLIENT]
WORKERS = [MDP1_WORKER, MDP2_WORKER]


def mdp_task(sent: Sent, to: str) -> MdpTask:
    found = [(name, message) for name, message in sent if isinstance(message, MdpTask)]
    assert [name for name, _ in found] == [to], sent
    task = found[0][1]
    assert isinstance(task, MdpTask)
    return task


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("worker", WORKERS)
def test_request_and_reply_in_any_version(desk: Desk, client: Dialect, worker: Dialect) -> None:
    assert desk.say("w", worker, MdpReady("echo")) == [], "READY has no answer"
    task = mdp_task(desk.say("c", client, MdpRequest("echo", (b"a", b"b"))), "w")
    assert task.body == (b"a", b"b")
    sent = desk.say("w", worker, MdpReply(task.address, (b"re",)))
    assert sent == [("c", MdpResult("echo", (b"re",)))]


@pytest.mark.parametrize("client", CLIENTS)
def test_majordomo_client_is_served_by_a_native_worker(desk: Desk, client: Dialect) -> None:
    worker = desk.worker("w", "echo")
    task = only_task(desk.say("c", client, MdpRequest("echo", (b"a",))), "w")
    assert worker.reply(task) == [("c", MdpResult("echo", (b"done",)))]


@pytest.mark.parametrize("worker", WORKERS)
def test_native_client_is_served_by_a_majordomo_worker(desk: Desk, worker: Dialect) -> None:
    desk.say("w", worker, MdpReady("echo"))
    task = mdp_task(desk.client("ada").submit("echo", b"a"), "w")
    assert bodies(desk.say("w", worker, MdpReply(task.address, (b"re",)))) == [("ada", b"re")]


def test_majordomo_and_native_workers_are_balanced_together(desk: Desk) -> None:
    desk.say("m", MDP1_WORKER, MdpReady("echo"))
    desk.worker("n", "echo")
    client = desk.client("ada")
    assert [client.submit("echo")[0][0] for _ in range(2)] == ["m", "n"]


def test_request_for_a_service_that_nobody_offers_waits_and_expires() -> None:
    desk = Desk(service={"late": ServiceSettings(timeout_s=30)})
    desk.say("c", MDP1_CLIENT, MdpRequest("never", (b"a",)))
    desk.say("c", MDP1_CLIENT, MdpRequest("late", (b"a",)))
    mdp_task(desk.say("w", MDP1_WORKER, MdpReady("late")), "w")
    assert desk.broker.census().queued == 1
    sent = desk.pass_time(61, steps=30)
    assert [message for name, message in sent if name == "c"] == [], "errors reach Majordomo clients as silence"
    assert desk.counters["majordomo_errors_unsaid"] == 2


@pytest.mark.parametrize("worker", WORKERS)
def test_ready_twice_is_answered_by_disconnect(desk: Desk, worker: Dialect) -> None:
    desk.say("w", worker, MdpReady("echo"))
    assert desk.say("w", worker, MdpReady("echo")) == [("w", MdpDisconnect())]
    assert desk.broker.state.services.by_name["echo"].workers == {}


@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize("message", [MdpHeartbeat(), MdpReply(b"x" * 30, (b"re",))])
def test_unexpected_command_before_ready_is_answered_by_disconnect(
    desk: Desk, worker: Dialect, message: MdpHeartbeat | MdpReply
) -> None:
    assert desk.say("w", worker, message) == [("w", MdpDisconnect())]


@pytest.mark.parametrize("worker", WORKERS)
def test_disconnect_before_ready_is_allowed(desk: Desk, worker: Dialect) -> None:
    assert desk.say("w", worker, MdpDisconnect()) == []


def test_disconnect_loses_the_workers_task(desk: Desk) -> None:
    desk.say("w", MDP1_WORKER, MdpReady("echo"))
    mdp_task(desk.client("ada").submit("echo"), "w")
    (_, error), *_ = desk.say("w", MDP1_WORKER, MdpDisconnect())
    assert getattr(error, "code", 0) == 502


@pytest.mark.parametrize("name", ["mmi.service", "mmi.own", "scale0.services"])
def test_reserved_service_cannot_be_registered(desk: Desk, name: str) -> None:
    assert desk.say("w", MDP1_WORKER, MdpReady(name)) == [("w", MdpDisconnect())]


@pytest.mark.parametrize("client", CLIENTS)
def test_mmi_service_says_200_or_404_and_any_other_mmi_501(desk: Desk, client: Dialect) -> None:
    desk.say("w", MDP1_WORKER, MdpReady("echo"))
    for name, asked, answer in (
        ("mmi.service", b"echo", b"200"),
        ("mmi.service", b"other", b"404"),
        ("mmi.service", b"scale0.services", b"200"),
        ("mmi.discovery", b"echo", b"501"),
    ):
        assert desk.say("c", client, MdpRequest(name, (asked,))) == [("c", MdpResult(name, (answer,)))]


def test_heartbeats_go_both_ways(desk: Desk) -> None:
    desk.say("w", MDP1_WORKER, MdpReady("echo"))
    for _ in range(20):
        assert ("w", MdpHeartbeat()) in desk.pass_time(2.6)
        assert desk.say("w", MDP1_WORKER, MdpHeartbeat()) == []


def test_silent_idle_worker_is_gone(desk: Desk) -> None:
    desk.say("w", MDP1_WORKER, MdpReady("echo"))
    desk.pass_time(20, steps=10)
    assert desk.broker.state.services.by_name["echo"].workers == {}


def test_silent_worker_that_holds_a_task_is_not_expired_but_an_unroutable_heartbeat_shows_it_gone(desk: Desk) -> None:
    desk.say("w", MDP1_WORKER, MdpReady("echo"))
    client = desk.client("ada")
    client.submit("echo", timeout_s=300)
    desk.pass_time(60, steps=10)
    assert len(desk.broker.state.services.by_name["echo"].workers) == 1
    client.ping()
    desk.pass_time(2.6)
    (_, error), *_ = desk.fail(desk.sends[0], "unroutable")
    assert getattr(error, "code", 0) == 502


def test_partial_replies_pass_to_02_and_are_joined_for_01(desk: Desk) -> None:
    for client, expected in (
        (MDP2_CLIENT, [MdpResult("echo", (b"1",), False), MdpResult("echo", (b"2",), True)]),
        (MDP1_CLIENT, [MdpResult("echo", (b"1", b"2"), True)]),
    ):
        desk.say("w", MDP2_WORKER, MdpReady("echo"))
        task = mdp_task(desk.say("c" + client.name, client, MdpRequest("echo", (b"a",))), "w")
        sent = desk.say("w", MDP2_WORKER, MdpReply(task.address, (b"1",), final=False))
        sent += desk.say("w", MDP2_WORKER, MdpReply(task.address, (b"2",)))
        assert [message for _, message in sent] == expected
        desk.say("w", MDP2_WORKER, MdpDisconnect())


def test_native_parts_reach_a_02_client(desk: Desk) -> None:
    worker = desk.worker("w", "count")
    task = only_task(desk.say("c", MDP2_CLIENT, MdpRequest("count", (b"a",))), "w")
    assert worker.reply(task, b"1", part=0, final=False) == [("c", MdpResult("count", (b"1",), False))]
    assert worker.reply(task, b"", part=1) == [("c", MdpResult("count", (b"",), True))]


def test_two_requests_of_one_01_client_do_not_mix_their_parts(desk: Desk) -> None:
    worker = desk.worker("w", "count", capacity=2)
    first = only_task(desk.say("c", MDP1_CLIENT, MdpRequest("count", (b"a",))), "w")
    second = only_task(desk.say("c", MDP1_CLIENT, MdpRequest("count", (b"b",))), "w")
    worker.reply(first, b"1", part=0, final=False)
    worker.reply(second, b"x", part=0, final=False)
    assert worker.reply(first, b"2", part=1) == [("c", MdpResult("count", (b"1", b"2")))]
    assert worker.reply(second, b"y", part=1) == [("c", MdpResult("count", (b"x", b"y")))]


def test_failed_reply_of_a_native_worker_is_silence_for_a_majordomo_client(desk: Desk) -> None:
    worker = desk.worker("w", "echo")
    task = only_task(desk.say("c", MDP1_CLIENT, MdpRequest("echo", (b"a",))), "w")
    assert worker.reply(task, status=Status.FAILED) == []


def test_reply_under_a_foreign_address_is_discarded(desk: Desk) -> None:
    desk.say("w1", MDP1_WORKER, MdpReady("echo"))
    task = mdp_task(desk.client("ada").submit("echo"), "w1")
    desk.say("w2", MDP1_WORKER, MdpReady("echo"))
    assert desk.say("w2", MDP1_WORKER, MdpReply(task.address, (b"stolen",))) == []
    assert desk.say("w1", MDP1_WORKER, MdpReply(b"short", (b"re",))) == []
    assert desk.counters["late_replies"] == 2


def test_unexpected_command_of_the_codec_is_answered_by_disconnect_and_an_invalid_one_dropped(desk: Desk) -> None:
    desk.say("w", MDP1_WORKER, MdpReady("echo"))
    assert desk.garble("w", MDP1_WORKER, ProtocolError(400, "invalid")) == []
    assert desk.garble("w", MDP1_WORKER, ProtocolError(501, "REQUEST")) == [("w", MdpDisconnect())]


@pytest.mark.parametrize("dialect", [*CLIENTS, *WORKERS])
def test_unexpected_command_on_a_link_between_brokers_leaves_the_link(desk: Desk, dialect: Dialect) -> None:
    b2 = Neighbour(desk)
    desk.garble("b2", dialect, ProtocolError(501, "REQUEST"))
    assert b2.is_linked()


def test_majordomo_sessions_are_limited() -> None:
    desk = Desk(limits=Limits(sessions=2))
    for n in range(5):
        desk.say(f"c{n}", MDP1_CLIENT, MdpRequest("mmi.service", (b"x",)))
    assert len(desk.broker.state.sessions) == 2
    assert desk.say("w", MDP1_WORKER, MdpReady("echo")) == [("w", MdpDisconnect())]
