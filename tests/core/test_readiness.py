"""READY: services and capacity, one by one and at run time (rules 5, 17, 29)."""

from __future__ import annotations

from scale0.protocol.dialects import WORKER
from scale0.protocol.ids import id_prefix, make_id
from scale0.protocol.messages import (
    Disconnect,
    ForceNegotiate,
    Ready,
    ReadyOk,
    ServiceOffer,
    TaskReply,
)
from tests.core.desk import NONCE, Desk, codes, only


def test_heartbeat_interval_is_raised_to_the_floor_and_may_be_longer(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    for asked_ms, agreed_ms in ((100, 2500), (0, 2500), (7000, 7000)):
        ok = only(worker.ready(heartbeat_interval_ms=asked_ms), "w")
        assert isinstance(ok, ReadyOk)
        assert ok.heartbeat_interval_ms == agreed_ms


def test_reserved_and_unmanaged_services_are_refused_one_by_one() -> None:
    desk = Desk(services=["greet"])
    worker = desk.worker("w", "greet")
    worker.offers = [ServiceOffer(name) for name in ("greet", "other", "mmi.x", "scale0.x", "")]
    ok = only(worker.ready(), "w")
    assert isinstance(ok, ReadyOk)
    assert set(ok.refused) == {"other", "mmi.x", "scale0.x", ""}


def test_worker_of_which_all_services_are_unmanaged_is_moved() -> None:
    desk = Desk(services=["greet"])
    worker = desk.worker("w", "other")
    assert codes(worker.ready()) == [("w", 301)]


def test_too_many_services_or_slots_are_refused(desk: Desk) -> None:
    worker = desk.worker("w", "greet")
    assert codes(worker.ready(capacity=5000)) == [("w", 400)]
    worker.offers = [ServiceOffer(f"s{n}") for n in range(257)]
    assert codes(worker.ready()) == [("w", 400)]


def test_ready_before_connect_is_a_strangers(desk: Desk) -> None:
    sent = desk.say("w", WORKER, Ready(services=[ServiceOffer("greet")]))
    assert isinstance(only(sent, "w"), ForceNegotiate)


def test_terms_are_settled_anew_when_a_worker_leaves(desk: Desk) -> None:
    desk.worker("w1", "greet", idempotent=True, max_attempts=5)
    careless = desk.worker("w2", "greet", idempotent=False)
    service = desk.broker.state.services.by_name["greet"]
    assert service.idempotent is False
    careless.say(Disconnect())
    assert (service.idempotent, service.max_attempts) == (True, 5)
    assert dict(service.terms) == {(True, 5): 1}


def test_later_ready_that_lists_an_unknown_task_takes_a_slot_for_it(desk: Desk) -> None:
    worker = desk.worker("w", "greet", capacity=1)
    stranger = make_id(id_prefix("bob", NONCE), 7)
    worker.say(Ready(services=[ServiceOffer("greet")], capacity=1, in_flight=[stranger]))
    assert worker.state == "full"
    worker.say(TaskReply(stranger, (b"late",), 3))
    assert worker.state == "ready"


def test_workers_of_the_same_services_share_one_list_of_them(desk: Desk) -> None:
    for name, services in (("w1", ("greet", "add")), ("w2", ("greet", "add")), ("w3", ("greet",))):
        desk.worker(name, *services).ready()
    sessions = desk.broker.state.sessions.by_identity
    offered = {name: session.worker.services for name, session in sessions.items() if session.worker is not None}
    assert offered["w1"] is offered["w2"]
    assert [service.name for service in offered["w3"]] == ["greet"]
