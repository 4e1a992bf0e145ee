"""What the listings say of services, workers, clients and the broker."""

from __future__ import annotations

from typing import Any

import pytest

from scale0.core import listings
from scale0.core.management import COMMANDS, LISTINGS
from scale0.core.workers import RECENT
from scale0.errors import ProtocolError
from scale0.management import vocabulary
from scale0.protocol.dialects import CLIENT, MDP1_WORKER
from scale0.protocol.ids import show_id
from scale0.protocol.majordomo import MdpReady
from scale0.protocol.messages import Status
from tests.core.desk import Desk, only_task
from tests.core.mesh import SETTLED_S, network_of


@pytest.fixture
def desk() -> Desk:
    return Desk()


def rows(desk: Desk, what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = desk.manage("list", what=what)["rows"]
    return found


def row(desk: Desk, what: str) -> dict[str, Any]:
    (found,) = rows(desk, what)
    return found


def test_core_has_every_command_and_listing_of_the_vocabulary_and_no_other() -> None:
    assert set(COMMANDS) == set(vocabulary.COMMANDS)
    assert {"overview", *LISTINGS} == set(vocabulary.LISTINGS) - vocabulary.SHELL_LISTINGS


def test_columns_of_the_vocabulary_are_keys_of_the_rows() -> None:
    desk = Desk(identity="b1", advertise=["tcp://127.0.0.1:5555"])
    desk.worker("w", "greet")
    client = desk.client("ada")
    client.submit("greet")
    desk.garble("bad", CLIENT, ProtocolError(400, "no such thing"))
    from_the_shell = {"cpu_percent", "rss_bytes", "verdict", "alarms"}
    for what, listing in vocabulary.LISTINGS.items():
        if what in vocabulary.SHELL_LISTINGS:
            continue
        document = desk.manage("list", what=what)
        shown = [document] if what == "overview" else document["rows"]
        for one in shown:
            assert set(listing.columns) - from_the_shell <= set(one), what


def test_services_tell_errors_by_family(desk: Desk) -> None:
    worker, client = desk.worker("w", "greet", capacity=1), desk.client("ada")
    worker.reply(only_task(client.submit("greet"), "w"), status=Status.FAILED)
    client.submit("greet", timeout_s=1.0)
    client.submit("greet", timeout_s=1.0)
    client.submit("greet")
    client.cancel(4)
    desk.pass_time(1.1)
    told = row(desk, "services")
    assert told["errors_by_family"] == {"late": 2, "lost": 0, "refused": 0, "caller": 1}
    assert (told["failed_5m"], told["errors_5m"]) == (1, 4)


def test_refused_tasks_count_for_their_service_and_client() -> None:
    desk = Desk()
    desk.worker("w", "greet")
    client = desk.client("ada")
    desk.manage("drain")
    client.submit("greet")
    assert row(desk, "services")["errors_by_family"]["refused"] == 1
    assert row(desk, "clients")["errors_5m"] == 1


def test_service_whose_workers_are_all_busy_is_full(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=1)
    assert (row(desk, "services")["state"], row(desk, "services")["free"]) == ("ok", 1)
    desk.client("ada").submit("greet")
    desk.pass_time(0.1)
    told = row(desk, "services")
    assert (told["state"], told["free"], told["capacity"]) == ("full", 0, 1)


def test_service_that_only_peers_serve_is_at_peers_until_they_are_lost() -> None:
    mesh, (b1, b2) = network_of({"b1": {}, "b2": {}})
    b2.worker("w", "greet")
    mesh.run(0.5)
    (told,) = b1.rows("services")
    assert (told["state"], told["workers"]) == ("at peers", 0)
    b2.kill()
    mesh.run(2 * SETTLED_S)
    assert [told["state"] for told in b1.rows("services")] == ["no worker"]


def test_room_of_a_service_is_counted_again_only_when_that_costs_little(desk: Desk) -> None:
    desk.worker("w", "greet", capacity=4)
    state = desk.broker.state
    service = state.services.by_name["greet"]
    assert listings.look_at_room(state, service, memberships=1_000_000) == 1
    desk.client("ada").submit("greet")
    assert listings.look_at_room(state, service, memberships=1_000_000) == 0
    assert service.free == 4
    desk.pass_time(11.0)
    assert listings.look_at_room(state, service, memberships=1_000_000) in (0, 1)
    assert service.free != 4, "by now it is so old that it is counted again"


def test_workers_tell_how_they_do(desk: Desk) -> None:
    worker, client = desk.worker("w", "greet", capacity=20), desk.client("ada")
    told = row(desk, "workers")
    assert (told["p99_us"], told["tasks"], told["key"], told["sessions_per_h"]) == (None, [], None, 1)
    tasks = [only_task(client.submit("greet", timeout_s=60), "w") for _ in range(12)]
    desk.pass_time(2.0)
    worker.reply(tasks[0])
    worker.ping(config_version=desk.broker.state.config.packed_version)
    told = row(desk, "workers")
    assert told["p99_us"] == 2_000_000
    assert told["connected_us"] == 2_000_000
    assert told["tasks"] == [show_id(task.id) for task in tasks[1:9]], "eight of them are enough"
    assert told["is_behind"] is False
    desk.manage("config_apply", document='{"liveness": 9}')
    assert row(desk, "workers")["is_behind"] is True


def test_quick_tasks_of_a_worker_are_noted_too_and_few_are_kept(desk: Desk) -> None:
    worker, client = desk.worker("w", "greet"), desk.client("ada")
    for _ in range(RECENT + 10):
        task = only_task(client.submit("greet"), "w")
        desk.pass_time(0.01)
        worker.reply(task)
    desk.pass_time(0.2)
    recent = desk.broker.state.sessions.by_identity["w"].worker.recent  # type: ignore[union-attr]
    assert len(recent) == RECENT
    assert row(desk, "workers")["p99_us"] == pytest.approx(10_000)


def test_task_that_its_worker_never_answered_counts_as_slow(desk: Desk) -> None:
    desk.worker("w", "greet")
    desk.client("ada").submit("greet", timeout_s=3.0)
    desk.pass_time(3.1)
    assert row(desk, "workers")["p99_us"] >= 3_000_000


def test_places_in_the_lru_queue_are_those_of_the_shortest_wait(desk: Desk) -> None:
    desk.worker("w1", "a", "b")
    desk.worker("w2", "a")
    desk.worker("w3", "b")
    desk.worker("w4", "a", "b")
    places = {one["identity"]: one["lru"] for one in rows(desk, "workers")}
    assert places == {"w1": 1, "w2": 2, "w3": 2, "w4": 3}


def test_places_are_found_where_very_many_offer_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "PLACES_MANY", 10)
    for number in range(6):
        desk.worker(f"w{number}", "a", "b", "c")
    assert [one["lru"] for one in rows(desk, "workers")] == [1, 2, 3, 4, 5, 6]


def test_majordomo_worker_has_one_session_and_no_version(desk: Desk) -> None:
    desk.say("m", MDP1_WORKER, MdpReady("old"))
    told = row(desk, "workers")
    assert (told["sessions_per_h"], told["config_version"], told["is_behind"]) == (1, None, False)


def test_clients_tell_how_hard_they_press() -> None:
    desk = Desk()
    desk.worker("w", "greet", capacity=1)
    client = desk.client("ada")
    for _ in range(500):
        client.submit("greet")
    desk.pass_time(2.0)
    told = row(desk, "clients")
    assert told["open_tasks"] == 500
    assert told["limit_percent"] == 1.0, "of 50,000"
    assert told["tasks_per_s"] == pytest.approx(250.0)


def test_broker_tells_its_limits_and_whom_it_ignores(desk: Desk) -> None:
    desk.client("ada")
    for _ in range(7):
        desk.garble("bad", CLIENT, ProtocolError(400, "no such thing"))
    told = row(desk, "brokers")
    assert (told["connections"], told["clients"], told["error_clients"]) == (1, 1, 1)
    assert told["limits"] == {"tasks": 200_000, "queued_per_service": 50_000}


def test_list_gives_some_rows_after_others(desk: Desk) -> None:
    for number in range(5):
        desk.worker(f"w{number}", "greet")
    first = desk.manage("list", what="workers", limit=2)
    assert [one["identity"] for one in first["rows"]] == ["w0", "w1"]
    assert (first["total"], first["after"], first["complete"]) == (5, "2", False)
    last = desk.manage("list", what="workers", after="4", limit=2)
    assert ([one["identity"] for one in last["rows"]], last["after"]) == (["w4"], None)
    assert desk.manage("list", what="workers")["total"] == 5


@pytest.mark.parametrize(
    "arguments",
    [
        {"what": "secrets"},
        {"what": 7},
        {"after": "x"},
        {"after": -1},
        {"limit": "1e3"},
        {"limit": True},
        {"limit": [1]},
    ],
    ids=str,
)
def test_listing_that_cannot_be_made_says_why(desk: Desk, arguments: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError) as refused:
        desk.manage("list", **arguments)
    assert refused.value.code == 400


def test_no_listing_shows_a_body(desk: Desk) -> None:
    desk.worker("w", "greet")
    desk.client("ada").submit("greet", b"a secret body")
    for what in ("overview", *LISTINGS):
        assert "secret body" not in repr(desk.manage("list", what=what))
