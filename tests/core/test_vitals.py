"""The last quarter of an hour: points, rates, who comes often, who presses."""

from __future__ import annotations

import pytest

from scale0.core import vitals
from scale0.core.vitals import COMINGS, POINTS
from scale0.protocol.dialects import MDP1_CLIENT
from scale0.protocol.majordomo import MdpRequest
from scale0.protocol.messages import Disconnect, Status
from tests.core.desk import Desk, only_task
from tests.core.mesh import pair_of


@pytest.fixture
def desk() -> Desk:
    return Desk()


def keep_alive(desk: Desk, seconds: int, *speakers: object) -> None:
    """Time passes, and they are heard."""
    for _ in range(seconds):
        desk.pass_time(1.0)
        for speaker in speakers:
            speaker.ping()  # type: ignore[attr-defined]


def test_point_tells_what_happened_in_its_five_seconds(desk: Desk) -> None:
    worker, client = desk.worker("w", "greet", capacity=10), desk.client("ada")
    keep_alive(desk, 5, worker, client)
    before = len(vitals.history(desk.broker.state)["at_us"])
    for _ in range(3):
        task = only_task(client.submit("greet"), "w")
        desk.pass_time(0.01)
        worker.reply(task)
    client.submit("nobody")
    worker.reply(only_task(client.submit("greet"), "w"), status=Status.FAILED)
    client.submit("greet")
    keep_alive(desk, 5, worker, client)
    told = vitals.history(desk.broker.state)
    assert len(told["at_us"]) == before + 1
    assert (told["accepted"][-1], told["replied"][-1]) == (5, 4)
    assert 10_000 <= told["p90_us"][-1] <= 13_000
    assert (told["errors"]["caller"][-1], told["failed"][-1]) == (1, 1)
    assert told["p50_us"][0] is None, "nothing was settled then"
    columns = [told[name] for name in ("at_us", "accepted", "replied", "p50_us", "p90_us", "p99_us", "failed")]
    assert {len(column) for column in (*columns, *told["errors"].values())} == {before + 1}


def test_points_that_were_missed_are_empty_and_the_history_is_bounded(desk: Desk) -> None:
    desk.pass_time(23.0)
    told = vitals.history(desk.broker.state)
    steps_us = {later - sooner for sooner, later in zip(told["at_us"], told["at_us"][1:], strict=False)}
    assert steps_us == {5_000_000}
    assert told["accepted"] == [0] * len(told["accepted"])
    desk.pass_time(86_400.0)
    assert len(vitals.history(desk.broker.state)["at_us"]) == POINTS


def test_figures_are_of_the_last_half_minute(desk: Desk) -> None:
    worker, client = desk.worker("w", "greet", capacity=1000), desk.client("ada")
    for _ in range(30):
        for _ in range(4):
            worker.reply(only_task(client.submit("greet"), "w"))
        keep_alive(desk, 1, worker, client)
    figures = vitals.figures(desk.broker.state)
    assert figures["tasks_per_s"] == pytest.approx(4.0, abs=0.8)
    assert figures["replies_per_s"] == figures["tasks_per_s"]
    assert figures["p50_us"] is not None
    keep_alive(desk, 70, worker, client)
    assert vitals.figures(desk.broker.state)["tasks_per_s"] == 0.0
    assert vitals.figures(desk.broker.state)["p50_us"] is None


def test_errors_are_of_the_last_minute(desk: Desk) -> None:
    client = desk.client("ada")
    client.submit("nobody")
    assert vitals.figures(desk.broker.state)["errors_per_min"] == 1
    desk.pass_time(6.0)
    assert vitals.figures(desk.broker.state)["errors_per_min"] == 1
    desk.pass_time(66.0, steps=66)
    assert vitals.figures(desk.broker.state)["errors_per_min"] == 0


def test_worker_that_comes_often_is_seen_for_an_hour(desk: Desk) -> None:
    for turn in range(5):
        worker = desk.worker("w", "greet", nonce=bytes([turn]) * 8)
        worker.say(Disconnect())
        desk.pass_time(60.0)
    worker = desk.worker("w", "greet")
    worker.connect(route="elsewhere")
    assert vitals.comings_per_h(desk.broker.state, "w") == 7
    desk.pass_time(3420.0)
    assert vitals.comings_per_h(desk.broker.state, "w") == 4
    assert vitals.comings_per_h(desk.broker.state, "nobody") == 0


def test_comings_are_bounded_for_one_and_for_all(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals, "COMERS", 10)
    for number in range(COMINGS + 5):
        vitals.note_coming(desk.broker.state, "w")
        vitals.note_coming(desk.broker.state, f"w{number}")
    assert vitals.comings_per_h(desk.broker.state, "w") == COMINGS
    assert len(desk.broker.state.vitals.comings) == 10


def test_pace_of_a_client_follows_its_count(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=1000)
    client = desk.client("ada")
    state = desk.broker.state
    session = state.sessions.by_identity["ada"]
    assert vitals.pace(state, session) is None, "no time has passed"
    for _ in range(12):
        client.submit("greet")
        client.submit("greet")
        keep_alive(desk, 1, client)
    assert vitals.pace(state, session) == pytest.approx(2.0, abs=0.3)
    session.highest = 2**64 - 1  # as of one that came back to a pair, whose count is not known
    assert vitals.pace(state, session) is None


def test_pace_of_a_majordomo_client_is_known_too(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=100)
    for _ in range(10):
        desk.say("m", MDP1_CLIENT, MdpRequest("greet", (b"x",)))
    desk.pass_time(2.0)
    (session,) = [one for one in desk.broker.state.sessions.by_identity.values() if one.worker is None]
    assert vitals.pace(desk.broker.state, session) == pytest.approx(5.0)


def test_many_clients_have_their_turns_one_after_another(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vitals, "PACED", 2)
    clients = [desk.client(f"c{number}") for number in range(5)]
    state = desk.broker.state
    for _ in range(3):
        keep_alive(desk, 5, *clients)
    assert all(state.sessions.by_identity[client.identity].paces for client in clients)


def test_errors_of_a_client_are_of_the_last_five_minutes(desk: Desk) -> None:
    client = desk.client("ada")
    state = desk.broker.state
    session = state.sessions.by_identity["ada"]
    for _ in range(14):
        client.submit("nobody")
        keep_alive(desk, 30, client)
    assert 9 <= vitals.errors_5m(state, session) <= 10
    assert len(session.troubles) <= vitals.TROUBLE_SLOTS + 1


def test_counts_that_fall_when_another_broker_goes_on_make_no_negative_point() -> None:
    mesh, primary, fallback = pair_of()
    primary.client("ada")
    primary.worker("w", "greet")
    for sequence in range(1, 4):
        primary.submit("ada", sequence, "greet")
    mesh.run(6.0)
    primary.manage("handover")
    mesh.run(15.0)
    assert (primary.mode, fallback.mode) == ("passive", "active")
    for node in (primary, fallback):
        assert min(vitals.history(node.state)["accepted"]) >= 0
